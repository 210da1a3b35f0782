"""The front of a plan as a picture."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from manyheads.planner import Plan


def draw(found: Plan, name: str, file: Path) -> None:
    """Layers against predicted kappa, the front coloured by its warnings, the listed designs numbered."""
    from .figure import figure

    front = found.front
    layers, kappa = front.depth.sum(axis=1), front.kappa_ratio
    calm = front.serious == 0
    wary = front.cautions > 0
    groups = {"no warning": calm & ~wary, "cautions": calm & wary, "serious warnings": ~calm}
    with figure(file) as axes:
        for (label, chosen), colour in zip(groups.items(), ("#1a7f37", "#d1642d", "#afb8c1"), strict=True):
            axes.scatter(
                layers[chosen], kappa[chosen], s=8, color=colour, label=f"{label} ({int(chosen.sum())})", zorder=2
            )
        for i, design in enumerate(found.designs):
            at = (sum(design.dims["depth"]), design.kappa_ratio)
            axes.scatter(*at, s=90, facecolor="none", edgecolor="#1f6feb", zorder=3)
            axes.annotate(str(i + 1), at, xytext=(6, 5), textcoords="offset points", color="#1f6feb")
        axes.scatter(
            sum(found.original.dims["depth"]), 1.0, marker="*", s=90, color="#1f2328", label="original", zorder=3
        )
        axes.axhline(1.0, color="#57606a", lw=0.8, ls=":")
        budget = ", ".join(f"{cap.name} {cap.given}" for cap in found.caps)
        axes.set(xlabel="layers", ylabel="predicted kappa / original's", yscale="log", title=f"{name}: {budget}")
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axes.yaxis.set_minor_formatter(lambda value, _: f"{value:g}")
        axes.legend(frameon=False)
