"""How attention mixes tokens, and the rotary positions that softmax attention may have."""

from __future__ import annotations

from dataclasses import dataclass, field

from .recipe import LATER


# --------------------------------------------------------------------------------------------------- rotary positions
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


# ------------------------------------------------------------------------------------------------------------ mixings
@dataclass(frozen=True)
class Softmax:
    """softmax(q k^T * scale) v over all tokens; `scale` is 1 / sqrt(head_dim) unless it is stated.

    With `window`, a token sees the last `window` tokens, itself included, of those that `causal` lets it see. With `cap`,
    a score s becomes cap tanh(s / cap) before the softmax."""

    causal: bool = False
    rope: Rope | RopeLlama3 | None = None
    window: int | None = field(default=None, metadata=LATER)
    scale: float | None = field(default=None, metadata=LATER)
    cap: float | None = field(default=None, metadata=LATER)


@dataclass(frozen=True)
class CrossCovariance:
    """XCiT: softmax over channels of normalised q^T k, one learned temperature per head."""


@dataclass(frozen=True)
class Outlook:
    """VOLO: kernel x kernel weights predicted from each (strided) location, applied to its neighbourhood."""

    kernel: int = 3
    stride: int = 2


@dataclass(frozen=True)
class Window:
    """DaViT: softmax attention inside windows of size x size tokens, the grid padded up to whole windows."""

    size: int = 7


@dataclass(frozen=True)
class Channel:
    """DaViT: softmax over channels of k^T v, applied to the queries."""


@dataclass(frozen=True)
class Nystrom:
    """Nyström approximation of softmax attention; `conv` taps of depthwise convolution on the values, 0 for none."""

    landmarks: int = 64
    iterations: int = 6
    conv: int = 0


Mix = Softmax | CrossCovariance | Outlook | Window | Channel | Nystrom
