"""Embeddings: how an image, a text or points become the tokens of the first stage."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from .norms import Act, Norm
from .recipe import LATER


@dataclass(frozen=True)
class Patch:
    """Patches of an image, projected (with a bias or without); class tokens in front; learned positions (also for class
    tokens, or not); `registers`, learned tokens without a position, behind the class tokens; a norm over all of them.
    With `mask_token`, a learned vector can stand in place of patches."""

    image: int = 224
    patch: int = 16
    channels: int = 3
    class_tokens: int = 1
    class_positions: bool = True
    bias: bool = field(default=True, metadata=LATER)
    registers: int = field(default=0, metadata=LATER)
    mask_token: bool = field(default=False, metadata=LATER)
    norm: Norm | None = field(default=None, metadata=LATER)

    @property
    def prefix(self) -> int:
        """Tokens in front of the patches."""
        return self.class_tokens + self.registers


@dataclass(frozen=True)
class Conv:
    """One convolution of a stem, padded by (kernel-1)//2 unless its stride equals its kernel."""

    out: int
    kernel: int
    stride: int
    norm: Norm | None = None
    act: Act | None = None
    bias: bool = False


@dataclass(frozen=True)
class ConvStem:
    """Convolutions that turn an image into tokens; `fourier` > 0 adds projected Fourier positions of that size."""

    image: int
    channels: int
    convs: tuple[Conv, ...]
    fourier: int = 0


@dataclass(frozen=True)
class Pixel:
    """TNT: pixels of every patch by one strided convolution, patches by projecting their pixels."""

    image: int = 224
    patch: int = 16
    channels: int = 3
    kernel: int = 7
    stride: int = 4
    norm: Norm = Norm(eps=1e-5)
    legacy: bool = False


@dataclass(frozen=True)
class Token:
    """A vocabulary; `positions` rows of learned positions, or a scaled sinusoid (one learned scalar), or neither.

    The first token has the position of row `first`: rows before it are never read. `scale` multiplies the vectors of the
    vocabulary."""

    vocab: int
    positions: int = 0
    sinusoid: bool = False
    types: int = 0
    norm: Norm | None = None
    first: int = field(default=0, metadata=LATER)
    scale: float = field(default=1.0, metadata=LATER)

    @property
    def places(self) -> int:
        """How many tokens have a learned position; 0 where positions are not learned."""
        return self.positions - self.first


@dataclass(frozen=True)
class Points:
    """Points of R^dim, used as tokens without a projection (rank experiments). Learned positions are further
    coordinates (`concat`), are added to the points (`add`), or are left out (`none`)."""

    dim: int
    positions: Literal["none", "concat", "add"] = "none"


Embed = Patch | ConvStem | Pixel | Token | Points
