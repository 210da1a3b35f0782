"""Constructors, one per family: from a few dimensions to a complete record, every detail as in the original code.

head_dim has no default here, except where an original has one size. The named sizes are in `zoo`; the papers'
configurations in `paper`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from manyheads.spec.arch import Arch
from manyheads.spec.parts import (
    Attention,
    Channel,
    ClassAttention,
    Classify,
    ClassToken,
    Conv,
    ConvStem,
    Coordinates,
    CrossCovariance,
    Depthwise,
    Downsample,
    Fuse,
    Head,
    Layer,
    Lm,
    LocalPatch,
    Masked,
    Mlp,
    Nested,
    Norm,
    Nystrom,
    Outlook,
    Pair,
    Patch,
    Pixel,
    Points,
    Residual,
    Rope,
    RopeLlama3,
    Softmax,
    Stage,
    Token,
    Window,
)

from .decoders import gemma as gemma
from .decoders import gemma2 as gemma2
from .decoders import gemma3 as gemma3
from .decoders import gpt_neox as gpt_neox
from .decoders import opt as opt
from .decoders import staged as staged
from .decoders import windowed as windowed

LAYER5, LAYER6, LAYER12 = Norm(eps=1e-5), Norm(eps=1e-6), Norm(eps=1e-12)
BATCH = Norm("batch", 1e-5)


def _plain(attention: Attention, mlp: Mlp, norm: Norm, **branch: Any) -> Layer:
    """Attention and MLP, each on its norm; `branch` are further fields of both."""
    return Residual(attention, norm, **branch), Residual(mlp, norm, **branch)


def _class_layer(attention: ClassAttention, mlp: Mlp, norm: Norm, scaled: float | None = None) -> Layer:
    """A layer that updates the class token alone."""
    return tuple(Residual(op, norm, scaled=scaled, rows="class") for op in (attention, mlp))


def vit(
    width: int,
    depth: int,
    heads: int,
    head_dim: int,
    mlp_dim: int,
    *,
    image: int = 224,
    patch: int = 16,
    channels: int = 3,
    classes: int = 1000,
    class_tokens: int = 1,
    class_positions: bool = True,
    scaled: float | None = None,
    eps: float = 1e-6,
    qkv_bias: bool = True,
    family: str = "vit",
    head: Head | None = None,
) -> Arch:
    """ViT (2010.11929) and, with `family="deit"`, DeiT (2012.12877): two class tokens make it distilled. `head` stands in
    place of the classifier."""
    norm = Norm(eps=eps)
    layer = _plain(Attention(heads, head_dim, qkv_bias=qkv_bias), Mlp(mlp_dim), norm, scaled=scaled)
    tokens = (image // patch) ** 2 + class_tokens
    return Arch(
        family,
        Patch(image, patch, channels, class_tokens, class_positions),
        (Stage(width, tokens, depth, (layer,)),),
        head or Classify(classes, "class" if class_tokens else "mean", norm, distill=class_tokens == 2),
    )


def xcit(
    width: int,
    depth: int,
    heads: int,
    head_dim: int,
    mlp_dim: int,
    *,
    image: int = 224,
    patch: int = 16,
    channels: int = 3,
    classes: int = 1000,
    class_layers: int = 2,
    class_heads: int | None = None,
    class_head_dim: int | None = None,
    class_mlp_dim: int | None = None,
    scaled: float = 1e-5,
) -> Arch:
    """XCiT (2106.09681): cross-covariance layers, then class attention. Class attention is as wide as the model unless
    stated otherwise."""
    layer = (
        Residual(Attention(heads, head_dim, mix=CrossCovariance()), LAYER6, scaled=scaled),
        Residual(LocalPatch(3), LAYER6, scaled=scaled),
        Residual(Mlp(mlp_dim), LAYER6, scaled=scaled),
    )
    asks = ClassAttention(class_heads or heads, class_head_dim or head_dim)
    class_layer = _class_layer(asks, Mlp(class_mlp_dim or mlp_dim), LAYER6, scaled)
    halvings = patch.bit_length() - 1
    outs = [width >> (halvings - 1 - i) for i in range(halvings)]
    convs = tuple(Conv(o, 3, 2, BATCH, "gelu" if i + 1 < halvings else None) for i, o in enumerate(outs))
    tokens = (image // patch) ** 2
    return Arch(
        "xcit",
        ConvStem(image, channels, convs, fourier=32),
        (Stage(width, tokens, depth, (layer,)), Stage(width, tokens + 1, class_layers, (class_layer,), ClassToken())),
        Classify(classes, "class", LAYER6),
    )


def tnt(
    width: int,
    depth: int,
    heads: int,
    head_dim: int,
    mlp_dim: int,
    *,
    pixel_width: int,
    pixel_heads: int = 4,
    pixel_head_dim: int,
    pixel_mlp_dim: int,
    image: int = 224,
    patch: int = 16,
    channels: int = 3,
    stride: int = 4,
    classes: int = 1000,
    legacy: bool = False,
) -> Arch:
    """TNT (2103.00112), in timm's current block or its legacy one (before 1.0.16)."""
    pixels = (-(-patch // stride)) ** 2
    nested = Nested(
        pixel_width,
        pixels,
        _plain(Attention(pixel_heads, pixel_head_dim, qkv_bias=False), Mlp(pixel_mlp_dim), LAYER5),
        Fuse(LAYER5, legacy),
        _plain(Attention(heads, head_dim, qkv_bias=False), Mlp(mlp_dim), LAYER5),
    )
    return Arch(
        "tnt",
        Pixel(image, patch, channels, 7, stride, LAYER5, legacy),
        (Stage(width, (image // patch) ** 2 + 1, depth, (nested,)),),
        Classify(classes, "class", LAYER5),
    )


def volo(
    widths: Sequence[int],
    depths: Sequence[int],
    heads: Sequence[int],
    head_dims: Sequence[int],
    mlp_dims: Sequence[int],
    *,
    stem: int = 64,
    image: int = 224,
    patch: int = 8,
    channels: int = 3,
    classes: int = 1000,
    class_layers: int = 2,
    aux: bool = True,
) -> Arch:
    """VOLO (2106.13112): an outlook stage, transformer stages at half its grid, class attention, an aux head."""
    relu = [Conv(stem, 7, 2, BATCH, "relu"), Conv(stem, 3, 1, BATCH, "relu"), Conv(stem, 3, 1, BATCH, "relu")]
    convs = (*relu, Conv(widths[0], patch // 2, patch // 2, bias=True))
    grid = image // patch
    stages = []
    for i, (width, depth, h, d, m) in enumerate(zip(widths, depths, heads, head_dims, mlp_dims, strict=True)):
        mix = Outlook(3, 2) if i == 0 else Softmax()
        enter = {"enter": Downsample(2, positions=True)} if i == 1 else {}
        layer = _plain(Attention(h, d, qkv_bias=False, mix=mix), Mlp(m), LAYER5)
        stages.append(Stage(width, (grid if i == 0 else -(-grid // 2)) ** 2, depth, (layer,), **enter))
    class_layer = _class_layer(ClassAttention(heads[-1], head_dims[-1], qkv_bias=False), Mlp(mlp_dims[-1]), LAYER5)
    stages.append(Stage(widths[-1], stages[-1].tokens + 1, class_layers, (class_layer,), ClassToken()))
    return Arch("volo", ConvStem(image, channels, convs), tuple(stages), Classify(classes, "class", LAYER5, aux=aux))


def davit(
    widths: Sequence[int],
    depths: Sequence[int],
    heads: Sequence[int],
    head_dims: Sequence[int],
    mlp_dims: Sequence[int],
    *,
    window: int = 7,
    image: int = 224,
    channels: int = 3,
    classes: int = 1000,
) -> Arch:
    """DaViT (2204.03645): every unit is a window layer and a channel layer, each with depthwise positions."""
    stages = []
    grid = -(-image // 4)
    for i, (width, depth, h, d, m) in enumerate(zip(widths, depths, heads, head_dims, mlp_dims, strict=True)):
        position = Residual(Depthwise(3), None)
        unit = tuple(
            (position, Residual(Attention(h, d, mix=mix), LAYER5), position, Residual(Mlp(m), LAYER5))
            for mix in (Window(window), Channel())
        )
        if i == 0:
            stages.append(Stage(width, grid**2, depth, unit))
        else:
            grid = -(-grid // 2)
            stages.append(Stage(width, grid**2, depth, unit, Downsample(2, LAYER5)))
    stem = Conv(widths[0], 7, 4, LAYER5, bias=True)
    return Arch(
        "davit", ConvStem(image, channels, (stem,)), tuple(stages), Classify(classes, "mean", LAYER5, norm_last=True)
    )


def crammed_bert(
    width: int = 768,
    depth: int = 16,
    heads: int = 12,
    head_dim: int = 64,
    mlp_dim: int = 1536,
    *,
    vocab: int = 32768,
    tokens: int = 128,
    head: Head | None = None,
) -> Arch:
    """Crammed BERT (2212.14034): pre-norm, gated MLP, no biases, tied head, one learned scalar on sinusoidal positions.

    Its code states 3072, the columns of the gated MLP's first matrix; `mlp_dim` is half of that."""
    layer = _plain(
        Attention(heads, head_dim, qkv_bias=False, out_bias=False), Mlp(mlp_dim, gated=True, bias=False), LAYER12
    )
    embed = Token(vocab, sinusoid=True, norm=LAYER12)
    return Arch("crammed_bert", embed, (Stage(width, tokens, depth, (layer,)),), head or Masked(norm=LAYER12))


def bert(
    width: int,
    depth: int,
    heads: int,
    head_dim: int,
    mlp_dim: int,
    *,
    vocab: int = 30522,
    tokens: int = 512,
    positions: int = 512,
    types: int = 2,
    head: Head | None = None,
    eps: float = 1e-12,
) -> Arch:
    """BERT (1810.04805): post-norm, learned positions and segments, masked-token head with its transform."""
    norm = Norm(eps=eps)
    layer = _plain(Attention(heads, head_dim), Mlp(mlp_dim), norm, place="post")
    embed = Token(vocab, positions, types=types, norm=norm)
    default = Masked(bias=True, transform=True)
    return Arch("bert", embed, (Stage(width, tokens, depth, (layer,)),), head or default)


def gpt2(
    width: int,
    depth: int,
    heads: int,
    head_dim: int,
    mlp_dim: int,
    *,
    vocab: int = 50257,
    tokens: int = 1024,
    positions: int = 1024,
    tied: bool = True,
) -> Arch:
    """GPT-2 as OpenAI's code has it."""
    layer = _plain(Attention(heads, head_dim, mix=Softmax(causal=True)), Mlp(mlp_dim, "gelu_tanh"), LAYER5)
    return Arch("gpt2", Token(vocab, positions), (Stage(width, tokens, depth, (layer,)),), Lm(tied, norm=LAYER5))


def stories(
    width: int, depth: int, heads: int, head_dim: int, mlp_dim: int, *, vocab: int = 50257, tokens: int = 64
) -> Arch:
    """The GPT that the first paper trains on TinyStories: an untied head with a bias, ReLU, queries, keys and values
    without bias."""
    layer = _plain(Attention(heads, head_dim, qkv_bias=False, mix=Softmax(causal=True)), Mlp(mlp_dim, "relu"), LAYER5)
    stage = Stage(width, tokens, depth, (layer,))
    return Arch("gpt2", Token(vocab, tokens), (stage,), Lm(False, True, LAYER5), dialect="stories")


def llama(
    width: int,
    depth: int,
    heads: int,
    head_dim: int,
    mlp_dim: int,
    *,
    kv_heads: int | None = None,
    vocab: int,
    tokens: int,
    rope: Rope | RopeLlama3,
    tied: bool,
    qk_norm: bool = False,
    qkv_bias: bool = False,
    out_bias: bool = False,
    eps: float = 1e-6,
) -> Arch:
    """Llama- and Qwen-type decoders: rotary positions, RMS norm, gated MLP, grouped queries, optional q and k norm."""
    norm = Norm("rms", eps)
    attention = Attention(
        heads, head_dim, kv_heads, qkv_bias, out_bias, norm if qk_norm else None, mix=Softmax(causal=True, rope=rope)
    )
    layer = _plain(attention, Mlp(mlp_dim, "silu", gated=True, bias=False), norm)
    return Arch("llama", Token(vocab), (Stage(width, tokens, depth, (layer,)),), Lm(tied, norm=norm))


def nystromformer(
    width: int,
    depth: int,
    heads: int,
    head_dim: int,
    mlp_dim: int,
    *,
    vocab: int,
    tokens: int,
    classes: int,
    landmarks: int = 64,
    conv: int = 0,
    pair: bool = False,
    head_hidden: int = 128,
    softmax: bool = False,
) -> Arch:
    """The Nyströmformer of the LRA tasks (2102.03902): pre-norm, mean pooling, a hidden layer before the classes.

    `softmax=True` is its exact peer; `pair=True` reads two documents (Retrieval)."""
    mix = Softmax() if softmax else Nystrom(landmarks, conv=conv)
    layer = _plain(Attention(heads, head_dim, mix=mix), Mlp(mlp_dim), LAYER5)
    head = Pair(classes, head_hidden) if pair else Classify(classes, "mean", LAYER5, hidden=head_hidden)
    return Arch("nystromformer", Token(vocab, tokens), (Stage(width, tokens, depth, (layer,)),), head)


def nearest_neighbor(
    dim: int = 64,
    depth: int = 1,
    heads: int = 1,
    head_dim: int = 64,
    mlp_dim: int = 2048,
    *,
    tokens: int = 16,
    positions: str = "none",
    position_dim: int = 64,
) -> Arch:
    """The encoder of the rank experiments (2407.16153): post-norm, unit norm, ReLU. Several attentions averaged there
    are one attention here with inner = multiplier x width and its output divided by the multiplier."""
    width = dim + position_dim if positions == "concat" else dim
    norm = Norm("unit", 0.0)
    attention = Attention(heads, head_dim, out_scale=width / (heads * head_dim))
    layer = _plain(attention, Mlp(mlp_dim, "relu"), norm, place="post")
    embed = Points(dim, positions)  # type: ignore[arg-type]
    return Arch("nearest_neighbor", embed, (Stage(width, tokens, depth, (layer,)),), Coordinates(dim))


def stack(
    width: int,
    depth: int,
    heads: int,
    head_dim: int,
    mlp_dim: int,
    *,
    tokens: int,
    kv_heads: int | None = None,
    gated: bool = False,
    bias: bool = True,
    norm: Norm = LAYER5,
) -> Arch:
    """The layers read off a user's own module, without what stands before and after them; `mlp_dim` 0 for no MLP."""
    attention = Residual(Attention(heads, head_dim, kv_heads, bias, bias), norm)
    mlp = (Residual(Mlp(mlp_dim, gated=gated, bias=bias), norm),) if mlp_dim else ()
    stage = Stage(width, tokens, depth, ((attention, *mlp),))
    return Arch("stack", Points(width), (stage,), Coordinates(width))
