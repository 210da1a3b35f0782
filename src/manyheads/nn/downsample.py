"""Entering a stage on a coarser grid: a convolution whose stride is its kernel, from a `Downsample` record."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from manyheads.spec.arch import side
from manyheads.spec.parts import Downsample
from manyheads.spec.rates import Rates

from .norm import make_norm


class DownsampleBlock(nn.Module):
    """positions + conv(norm(x)) on the token grid, each of the three as the record says; dropout where positions are.

    A grid that the kernel does not divide is padded with zeros at its end, after the norm: ceil(grid / kernel) tokens a
    side, as the record counts and as DaViT does. timm's VOLO would drop the last row and column of such a grid; none of
    its published sizes has one. `tokens` are those before."""

    group = "embedding"  # of the positions, the only parameter it owns itself

    def __init__(self, before: int, width: int, spec: Downsample, tokens: int, rates: Rates = Rates()) -> None:
        super().__init__()
        self.spec = spec
        self.grid = side(tokens)
        self.norm = make_norm(spec.norm, before)
        self.conv = nn.Conv2d(before, width, spec.kernel, stride=spec.kernel)
        self.conv.group = "local"  # type: ignore[assignment]
        rows = (-(-self.grid // spec.kernel)) ** 2
        self.positions = nn.Parameter(torch.zeros(rows, width)) if spec.positions else None
        self.drop = nn.Dropout(rates.dropout if spec.positions else 0.0)

    def forward(self, x: Float[Tensor, "batch tokens before"]) -> Float[Tensor, "batch fewer width"]:
        """Tokens of a square grid, row by row, to tokens of a smaller one."""
        pad = -self.grid % self.spec.kernel
        x = self.norm(x).transpose(1, 2).unflatten(-1, (self.grid, self.grid))
        x = self.conv(F.pad(x, (0, pad, 0, pad)) if pad else x).flatten(2).transpose(1, 2)
        return x if self.positions is None else self.drop(x + self.positions)
