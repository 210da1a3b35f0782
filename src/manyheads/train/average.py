"""Averaged weights: an exponential moving average beside the ones that are trained."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import get_ema_multi_avg_fn

from .parallel import local


class Average:
    """weights <- decay * weights + (1 - decay) * trained, after every step, from the initial weights on. Buffers (batch
    norm's statistics) are averages already and stay the model's own. Sharded like the model."""

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.model = model
        self.weights: dict[str, Tensor] = {name: p.detach().clone() for name, p in model.named_parameters()}
        self._blend = get_ema_multi_avg_fn(decay)

    def _pairs(self) -> tuple[list[Tensor], list[Tensor]]:
        """The averaged tensors and the trained ones, as stored here: FSDP may move its shards at the first forward."""
        return [local(t) for t in self.weights.values()], [local(p.detach()) for p in self.model.parameters()]

    @torch.no_grad()
    def update(self) -> None:
        """Take the step just made into the average."""
        mine, theirs = self._pairs()
        self._blend(mine, theirs, 0)  # the count matters to other averages

    @contextmanager
    def inside(self) -> Iterator[None]:
        """In here the model has the averaged weights; afterwards, to the bit, its own."""
        mine, theirs = self._pairs()
        with torch.no_grad():
            kept = [tensor.clone() for tensor in theirs]
            torch._foreach_copy_(theirs, mine)
        try:
            yield
        finally:
            with torch.no_grad():
                torch._foreach_copy_(self._pairs()[1], kept)
