"""Every figure of *Leaner Transformers* as configurations with exact counts.

The plotted values are not in our copy of the paper. A point's `printed` is the parameter count that a table or the text
gives for it, and None where neither does.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from manyheads.arch import zoo
from manyheads.arch.count import params
from manyheads.arch.redesign import redesign
from manyheads.spec.arch import Arch

from .audit import likely
from .readings import readings
from .rows import BY_ID, PAIRS


@dataclass(frozen=True)
class Point:
    """One configuration of a figure; `printed` is a parameter count that the text or a table gives for it."""

    label: str
    arch: Arch
    params: int
    printed: float | None = None


@dataclass(frozen=True)
class PaperFigure:
    """One figure of the paper: what it shows, and its points. `own` marks a grid that we chose, since the paper's is
    unknown."""

    id: str
    shows: str
    points: tuple[Point, ...]
    own: bool = False


def _point(label: str, arch: Arch, printed: float | None = None) -> Point:
    return Point(label, arch, params(arch).total, printed)


def _heads(depth: int) -> list[Point]:
    base = zoo.get("vit_b")
    printed = {(8, 14): 61.2e6, (8, 18): 67.4e6}  # section 4.1.1, the ends of a range
    return [
        _point(f"{depth} layers, {h} heads of 64", redesign(base, depth=depth, heads=h), printed.get((depth, h)))
        for h in range(2, 19, 2)
    ]


def _mlps(depth: int) -> list[Point]:
    base = zoo.get("vit_b")
    return [_point(f"{depth} layers, MLP ratio {r}", redesign(base, depth=depth, mlp_dim=768 * r)) for r in range(1, 9)]


def _tables(*tables: int) -> list[Point]:
    ids = [f"{pair}/{role}" for pair in PAIRS for role in ("original", "lean")]
    rows = [BY_ID[i] for i in ids if BY_ID[i].table in tables]
    return [_point(row.id, likely(row).arch, float(row.params) * 1e6 if row.params else None) for row in rows]


def _lra(row: str) -> list[Point]:
    grid = {r.label: r for r in readings(row)}
    return [
        _point(label, grid[label].arch)
        for depth in (2, 1)
        for heads in (2, 4, 6, 8)
        for skip in ("conv 35", "no conv")
        for label in [f"({depth},{heads}) x 32, {skip}"]
    ]


def _best() -> list[Point]:
    base = zoo.get("vit_b")
    return [
        _point(f"{depth} layers, {heads} heads of 64, MLP {mlp}", redesign(base, depth=depth, heads=heads, mlp_dim=mlp))
        for depth in (5, 6, 7, 8)
        for heads in (12, 16, 20, 24, 30)
        for mlp in (1536, 3072)
    ]


@cache
def figures() -> tuple[PaperFigure, ...]:
    """All nine figures."""
    return (
        PaperFigure(
            "fig1", "accuracy against parameters, originals and redesigns of Tables 4 and 5", tuple(_tables(4, 5))
        ),
        PaperFigure("fig2", "kappa of ViT-B against heads (2 to 18; even steps are ours)", tuple(_heads(12))),
        PaperFigure(
            "fig3", "top-1 of ViT-B, 12 and 8 layers, against heads (even steps are ours)", (*_heads(12), *_heads(8))
        ),
        PaperFigure("fig4", "top-1 of ViT-B with 12 and 8 layers against MLP width", (*_mlps(12), *_mlps(8))),
        PaperFigure(
            "fig5", "best configurations at 8 layers and fewer: the paper's are unknown", tuple(_best()), own=True
        ),
        PaperFigure("fig6", "accuracy, parameters and memory of the base vision pairs (Table 4)", tuple(_tables(4))),
        PaperFigure("fig7", "accuracy, parameters and memory of the large vision pairs (Table 5)", tuple(_tables(5))),
        PaperFigure("fig8", "ListOps accuracy against heads, 2 layers and 1", tuple(_lra("listops/original"))),
        PaperFigure("fig9", "Text accuracy against heads, 2 layers and 1", tuple(_lra("text/original"))),
    )
