"""Constructors of decoders that differ from Llama and GPT-2 in more than numbers: GPT-NeoX, OPT, Gemma 1 to 3.

`staged` makes stages of layers that are not all alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from manyheads.spec.arch import Arch, with_residuals
from manyheads.spec.parts import Attention, Layer, Lm, Mlp, Norm, Residual, Rope, Softmax, Stage, Token

WHOLE, QUARTER = Rope(), Rope(share=0.25)


def staged(width: int, tokens: int, every: Sequence[Layer]) -> tuple[Stage, ...]:
    """Stages that hold these layers in their order, as few as repetition allows: layers alike are one stage, and so is
    a pattern of layers that repeats, as its unit. What is left of a pattern at the end is a stage of its own."""
    stages: list[Stage] = []
    rest = list(every)
    while rest:
        size = _period(rest)
        count = next((i for i, layer in enumerate(rest) if layer != rest[i % size]), len(rest)) // size
        stages.append(Stage(width, tokens, count, tuple(rest[:size])))
        rest = rest[size * count :]
    return tuple(stages)


def _period(every: list[Layer]) -> int:
    """After how many layers these repeat, at least once as a whole; 1 where they do not."""
    for size in range(1, len(every) // 2 + 1):
        if all(layer == every[i % size] for i, layer in enumerate(every)):
            return size
    return 1


def windowed(arch: Arch, window: int) -> Arch:
    """A decoder with a window in every layer, as Mistral (2310.06825) is a Llama with one."""

    def branch(residual: Residual) -> Residual:
        op = residual.op
        if not isinstance(op, Attention) or not isinstance(op.mix, Softmax):
            return residual
        return replace(residual, op=replace(op, mix=replace(op.mix, window=window)))

    return with_residuals(arch, branch)


def gpt_neox(
    width: int,
    depth: int,
    heads: int,
    head_dim: int,
    mlp_dim: int,
    *,
    vocab: int,
    tokens: int,
    rope: Rope = QUARTER,
    tied: bool = False,
    parallel: bool = True,
    eps: float = 1e-5,
) -> Arch:
    """GPT-NeoX (2204.06745) and Pythia: rotary positions for a quarter of the channels, attention and MLP side by side."""
    norm = Norm(eps=eps)
    attention = Attention(heads, head_dim, mix=Softmax(causal=True, rope=rope))
    layer = Residual(attention, norm), Residual(Mlp(mlp_dim), norm, reads="layer" if parallel else "stream")
    return Arch("gpt_neox", Token(vocab), (Stage(width, tokens, depth, (layer,)),), Lm(tied, norm=norm))


def opt(
    width: int,
    depth: int,
    heads: int,
    head_dim: int,
    mlp_dim: int,
    *,
    vocab: int = 50_272,
    tokens: int = 2048,
    tied: bool = True,
) -> Arch:
    """OPT (2205.01068): learned positions from row 2 of their table on, ReLU."""
    norm = Norm(eps=1e-5)
    layer = (Residual(Attention(heads, head_dim, mix=Softmax(causal=True)), norm), Residual(Mlp(mlp_dim, "relu"), norm))
    embed = Token(vocab, tokens + 2, first=2)
    return Arch("opt", embed, (Stage(width, tokens, depth, (layer,)),), Lm(tied, norm=norm))


def gemma(
    width: int,
    depth: int,
    heads: int,
    head_dim: int,
    mlp_dim: int,
    *,
    kv_heads: int | None = None,
    vocab: int = 256_000,
    tokens: int = 8192,
    rope: Rope = WHOLE,
    eps: float = 1e-6,
) -> Arch:
    """Gemma (2403.08295): a gated MLP with GELU, norms times 1 + weight, vectors of tokens times sqrt(width)."""
    norm = Norm("rms_plus_one", eps)
    mix = Softmax(causal=True, rope=rope)
    layer = gemma_layer(Attention(heads, head_dim, kv_heads, False, False, mix=mix), mlp_dim, norm)
    embed = Token(vocab, scale=width**0.5)
    return Arch("gemma", embed, (Stage(width, tokens, depth, (layer,)),), Lm(norm=norm))


def gemma2(
    width: int,
    depth: int,
    heads: int,
    head_dim: int,
    mlp_dim: int,
    *,
    kv_heads: int | None = None,
    vocab: int = 256_000,
    tokens: int = 8192,
    window: int = 4096,
    scale: float | None = None,
) -> Arch:
    """Gemma 2 (2408.00118): windows in every other layer, norms of what is added as well, scores and logits capped."""
    norm = Norm("rms_plus_one")
    every = []
    for i in range(depth):
        mix = Softmax(True, Rope(), window=None if i % 2 else window, scale=scale, cap=50.0)
        every.append(gemma_layer(Attention(heads, head_dim, kv_heads, False, False, mix=mix), mlp_dim, norm, norm))
    embed = Token(vocab, scale=width**0.5)
    return Arch("gemma", embed, staged(width, tokens, every), Lm(norm=norm, cap=30.0))


def gemma3(
    width: int,
    depth: int,
    heads: int,
    head_dim: int,
    mlp_dim: int,
    *,
    kv_heads: int | None = None,
    vocab: int = 262_144,
    tokens: int = 32_768,
    window: int = 512,
    scale: float | None = None,
    stretch: float = 1.0,
) -> Arch:
    """The language model of Gemma 3 (2503.19786): five layers with windows, then one without and with slower rotation;
    norms of queries and keys."""
    norm = Norm("rms_plus_one")
    every = []
    for i in range(depth):
        near = (i + 1) % 6 != 0
        rope = Rope() if near else Rope(1_000_000.0, stretch=stretch)
        mix = Softmax(True, rope, window=window if near else None, scale=scale)
        attention = Attention(heads, head_dim, kv_heads, False, False, norm, mix=mix)
        every.append(gemma_layer(attention, mlp_dim, norm, norm))
    embed = Token(vocab, scale=width**0.5)
    return Arch("gemma", embed, staged(width, tokens, every), Lm(norm=norm))


def gemma_layer(attention: Attention, mlp_dim: int, norm: Norm, after: Norm | None = None) -> Layer:
    """Attention and Gemma's gated MLP, with norms of what they add where `after` is given."""
    mlp = Mlp(mlp_dim, "gelu_tanh", gated=True, bias=False)
    return Residual(attention, norm, after=after), Residual(mlp, norm, after=after)
