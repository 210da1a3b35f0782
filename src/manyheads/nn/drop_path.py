"""Stochastic depth: whole residual branches left out at random, the deeper the more often."""

from __future__ import annotations

import torch
from torch import Tensor, nn


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
