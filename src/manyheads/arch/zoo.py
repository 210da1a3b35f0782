"""Named originals: the usual sizes of each family, head_dim stated.

zoo.get("vit_b")       the record
zoo.NAMES              all names
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from manyheads.spec.arch import Arch
from manyheads.spec.errors import UserError, nearest
from manyheads.spec.parts import Rope, RopeLlama3

from . import families as f


def volo(
    width: int,
    depths: tuple[int, ...],
    heads: tuple[int, int],
    mlp: tuple[int, ...] = (),
    stem: int = 64,
    ratio: int = 3,
) -> Arch:
    """VOLO: three transformer stages at twice the outlook stage's width, heads of each kind stated; without `mlp`,
    MLPs `ratio` times as wide as their stage."""
    widths = (width, 2 * width, 2 * width, 2 * width)
    counts = (heads[0], heads[1], heads[1], heads[1])
    dims = tuple(w // h for w, h in zip(widths, counts, strict=True))
    return f.volo(widths, depths, counts, dims, mlp or tuple(ratio * w for w in widths), stem=stem)


def davit(width: int, depths: tuple[int, ...], mlp: tuple[int, ...] = ()) -> Arch:
    """DaViT: widths double from stage to stage, heads of 32; without `mlp`, MLPs four times as wide as their stage."""
    widths = (width, 2 * width, 4 * width, 8 * width)
    return f.davit(widths, depths, tuple(w // 32 for w in widths), (32,) * 4, mlp or tuple(4 * w for w in widths))


def lra(vocab: int, tokens: int, classes: int, *, pair: bool = False, mlp: int = 128, conv: int = 35) -> Arch:
    """The LRA Nyströmformer: width 64, 2 layers, 2 heads of 32."""
    return f.nystromformer(64, 2, 2, 32, mlp, vocab=vocab, tokens=tokens, classes=classes, conv=conv, pair=pair)


def tinystories(mlp: int = 2048) -> Arch:
    """The 89M TinyStories GPT: 512 // 12 = 42, so inner is 504."""
    return f.stories(512, 12, 12, 42, mlp)


def tnt_b(mlp: int = 2560, legacy: bool = False) -> Arch:
    """TNT-B."""
    return f.tnt(640, 12, 10, 64, mlp, pixel_width=40, pixel_head_dim=10, pixel_mlp_dim=160, legacy=legacy)


# fmt: off
_MAKE: dict[str, tuple[Callable[[], Arch], str]] = {
    "vit_ti": (lambda: f.vit(192, 12, 3, 64, 768), "ViT-Tiny/16"),
    "vit_s": (lambda: f.vit(384, 12, 6, 64, 1536), "ViT-Small/16"),
    "vit_b": (lambda: f.vit(768, 12, 12, 64, 3072), "ViT-Base/16"),
    "vit_l": (lambda: f.vit(1024, 24, 16, 64, 4096), "ViT-Large/16"),
    "deit_ti": (lambda: f.vit(192, 12, 3, 64, 768, family="deit"), "DeiT-Tiny"),
    "deit_s": (lambda: f.vit(384, 12, 6, 64, 1536, family="deit"), "DeiT-Small"),
    "deit_b": (lambda: f.vit(768, 12, 12, 64, 3072, family="deit"), "DeiT-Base"),
    "deit_ti_distilled": (lambda: f.vit(192, 12, 3, 64, 768, class_tokens=2, family="deit"), "with distillation token"),
    "deit_s_distilled": (lambda: f.vit(384, 12, 6, 64, 1536, class_tokens=2, family="deit"), "with distillation token"),
    "deit_b_distilled": (lambda: f.vit(768, 12, 12, 64, 3072, class_tokens=2, family="deit"), "with distillation token"),
    "xcit_s12": (lambda: f.xcit(384, 12, 8, 48, 1536, scaled=1.0), "XCiT-Small, 12 layers, p16"),
    "xcit_s24": (lambda: f.xcit(384, 24, 8, 48, 1536), "XCiT-Small, 24 layers, p16"),
    "xcit_m24": (lambda: f.xcit(512, 24, 8, 64, 2048), "XCiT-Medium, p16"),
    "xcit_l24": (lambda: f.xcit(768, 24, 16, 48, 3072), "XCiT-Large, p16"),
    "tnt_s": (lambda: f.tnt(384, 12, 6, 64, 1536, pixel_width=24, pixel_head_dim=6, pixel_mlp_dim=96), "TNT-Small"),
    "tnt_b": (tnt_b, "TNT-Base"),
    "tnt_s_legacy": (
        lambda: f.tnt(384, 12, 6, 64, 1536, pixel_width=24, pixel_head_dim=6, pixel_mlp_dim=96, legacy=True),
        "TNT-Small, block of timm before 1.0.16",
    ),
    "tnt_b_legacy": (
        lambda: tnt_b(legacy=True),
        "TNT-Base, block of timm before 1.0.16",
    ),
    "volo_d1": (lambda: volo(192, (4, 4, 8, 2), (6, 12)), "VOLO-D1"),
    "volo_d2": (lambda: volo(256, (6, 4, 10, 4), (8, 16)), "VOLO-D2"),
    "volo_d3": (lambda: volo(256, (8, 8, 16, 4), (8, 16)), "VOLO-D3"),
    "volo_d4": (lambda: volo(384, (8, 8, 16, 4), (12, 16)), "VOLO-D4"),
    "volo_d5": (lambda: volo(384, (12, 12, 20, 4), (12, 16), ratio=4, stem=128), "VOLO-D5"),
    "davit_t": (lambda: davit(96, (1, 1, 3, 1)), "DaViT-Tiny"),
    "davit_s": (lambda: davit(96, (1, 1, 9, 1)), "DaViT-Small"),
    "davit_b": (lambda: davit(128, (1, 1, 9, 1)), "DaViT-Base"),
    "davit_l": (lambda: davit(192, (1, 1, 9, 1)), "DaViT-Large"),
    "crammed_bert": (f.crammed_bert, "Crammed BERT, 16 layers"),
    "bert_base": (lambda: f.bert(768, 12, 12, 64, 3072), "BERT-Base, uncased vocabulary"),
    "gpt2": (lambda: f.gpt2(768, 12, 12, 64, 3072), "GPT-2 124M"),
    "gpt2_tinystories": (
        tinystories,
        "the 89M TinyStories model: 512 // 12 = 42, inner 504",
    ),
    "llama_1b": (
        lambda: f.llama(2048, 16, 32, 64, 8192, kv_heads=8, vocab=128_256, tokens=8192, rope=RopeLlama3(), tied=True,
                        eps=1e-5),
        "Llama 3.2 1B, costed at 8192 tokens",
    ),
    "qwen3_0.6b": (
        lambda: f.llama(1024, 28, 16, 128, 3072, kv_heads=8, vocab=151_936, tokens=8192, rope=Rope(1_000_000.0),
                        tied=True, qk_norm=True),
        "Qwen3 0.6B: inner 2048 at width 1024; costed at 8192 tokens",
    ),
    "nystromformer_listops": (lambda: lra(32, 2048, 10), "LRA ListOps"),
    "nystromformer_text": (lambda: lra(512, 4096, 2), "LRA Text (IMDB bytes)"),
    "nystromformer_retrieval": (lambda: lra(512, 4096, 2, pair=True), "LRA Retrieval, two documents"),
    "nystromformer_image": (lambda: lra(512, 1024, 10), "LRA Image (CIFAR-10 pixels)"),
    "nystromformer_pathfinder": (lambda: lra(512, 1024, 2), "LRA Pathfinder-32"),
    "nearest_neighbor": (f.nearest_neighbor, "rank experiments: d=64, N=16, one full-rank head"),
}
# fmt: on

NAMES: tuple[str, ...] = tuple(_MAKE)


@cache
def get(name: str) -> Arch:
    """The record called `name`."""
    if name not in _MAKE:
        raise UserError(f"no model is called {name!r}{nearest(name, NAMES) or ''}; `manyheads zoo` lists all names")
    return _MAKE[name][0]()


def note(name: str) -> str:
    """What the record called `name` is, in a few words."""
    return _MAKE[name][1]
