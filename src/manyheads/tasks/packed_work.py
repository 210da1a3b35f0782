"""Work on packed text: what predicting the next token and predicting hidden tokens have in common."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from manyheads.data.randomness import Indices
from manyheads.data.text.token_blocks import Packed
from manyheads.data.upload import upload
from manyheads.nn.loss import IGNORED
from manyheads.spec.errors import UserError

from .held import dealt

EVALUATED = 16_384  # tokens of an evaluation step


@dataclass(eq=False)  # not frozen: torch.compile would trace every field of it
class PackedWork:
    """Sequences of `per_sample` tokens on a device; `held_out` of `held` are evaluated."""

    train: Packed
    held: Packed
    held_out: int
    device: torch.device
    per_sample: int

    unit, better, waited = "tokens", ("loss", "down"), 0.0

    @property
    def samples(self) -> int:
        """Sequences in an epoch."""
        return self.train.samples

    def asked(self, numbers: Indices) -> dict[str, Indices]:
        """What a model is given of these held-out sequences: `ids`, `targets` and whatever else it takes by name."""
        raise NotImplementedError

    def tally(self, model: nn.Module, share: tuple[int, int] = (0, 1)) -> dict[str, Tensor]:
        """Sums of losses and of predicted tokens over a part of the held-out sequences."""
        sums = torch.zeros(2, dtype=torch.float64, device=self.device)
        for numbers, counts in dealt(self.held_out, max(1, EVALUATED // self.per_sample), share):
            given = self.asked(numbers)
            tokens = int(counts.sum()) * given["targets"].shape[1]
            given["targets"] = np.where(counts[:, None], given["targets"], IGNORED)
            with torch.no_grad():
                mean = model(**{name: upload(part, self.device) for name, part in given.items()})
            sums += torch.stack((mean.double() * tokens, torch.full_like(mean, tokens).double()))
        return {"loss": sums[0], "tokens": sums[1]}

    def probe_batch(self, size: int) -> Tensor:
        """The first `size` held-out sequences, as a model is given them."""
        if size > self.held_out:
            raise UserError(f"a probe on {size} sequences: {self.held_out} are held out; write at most that many")
        return upload(self.asked(np.arange(size))["ids"], self.device)
