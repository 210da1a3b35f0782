"""The parts a model is made of: attention, residual branches and heads, as frozen records, and by their names here the
norms of `norms`, the ways to mix tokens of `mixing` and the embeddings of `embeddings`.

Every part holds only its own numbers. `heads` and `head_dim` are always stated apart: `inner`, the width of the
concatenated heads, is their product and nothing derives one from the other. Parts do not validate themselves, so that
their numbers may also be arrays or symbols (see `arch.count`); an `Arch` validates its parts by the rules in `check`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from .embeddings import Conv as Conv
from .embeddings import ConvStem as ConvStem
from .embeddings import Embed as Embed
from .embeddings import Patch as Patch
from .embeddings import Pixel as Pixel
from .embeddings import Points as Points
from .embeddings import Token as Token
from .mixing import Channel as Channel
from .mixing import CrossCovariance as CrossCovariance
from .mixing import Mix as Mix
from .mixing import Nystrom as Nystrom
from .mixing import Outlook as Outlook
from .mixing import Rope as Rope
from .mixing import RopeLlama3 as RopeLlama3
from .mixing import Softmax as Softmax
from .mixing import Window as Window
from .norms import Act as Act
from .norms import Norm as Norm
from .recipe import LATER


# -------------------------------------------------------------------------------------- what a residual branch computes
@dataclass(frozen=True)
class Attention:
    """width -> heads x head_dim -> width. `kv_heads` heads of keys and values are shared between groups of heads;
    None: every head has its own.

    `head_dim` has no silent default: 0 means "not stated", and an `Arch` that holds it is refused. `qk_norm` is a norm of
    queries and of keys: of each head, all heads with the same weights, or (`qk_norm_over` "inner") of all heads at once.
    `out_scale` multiplies the output (1/multiplier in the rank experiments, where several attentions are averaged).
    """

    heads: int
    head_dim: int = 0
    kv_heads: int | None = None
    qkv_bias: bool = True
    out_bias: bool = True
    qk_norm: Norm | None = None
    out_scale: float = 1.0
    mix: Mix = Softmax()  # noqa: RUF009 (it is frozen)
    qk_norm_over: Literal["head", "inner"] = field(default="head", metadata=LATER)

    @property
    def inner(self) -> int:
        """Columns of the concatenated head output."""
        return self.heads * self.head_dim

    @property
    def kv_inner(self) -> int:
        """Columns of the keys, and of the values."""
        return self.inner if self.kv_heads is None else self.kv_heads * self.head_dim


@dataclass(frozen=True)
class ClassAttention:
    """Attention with one query, the class token's; keys and values come from all tokens. It has a type of its own, so
    that no redesign changes it."""

    heads: int
    head_dim: int = 0
    qkv_bias: bool = True
    out_bias: bool = True

    @property
    def inner(self) -> int:
        """Columns of the concatenated head output."""
        return self.heads * self.head_dim


@dataclass(frozen=True)
class Mlp:
    """width -> mlp_dim -> width; a gated MLP's first matrix has 2 mlp_dim columns."""

    mlp_dim: int
    act: Act = "gelu"
    gated: bool = False
    bias: bool = True


@dataclass(frozen=True)
class Depthwise:
    """A depthwise convolution on the token grid (DaViT's conditional positions)."""

    kernel: int = 3


@dataclass(frozen=True)
class LocalPatch:
    """XCiT's local patch interaction: depthwise, GELU, batch norm, depthwise."""

    kernel: int = 3


Op = Attention | ClassAttention | Mlp | Depthwise | LocalPatch


@dataclass(frozen=True)
class Residual:
    """x + scaled * op(norm(x)) with the norm at `place` `pre`, or norm(x + op(x)) at `post`.

    `scaled` is the initial value of a learned layer scale, or None for no layer scale. `rows` says which tokens the
    branch updates: all of them, or only the class token. `after` is a norm of what the branch adds, and `times` a number
    that multiplies it.

    `reads` says where a branch takes x from: the residual `stream` that the branch before has updated; the stream as it
    entered the `layer`, so that both branches work side by side; or that stream as the branch before has `normed` it, so
    that both share one norm.
    """

    op: Op
    norm: Norm | None = Norm()
    place: Literal["pre", "post"] = "pre"
    scaled: float | None = None
    rows: Literal["all", "class"] = "all"
    after: Norm | None = field(default=None, metadata=LATER)
    times: float = field(default=1.0, metadata=LATER)
    reads: Literal["stream", "layer", "normed"] = field(default="stream", metadata=LATER)


Layer = tuple[Residual, ...]


@dataclass(frozen=True)
class Fuse:
    """TNT: the pixels of a patch, flattened, normed and projected, are added to the patch. `legacy` normalises
    each pixel and has a bias; the current block normalises before and after a projection without bias."""

    norm: Norm = Norm(eps=1e-5)
    legacy: bool = False


@dataclass(frozen=True)
class Nested:
    """TNT: a small transformer over the `tokens` pixels of each patch, fused into one over the patches."""

    width: int
    tokens: int
    inner: Layer
    fuse: Fuse
    outer: Layer


# -------------------------------------------------------------------------------------------------- entering a stage
@dataclass(frozen=True)
class Same:
    """Tokens enter as they are."""


@dataclass(frozen=True)
class Downsample:
    """A kernel x kernel convolution of that stride halves the grid; optional norm before, learned positions after."""

    kernel: int = 2
    norm: Norm | None = None
    positions: bool = False


@dataclass(frozen=True)
class ClassToken:
    """A learned class token joins the tokens here."""


Enter = Same | Downsample | ClassToken


@dataclass(frozen=True)
class Stage:
    """`unit`, a tuple of layers, repeated `depth` times over `tokens` tokens of size `width`."""

    width: int
    tokens: int
    depth: int
    unit: tuple[Layer | Nested, ...]
    enter: Enter = Same()


# --------------------------------------------------------------------------------------------------------------- heads
@dataclass(frozen=True)
class Classify:
    """Norm, pool, (hidden layer), classes. Pooled are the class token, the mean over all tokens, the mean over the
    `patches` alone, or the class token and that mean side by side. `distill`: a second classifier on the distillation
    token. `aux`: a classifier on every patch token (VOLO). `norm_last`: pool before the norm (DaViT)."""

    classes: int = 1000
    pool: Literal["class", "mean", "patches", "class_and_patches"] = "class"
    norm: Norm | None = Norm()
    norm_last: bool = False
    hidden: int = 0
    act: Act = "relu"
    distill: bool = False
    aux: bool = False


@dataclass(frozen=True)
class Lm:
    """Next-token prediction; a tied head has no matrix of its own. Logits are multiplied by `scale`; with `cap`, a logit
    z then becomes cap tanh(z / cap)."""

    tied: bool = True
    bias: bool = False
    norm: Norm | None = Norm(eps=1e-5)
    scale: float = field(default=1.0, metadata=LATER)
    cap: float | None = field(default=None, metadata=LATER)


@dataclass(frozen=True)
class Masked:
    """Masked-token prediction, tied to the vocabulary; `transform`: BERT's dense + `act` + norm before it."""

    bias: bool = False
    transform: bool = False
    norm: Norm | None = None
    act: Act = field(default="gelu", metadata=LATER)


@dataclass(frozen=True)
class Pair:
    """Two sequences through one encoder, mean-pooled to a and b; [a, b, a*b, a-b] -> hidden -> classes."""

    classes: int = 2
    hidden: int = 128
    act: Act = "relu"
    norm: Norm | None = Norm(eps=1e-5)


@dataclass(frozen=True)
class Coordinates:
    """The first `dim` coordinates of every token (rank experiments)."""

    dim: int


@dataclass(frozen=True)
class Pooler:
    """One vector of a sample, made of its class token, its last token or its `end` token, the first one with the largest
    id: a norm, a linear map to `out` numbers, an activation; None for those that are left out."""

    pool: Literal["class", "last", "end"] = "class"
    norm: Norm | None = None
    out: int | None = None
    bias: bool = True
    act: Act | None = None


@dataclass(frozen=True)
class AttentionPooler:
    """One vector of a sample: a learned token attends to all tokens, and an MLP behind a norm adds to the result."""

    attention: ClassAttention
    mlp: Mlp
    norm: Norm = Norm()


@dataclass(frozen=True)
class Features:
    """No prediction: the tokens themselves, after a norm. With a `pooler`, a vector of the sample can be made of them."""

    norm: Norm | None = None
    pooler: Pooler | AttentionPooler | None = None


Head = Classify | Lm | Masked | Pair | Coordinates | Features
