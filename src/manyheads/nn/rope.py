"""Tables of positions, and rotary positions: cosines, sines and the turn they describe."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Self

import torch
from jaxtyping import Float
from torch import Tensor, nn

from manyheads.spec.parts import Rope, RopeLlama3


class Table(nn.Module):
    """Numbers that follow from positions alone: computed in float64, never saved.

    Moving or casting the module fills them anew, so that a model in float64 is not left with float32's rounding, nor
    one that was in bfloat16 with bfloat16's."""

    table: Tensor

    def __init__(self, *shape: int) -> None:
        super().__init__()
        self.register_buffer("table", torch.empty(shape), persistent=False)

    def rows(self) -> Tensor:
        """The table, in float64."""
        raise NotImplementedError

    def reset(self) -> None:
        """Fill the table (also after materialising from the meta device)."""
        if self.table.device.type != "meta":
            self.table.copy_(self.rows())

    def _apply(self, fn: Callable[[Tensor], Tensor], *args: Any, **kwargs: Any) -> Self:
        super()._apply(fn, *args, **kwargs)
        self.reset()
        return self


def frequencies(rope: Rope | RopeLlama3, head_dim: int) -> Float[Tensor, " pairs"]:
    """Radians per token of each pair of channels; Llama 3 slows the long waves by `factor` and blends between."""
    steps = torch.arange(0, head_dim, 2, dtype=torch.float64) / head_dim
    turn = 1.0 / rope.theta**steps
    if isinstance(rope, Rope):
        return turn
    wave = 2 * math.pi / turn
    blend = (rope.trained / wave - rope.low) / (rope.high - rope.low)
    smooth = (1 - blend) * turn / rope.factor + blend * turn
    slow, fast = wave > rope.trained / rope.low, wave < rope.trained / rope.high
    return torch.where(slow, turn / rope.factor, torch.where(fast, turn, smooth))


class Rotary(Table):
    """Cosines and sines for positions 0..length-1."""

    def __init__(self, rope: Rope | RopeLlama3, head_dim: int, length: int) -> None:
        super().__init__(length, 2, head_dim)
        self.rope, self.head_dim, self.length = rope, head_dim, length
        self.reset()

    def rows(self) -> Float[Tensor, "length 2 head_dim"]:
        """Each pair's angle stands twice: for channel i and for channel i + head_dim/2."""
        positions = torch.arange(self.length, dtype=torch.float64)
        angles = torch.outer(positions, frequencies(self.rope, self.head_dim)).repeat(1, 2)
        return torch.stack((angles.cos(), angles.sin()), dim=1)

    def forward(self, start: int, tokens: int) -> Float[Tensor, "tokens 2 head_dim"]:
        """Cosines and sines of `tokens` positions from `start` on."""
        return self.table[start : start + tokens]


def turn(x: Float[Tensor, "batch heads tokens head_dim"], table: Float[Tensor, "*rows tokens 2 head_dim"]) -> Tensor:
    """Rotate channel i and channel i + head_dim/2 together, as Llama's code pairs them."""
    cos, sin = table.to(x.dtype).unbind(-2)
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-second, first), dim=-1) * sin
