"""Constructors of the dialects of BERT and ViT: RoBERTa, DINOv2, and the towers of CLIP and SigLIP."""

from __future__ import annotations

from dataclasses import replace

from manyheads.spec.arch import Arch
from manyheads.spec.parts import Attention, Features, Head, Mlp, Patch, Pooler, Residual, Softmax, Stage, Token

from .families import LAYER5, LAYER6, bert


def roberta(
    width: int,
    depth: int,
    heads: int,
    head_dim: int,
    mlp_dim: int,
    *,
    vocab: int = 50265,
    tokens: int = 512,
    types: int = 1,
    padding: int = 1,
    head: Head | None = None,
    eps: float = 1e-5,
) -> Arch:
    """RoBERTa (1907.11692): BERT whose positions count the tokens that are not `padding`, in the rows after row
    `padding`."""
    first = padding + 1
    arch = bert(
        width,
        depth,
        heads,
        head_dim,
        mlp_dim,
        vocab=vocab,
        tokens=tokens,
        positions=tokens + first,
        types=types,
        eps=eps,
    )
    assert isinstance(arch.embed, Token)
    return replace(arch, embed=replace(arch.embed, first=first), head=head or arch.head, dialect="roberta")


def dinov2(
    width: int,
    depth: int,
    heads: int,
    head_dim: int,
    mlp_dim: int,
    *,
    image: int = 518,
    patch: int = 14,
    registers: int = 0,
    gated: bool = False,
    scaled: float = 1.0,
    mask_token: bool = True,
) -> Arch:
    """DINOv2 (2304.07193): a ViT with layer scale and without a head; `gated` in its giant size, with `registers` as
    2309.16588 adds them."""
    mlp = Mlp(mlp_dim, "silu", gated=True) if gated else Mlp(mlp_dim)
    attention = Residual(Attention(heads, head_dim), LAYER6, scaled=scaled)
    layer = (attention, Residual(mlp, LAYER6, scaled=scaled))
    embed = Patch(image, patch, registers=registers, mask_token=mask_token)
    stage = Stage(width, (image // patch) ** 2 + embed.prefix, depth, (layer,))
    return Arch("vit", embed, (stage,), Features(LAYER6), dialect="dinov2")


def clip_image(
    width: int,
    depth: int,
    heads: int,
    head_dim: int,
    mlp_dim: int,
    *,
    image: int = 224,
    patch: int = 32,
    projected: int | None = None,
) -> Arch:
    """The image tower of CLIP (2103.00020): a norm before the layers, quick GELU; its vector is the normed class token,
    `projected` to the size that it shares with the text tower."""
    layer = (Residual(Attention(heads, head_dim), LAYER5), Residual(Mlp(mlp_dim, "quick_gelu"), LAYER5))
    stage = Stage(width, (image // patch) ** 2 + 1, depth, (layer,))
    head = Features(None, Pooler("class", LAYER5, projected, bias=False))
    return Arch("vit", Patch(image, patch, bias=False, norm=LAYER5), (stage,), head, dialect="clip")


def clip_text(
    width: int, depth: int, heads: int, head_dim: int, mlp_dim: int, *, vocab: int = 49408, tokens: int = 77
) -> Arch:
    """The text tower of CLIP (2103.00020): causal, with the norm before each branch, quick GELU."""
    attention = Attention(heads, head_dim, mix=Softmax(causal=True))
    layer = (Residual(attention, LAYER5), Residual(Mlp(mlp_dim, "quick_gelu"), LAYER5))
    stage = Stage(width, tokens, depth, (layer,))
    return Arch("bert", Token(vocab, tokens), (stage,), Features(LAYER5), dialect="clip")
