"""Every row of Tables 1-5 of *Leaner Transformers* (2505.20802) as printed, and the models a reader could build for it.

Nothing here is inferred: a number is what the paper prints, or `None` where our copy of the text has no legible value.
`Model.make(mlp_dim, ...)` gives the original with another MLP width, so that `readings` can try other widths for a row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from manyheads.arch import families as f
from manyheads.arch import zoo
from manyheads.spec.arch import Arch

Numbers = int | tuple[int, ...]


@dataclass(frozen=True)
class Model:
    """One original of the paper: how it is built at any MLP width, and the width the paper prints for it."""

    name: str
    make: Callable[..., Arch]
    widths: Numbers  # MLP widths are tried as multiples of these
    images_per_gpu: int = 0  # batch of Table 6 (1024 base, 512 large) over 8 GPUs; 0 for language models
    mlp_ratio: int = 4  # the MLP width over `widths` where a row prints none
    floors: bool = False  # its code makes heads of width // heads and drops the remainder


@dataclass(frozen=True, eq=False)
class Row:
    """One printed row. `params` is the figure as printed, in `unit`s; `memory` in GB."""

    id: str
    table: int
    model: Model
    role: Literal["original", "lean"]
    depth: Numbers
    heads: Numbers
    mlp: Numbers | None  # None: the table prints no MLP width
    params: str | None
    unit: Literal["M", "k"] = "M"
    memory: float | None = None
    change: str = ""  # the percentage printed beside it
    scores: Mapping[str, float] = field(default_factory=dict)
    note: str = ""

    @property
    def figure(self) -> str | None:
        """The parameters the row claims: its own printed figure, or its original's where it prints only (same)."""
        if self.params is None and self.change == "same":
            return BY_ID[self.id.replace("/lean", "/original")].params
        return self.params

    @property
    def stated(self) -> str:
        """The configuration as the table prints it."""
        config = f"{_text(self.depth)} layer{'s' * (self.depth != 1)}, {_text(self.heads)} heads"
        return config if self.mlp is None else f"{config}, MLP {_text(self.mlp)}"


def _text(numbers: Numbers) -> str:
    return str(numbers) if isinstance(numbers, int) else "[" + ",".join(map(str, numbers)) + "]"


def _lra(vocab: int, tokens: int, classes: int, pair: bool = False) -> Callable[..., Arch]:
    return lambda mlp, conv=35: zoo.lra(vocab, tokens, classes, pair=pair, mlp=mlp, conv=conv)


VIT_B = Model("ViT-B", lambda mlp: f.vit(768, 12, 12, 64, mlp), 768, 128)
DEIT_B = Model("DeiT-B", lambda mlp: f.vit(768, 12, 12, 64, mlp, family="deit"), 768, 128)
XCIT_M = Model("XCiT-M", lambda mlp: f.xcit(512, 24, 8, 64, mlp), 512, 128)
TNT_B = Model("TNT-B", zoo.tnt_b, 640, 128)
VOLO_D3 = Model("VOLO-d3", lambda mlp: zoo.volo(256, (8, 8, 16, 4), (8, 16), mlp), (256, 512, 512, 512), 128)
DAVIT_B = Model("DaViT-B", lambda mlp: zoo.davit(128, (1, 1, 9, 1), mlp), (128, 256, 512, 1024), 128)
VIT_L = Model("ViT-L", lambda mlp: f.vit(1024, 24, 16, 64, mlp), 1024, 64)
DEIT_L = Model("DeiT-L", lambda mlp: f.vit(1024, 24, 16, 64, mlp, family="deit"), 1024, 64)
XCIT_L = Model("XCiT-L", lambda mlp: f.xcit(768, 24, 16, 48, mlp), 768, 64)
VOLO_D4 = Model("VOLO-d4", lambda mlp: zoo.volo(384, (8, 8, 16, 4), (12, 16), mlp), (384, 768, 768, 768), 64)
DAVIT_L = Model("DaViT-L", lambda mlp: zoo.davit(192, (1, 1, 9, 1), mlp), (192, 384, 768, 1536), 64)
CRAMMED = Model("Crammed BERT", lambda mlp: f.crammed_bert(mlp_dim=mlp), 768, mlp_ratio=2)
GPT2 = Model("GPT-2 (TinyStories)", zoo.tinystories, 512, floors=True)
LISTOPS = Model("ListOps", _lra(32, 2048, 10), 64)
TEXT = Model("Text", _lra(512, 4096, 2), 64)
RETRIEVAL = Model("Retrieval", _lra(512, 4096, 2, pair=True), 64)
IMAGE = Model("Image", _lra(512, 1024, 10), 64)
PATHFINDER = Model("Pathfinder", _lra(512, 1024, 2), 64)

GLUE = ("MNLI", "SST-2", "STSB", "RTE", "QNLI", "QQP", "MRPC", "CoLA", "GLUE")


def _glue(*values: float) -> dict[str, float]:
    return dict(zip(GLUE, values, strict=True))


def _vision(key: str, table: int, model: Model, original: tuple, lean: tuple) -> list[Row]:  # type: ignore[type-arg]
    rows = []
    for role, (depth, heads, mlp, top1, top5, count, memory) in (("original", original), ("lean", lean)):
        scores = {"top1": top1, "top5": top5}
        rows.append(Row(f"{key}/{role}", table, model, role, depth, heads, mlp, count, memory=memory, scores=scores))  # type: ignore[arg-type]
    return rows


_DAVIT_B_MLP, _DAVIT_L_MLP = (512, 1024, 2048, 4096), (768, 1536, 3072, 6144)
_FULL, _HALF = (8, 8, 16, 4), (4, 4, 8, 2)

# fmt: off
ROWS: tuple[Row, ...] = (
    Row("crammed_bert/original", 1, CRAMMED, "original", 16, 12, None, "119", memory=13.8,
        scores=_glue(83.8, 92.3, 86.3, 55.1, 90.1, 87.3, 85.0, 48.9, 78.6)),
    Row("crammed_bert/lean", 1, CRAMMED, "lean", 10, 24, None, "84", memory=10.3, change="-29%",
        scores=_glue(83.7, 92.3, 86.3, 55.3, 90.0, 87.3, 85.2, 48.9, 78.6)),
    Row("gpt2/original", 2, GPT2, "original", 12, 12, None, "89", memory=12.8, scores={"loss": 2.47}),
    Row("gpt2/lean", 2, GPT2, "lean", 4, 16, None, "64", memory=9.7, change="-28%", scores={"loss": 2.41}),
    Row("listops/original", 3, LISTOPS, "original", 2, 2, None, None, "k", scores={"top1": 36.79},
        note="parameter cell illegible in our copy"),
    Row("listops/lean", 3, LISTOPS, "lean", 1, 4, None, "192.9", "k", change="-9%", scores={"top1": 37.13}),
    Row("text/original", 3, TEXT, "original", 2, 2, None, "371.2", "k", scores={"top1": 62.95}),
    Row("text/lean", 3, TEXT, "lean", 1, 4, None, None, "k", change="-5%", scores={"top1": 63.82},
        note="parameter cell illegible in our copy"),
    Row("retrieval/original", 3, RETRIEVAL, "original", 2, 2, None, "394.8", "k", scores={"top1": 79.3}),
    Row("retrieval/lean", 3, RETRIEVAL, "lean", 1, 4, None, "394.8", "k", change="same", scores={"top1": 79.5}),
    Row("image/original", 3, IMAGE, "original", 2, 2, None, "191.2", "k", scores={"top1": 37.2}),
    Row("image/lean", 3, IMAGE, "lean", 1, 4, None, None, "k", change="same", scores={"top1": 38.2},
        note="the cell prints only (same)"),
    Row("pathfinder/original", 3, PATHFINDER, "original", 2, 2, None, "190.2", "k", scores={"top1": 69.8}),
    Row("pathfinder/lean", 3, PATHFINDER, "lean", 1, 4, None, "190.2", "k", change="same", scores={"top1": 69.9}),
    *_vision("vit_b", 4, VIT_B, (12, 12, 3072, 80.1, 94.2, "86.6", 178.4), (7, 16, 1536, 80.4, 94.9, "40.1", 101.6)),
    *_vision("deit_b", 4, DEIT_B, (12, 12, 3072, 80.4, 95.1, "86.6", 178.4), (7, 16, 1536, 80.8, 95.3, "40.1", 101.6)),
    *_vision("xcit_m", 4, XCIT_M, (24, 8, 2048, 81.4, 95.5, "84.4", 320.8), (12, 16, 2048, 81.7, 95.6, "59.0", 196.0)),
    *_vision("tnt_b", 4, TNT_B, (12, 10, 2560, 82.3, 95.7, "65.4", 266.4), (8, 16, 2560, 82.3, 95.8, "30.9", 200.8)),
    *_vision("volo_d3", 4, VOLO_D3,
             (_FULL, (8, 16, 16, 16), (1024, 2048, 2048, 2048), 82.6, 95.6, "86", 209.2),
             (_HALF, (16, 32, 32, 32), (768, 1536, 1536, 1536), 82.6, 95.7, "47.5", 144.8)),
    *_vision("davit_b", 4, DAVIT_B, ((1, 1, 9, 1), (4, 8, 16, 32), _DAVIT_B_MLP, 83.3, 96.0, "88.0", 294.4),
             ((1, 1, 5, 1), (4, 8, 32, 32), _DAVIT_B_MLP, 83.5, 96.1, "62.0", 233.6)),
    *_vision("vit_l", 5, VIT_L, (24, 16, 4096, 80.6, 94.4, "203.6", 200.0), (8, 30, 2048, 81.1, 95.1, "98.6", 115.2)),
    *_vision("deit_l", 5, DEIT_L, (24, 16, 4096, 81.5, 95.3, "203.6", 200.0), (8, 30, 2048, 81.8, 95.4, "98.6", 115.2)),
    *_vision("xcit_l", 5, XCIT_L,
             (24, 16, 3072, 82.1, 95.9, "189.1", 275.2), (12, 24, 3072, 82.4, 95.9, "103.8", 160.8)),
    *_vision("volo_d4", 5, VOLO_D4,
             (_FULL, (12, 16, 16, 16), (1536, 3072, 3072, 3072), 83.0, 96.1, "193.0", 294.4),
             (_HALF, (24, 32, 32, 32), (768, 1536, 1536, 1536), 83.1, 96.2, "105.6", 188.8)),
    *_vision("davit_l", 5, DAVIT_L, ((1, 1, 9, 1), (6, 12, 24, 48), _DAVIT_L_MLP, 83.6, 96.5, "196.8", 238.4),
             ((1, 1, 5, 1), (6, 12, 48, 48), _DAVIT_L_MLP, 83.6, 96.6, "140.0", 186.4)),
)
# fmt: on

PAIRS: tuple[str, ...] = tuple(dict.fromkeys(row.id.split("/")[0] for row in ROWS))
BY_ID: dict[str, Row] = {row.id: row for row in ROWS}

# Table 6, all vision models
RECIPE: dict[str, str] = {
    "Batch size": "1024 for base and 512 for large",
    "Number of epochs": "300",
    "Learning rate": "3.00e-03",
    "Optimizer": "AdamW",
    "Weight decay": "0.3",
    "Label smoothing": "0.1",
    "Number of warm-up epochs": "20",
    "Warmup learning rate": "1.00e-05",
    "Mixup": "0.8",
    "Cutmix": "1",
    "Drop path": "0.1",
    "RandAug": "9, 0.5",
}
