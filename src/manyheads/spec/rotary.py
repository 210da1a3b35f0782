"""Rotary positions: each pair of a head's channels turns by an angle that grows with the token's position."""

from __future__ import annotations

from dataclasses import dataclass, field

from .recipe import LATER


@dataclass(frozen=True)
class Rope:
    """Rotary positions with base `theta`. The first `share` of a head's channels turn, in whole pairs, and the others
    stay. Positions are divided by `stretch`."""

    theta: float = 10_000.0
    share: float = field(default=1.0, metadata=LATER)
    stretch: float = field(default=1.0, metadata=LATER)


@dataclass(frozen=True)
class RopeLlama3:
    """Rotary positions stretched by frequency band, as in Llama 3.1 and later; `trained` is the length before that."""

    theta: float = 500_000.0
    factor: float = 32.0
    low: float = 1.0
    high: float = 4.0
    trained: int = 8192


def turned(rope: Rope | RopeLlama3, head_dim: int) -> int:
    """How many of a head's channels rotary positions turn: an even number."""
    return 2 * int(head_dim * rope.share / 2) if isinstance(rope, Rope) and rope.share < 1 else head_dim
