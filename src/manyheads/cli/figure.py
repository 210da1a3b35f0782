"""A small figure, written to the file that `--plot` names."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from manyheads.spec.errors import UserError, optional

FORMATS = (".svg", ".png", ".pdf")


@contextmanager
def figure(file: Path) -> Iterator[Any]:
    """Axes to draw on; the figure is saved when the block ends."""
    if file.suffix not in FORMATS:
        raise UserError(f"--plot {file}: write a name that ends in {', '.join(FORMATS)}")
    matplotlib = optional("matplotlib", "manyheads[report]")
    figures = optional("matplotlib.figure", "manyheads[report]")
    with matplotlib.rc_context({"font.size": 9, "svg.fonttype": "none", "svg.hashsalt": "manyheads"}):
        canvas = figures.Figure(figsize=(6.4, 3.8), layout="constrained")
        axes = canvas.add_subplot()
        axes.grid(color="#eaeef2")
        axes.spines[["top", "right"]].set_visible(False)
        yield axes
        try:
            canvas.savefig(file, dpi=150, metadata={"Date": None} if file.suffix == ".svg" else None)
        except OSError as error:
            raise UserError(f"--plot {file} cannot be written: {error}") from None
