"""Usual sizes of the staged families and of the LRA models, from the few numbers that vary between them."""

from __future__ import annotations

from manyheads.spec.arch import Arch

from . import families as f


def volo(width: int, depths: tuple[int, ...], heads: tuple[int, int], mlp: tuple[int, ...], stem: int = 64) -> Arch:
    """VOLO: three transformer stages at twice the outlook stage's width, heads of each kind stated."""
    widths = (width, 2 * width, 2 * width, 2 * width)
    counts = (heads[0], heads[1], heads[1], heads[1])
    dims = tuple(w // h for w, h in zip(widths, counts, strict=True))
    return f.volo(widths, depths, counts, dims, mlp, stem=stem)


def davit(width: int, depths: tuple[int, ...], mlp: tuple[int, ...]) -> Arch:
    """DaViT: widths double from stage to stage, heads of 32."""
    widths = (width, 2 * width, 4 * width, 8 * width)
    return f.davit(widths, depths, tuple(w // 32 for w in widths), (32,) * 4, mlp)


def lra(vocab: int, tokens: int, classes: int, *, pair: bool = False, mlp: int = 128, conv: int = 35) -> Arch:
    """The LRA Nyströmformer: width 64, 2 layers, 2 heads of 32."""
    return f.nystromformer(64, 2, 2, 32, mlp, vocab=vocab, tokens=tokens, classes=classes, conv=conv, pair=pair)


def tinystories(mlp: int = 2048) -> Arch:
    """The 89M TinyStories GPT: 512 // 12 = 42, so inner is 504."""
    return f.stories(512, 12, 12, 42, mlp)


def tnt_b(mlp: int = 2560, legacy: bool = False) -> Arch:
    """TNT-B."""
    return f.tnt(640, 12, 10, 64, mlp, pixel_width=40, pixel_head_dim=10, pixel_mlp_dim=160, legacy=legacy)
