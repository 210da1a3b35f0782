"""A training step as one CUDA graph: a small model's step is mostly launches, and a replay is one launch."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor


class Captured:
    """Calls `step(*batch)`, which takes one optimizer step and returns its loss: the first `warm` times as it is, then
    as a recorded graph.

    The step must do the same work on the same tensors each time: parameters, gradients and optimizer state live where
    they lived when it was recorded, the learning rate is a tensor, and nothing waits for the device. Batches are copied
    into the recorded one's place, so their shapes stay. The loss returned is overwritten by the next call."""

    def __init__(self, step: Callable[..., Tensor], *, warm: int = 3) -> None:
        self.step, self.left = step, warm
        self.graph: torch.cuda.CUDAGraph | None = None
        self.batch: tuple[Tensor, ...] = ()
        self.loss = torch.empty(0)

    def __call__(self, *batch: Tensor) -> Tensor:
        """The loss of this step, on the device."""
        if self.graph is not None:
            for place, new in zip(self.batch, batch, strict=True):
                place.copy_(new)
            self.graph.replay()
            return self.loss
        if self.left:
            self.left -= 1
            return self._beside(batch)
        self.batch = tuple(part.clone() for part in batch)
        torch.cuda.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, capture_error_mode="thread_local"):  # others may read data meanwhile
            self.loss = self.step(*self.batch)
        self.graph.replay()  # recording ran nothing
        return self.loss

    def _beside(self, batch: tuple[Tensor, ...]) -> Tensor:
        """On a stream of its own, as PyTorch asks of what comes before a recording."""
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            loss = self.step(*batch)
        torch.cuda.current_stream().wait_stream(side)
        return loss
