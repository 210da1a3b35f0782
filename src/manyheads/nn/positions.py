"""Positions that follow from a formula: rotary positions, sinusoids, and XCiT's Fourier features of a grid."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from manyheads.spec.mixing import turned
from manyheads.spec.parts import Rope, RopeLlama3

from . import Part


class PositionTable(Part):
    """Numbers that follow from positions alone: computed, never saved.

    Moving or casting the module fills the table anew, so that a model cast to float64 does not keep float32's rounding,
    nor one that was in bfloat16 the rounding of bfloat16."""

    group = "embedding"
    table: Tensor

    def __init__(self, *shape: int) -> None:
        super().__init__()
        self.register_buffer("table", torch.empty(shape), persistent=False)

    def rows(self) -> Tensor:
        """The contents of the table."""
        raise NotImplementedError

    def reset(self) -> None:
        """Fill the table (also after materialising from the meta device)."""
        if self.table.device.type != "meta":
            self.table.copy_(self.rows())

    def _apply(self, fn: Callable[[Tensor], Tensor], *args: Any, **kwargs: Any) -> PositionTable:
        super()._apply(fn, *args, **kwargs)
        self.reset()
        return self


def frequencies(rope: Rope | RopeLlama3, head_dim: int) -> Float[Tensor, " pairs"]:
    """Radians per token of each pair of channels that turns. Llama 3 slows the long waves by `factor`, leaves the short
    ones and blends in between."""
    channels = turned(rope, head_dim)
    steps = torch.arange(0, channels, 2, dtype=torch.float64) / channels
    turn = 1.0 / rope.theta**steps
    if isinstance(rope, Rope):
        return turn / rope.stretch
    wave = 2 * math.pi / turn
    blend = (rope.trained / wave - rope.low) / (rope.high - rope.low)
    smooth = (1 - blend) * turn / rope.factor + blend * turn
    slow, fast = wave > rope.trained / rope.low, wave < rope.trained / rope.high
    return torch.where(slow, turn / rope.factor, torch.where(fast, turn, smooth))


class Rotary(PositionTable):
    """Cosines and sines for positions 0..length-1."""

    def __init__(self, rope: Rope | RopeLlama3, head_dim: int, length: int) -> None:
        super().__init__(length, 2, turned(rope, head_dim))
        self.rope, self.head_dim, self.length = rope, head_dim, length
        self.reset()

    def rows(self) -> Float[Tensor, "length 2 turned"]:
        """Each pair's angle stands twice: for channel i and for channel i + turned/2."""
        positions = torch.arange(self.length, dtype=torch.float64)
        angles = torch.outer(positions, frequencies(self.rope, self.head_dim)).repeat(1, 2)
        return torch.stack((angles.cos(), angles.sin()), dim=1)

    def forward(self, start: int, tokens: int) -> Float[Tensor, "tokens 2 turned"]:
        """Cosines and sines of `tokens` positions from `start` on."""
        return self.table[start : start + tokens]

    def at(self, places: Int[Tensor, "*rows tokens"]) -> Float[Tensor, ...]:
        """Cosines and sines of these positions, the same for all heads: one row of positions, or a row for each sample."""
        return self.table[places] if places.ndim == 1 else self.table[places][:, None]


def turn(x: Float[Tensor, "batch heads tokens head_dim"], table: Float[Tensor, "*rows tokens 2 turned"]) -> Tensor:
    """Rotate channel i and channel i + turned/2 together, as Llama's code pairs them. Channels beyond those of the table
    stay as they are."""
    cos, sin = table.to(x.dtype).unbind(-2)
    turned = cos.shape[-1]
    if turned < x.shape[-1]:
        return torch.cat((turn(x[..., :turned], table), x[..., turned:]), dim=-1)
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-second, first), dim=-1) * sin


class Sinusoid(PositionTable):
    """Crammed BERT's positions: sines in even columns, cosines in odd ones, base 10,000, times one learned scalar that
    starts at 1/sqrt(width)."""

    def __init__(self, width: int, length: int) -> None:
        super().__init__(length, width)
        self.scale = nn.Parameter(torch.full((), width**-0.5))
        self.reset()

    def rows(self) -> Float[Tensor, "length width"]:
        """The waves, unscaled."""
        length, width = self.table.shape
        steps = torch.arange(0, width, 2, dtype=torch.float64) / width
        angles = torch.outer(torch.arange(length, dtype=torch.float64), 10_000.0**-steps)
        return torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(1)[:, :width]

    def forward(
        self, tokens: int, places: Int[Tensor, "*rows tokens"] | None = None
    ) -> Float[Tensor, "*rows tokens width"]:
        """The first `tokens` rows, or those of `places`, scaled."""
        return self.scale * (self.table[:tokens] if places is None else self.table[places])


class FourierPositions(PositionTable):
    """XCiT's positions: sines and cosines of row and column, `size` channels each, projected to the width.

    Rows and columns run from 1/grid to 1 turn, so another grid needs no other weights. The table is computed in
    float32, with the original's operations in the original's order, whatever the precision of the model."""

    def __init__(self, width: int, size: int, grid: int) -> None:
        super().__init__(grid**2, 2 * size)
        self.size, self.grid = size, grid
        self.proj = nn.Linear(2 * size, width)
        self.reset()

    def rows(self) -> Float[Tensor, "tokens channels"]:
        """The waves, unprojected."""
        steps = torch.arange(1, self.grid + 1, dtype=torch.float32, device="cpu")
        turns = steps / (steps[-1] + 1e-6) * (2 * math.pi)
        pairs = torch.arange(self.size, dtype=torch.float32, device="cpu").div(2, rounding_mode="floor")
        angles = turns[:, None] / 10_000 ** (2 * pairs / self.size)
        waves = torch.stack((angles[:, 0::2].sin(), angles[:, 1::2].cos()), dim=2).flatten(1)
        rows = waves[:, None].expand(-1, self.grid, -1)
        columns = waves[None].expand(self.grid, -1, -1)
        return torch.cat((rows, columns), dim=2).flatten(0, 1)

    def forward(self) -> Float[Tensor, "tokens width"]:
        return self.proj(self.table)
