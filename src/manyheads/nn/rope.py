"""Rotary positions: tables of cosines and sines, and the turn they describe."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn

from manyheads.arch.parts import Rope, RopeLlama3


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


class Rotary(nn.Module):
    """Cosines and sines for positions 0..length-1, made once and never saved."""

    def __init__(self, rope: Rope | RopeLlama3, head_dim: int, length: int) -> None:
        super().__init__()
        self.rope, self.head_dim, self.length = rope, head_dim, length
        self.register_buffer("table", torch.empty(2, length, head_dim), persistent=False)
        self.reset()

    def reset(self) -> None:
        """Fill the table (also after materialising from the meta device)."""
        if self.table.device.type == "meta":
            return
        positions = torch.arange(self.length, dtype=torch.float64)
        angles = torch.outer(positions, frequencies(self.rope, self.head_dim)).repeat(1, 2)
        self.table.copy_(torch.stack((angles.cos(), angles.sin())))

    def forward(self, start: int, tokens: int) -> Float[Tensor, "2 tokens head_dim"]:
        return self.table[:, start : start + tokens]


def turn(x: Float[Tensor, "batch heads tokens head_dim"], table: Float[Tensor, "2 tokens head_dim"]) -> Tensor:
    """Rotate channel i and channel i + head_dim/2 together, as Llama's code pairs them."""
    cos, sin = table.to(x.dtype)
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-second, first), dim=-1) * sin
