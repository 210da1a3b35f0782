"""How much noise training adds: dropout of units, of attention weights, of whole residual branches."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass(frozen=True, slots=True)
class Rates:
    """Dropout rates of a model under training. They belong to a recipe, not to an architecture."""

    dropout: float = 0.0  # after output projections and inside MLPs
    attention: float = 0.0  # on attention weights
    path: float = 0.0  # on residual branches, the rate of the deepest layer

    def __post_init__(self) -> None:
        for name in ("dropout", "attention", "path"):
            rate = getattr(self, name)
            if not 0.0 <= rate < 1.0:
                raise ValueError(f"{name} rate is {rate}; write a number from 0 up to, not including, 1")


def rising(rate: float, layers: int) -> list[float]:
    """Drop-path rates that rise linearly from 0 at the first layer to `rate` at the last."""
    return [rate * i / max(1, layers - 1) for i in range(layers)]


class DropPath(nn.Module):
    """Zeroes a residual branch for whole samples with probability `rate`, and scales up the rest."""

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = rate

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or self.rate == 0.0:
            return x
        keep = torch.empty((x.shape[0],) + (1,) * (x.ndim - 1), device=x.device, dtype=x.dtype)
        return x * keep.bernoulli_(1 - self.rate).div_(1 - self.rate)
