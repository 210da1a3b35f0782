"""Draws the pictures of the documentation from the project's own numbers: `python docs/figures.py`."""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt

from manyheads.paper.audit import as_stated, likely
from manyheads.paper.rows import BY_ID, PAIRS

HERE = Path(__file__).parent / "img"
INK, FIXED, SPLIT, PRINTED = "#57606a", "#1f6feb", "#d1642d", "#1a7f37"


def readings() -> None:
    """Lean models of the paper: parameters at a fixed head_dim, split, and as printed, relative to the original."""
    pairs = [p for p in PAIRS if BY_ID[f"{p}/lean"].table != 3]
    plt.rcParams.update(
        {"font.family": "sans-serif", "font.size": 9, "svg.fonttype": "none", "svg.hashsalt": "manyheads"}
    )
    figure, axes = plt.subplots(figsize=(7.2, 4.2))
    for y, pair in enumerate(reversed(pairs)):
        row, original = BY_ID[f"{pair}/lean"], likely(BY_ID[f"{pair}/original"]).params
        counts = {r.policy: r.params / original for r in as_stated(row) if r.policy in ("fixed", "split")}
        believed = likely(row)
        if believed.changes:  # the row's own MLP width does not give its count: show the policies at the believed one
            counts = {believed.policy: believed.params / original}
        axes.plot([min(counts.values()), max(counts.values())], [y, y], color="#d0d7de", lw=2, zorder=1)
        for policy, colour in (("fixed", FIXED), ("split", SPLIT)):
            if policy in counts:
                axes.scatter(counts[policy], y, s=46, color=colour, zorder=2, label=policy if y == 0 else None)
        printed = float(row.params) * 1e6 / original
        axes.scatter(printed, y, s=90, marker="|", color=PRINTED, zorder=3, lw=2)
    axes.set_yticks(range(len(pairs)), [BY_ID[f"{p}/lean"].model.name for p in reversed(pairs)])
    axes.set_xlabel("parameters of the lean model / the original's")
    axes.set_xlim(0.36, 0.94)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.tick_params(length=0, colors=INK)
    axes.grid(axis="x", color="#eaeef2", zorder=0)
    handles = [
        plt.Line2D([], [], marker="o", ls="", color=FIXED, label="fixed: head_dim kept"),
        plt.Line2D([], [], marker="o", ls="", color=SPLIT, label="split: inner kept"),
        plt.Line2D([], [], marker="|", ls="", color=PRINTED, ms=11, mew=2, label="printed"),
    ]
    axes.legend(handles=handles, frameon=False, loc="upper right", bbox_to_anchor=(1.0, 0.78))
    figure.tight_layout()
    figure.savefig(HERE / "readings.svg", metadata={"Date": None})
    figure.savefig(HERE / "readings.png", dpi=130)


if __name__ == "__main__":
    HERE.mkdir(exist_ok=True)
    readings()
