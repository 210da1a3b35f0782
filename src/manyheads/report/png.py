"""A figure as PNG, by matplotlib: the same lines and marks as on the page. Imported only where a file is asked for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .chart import Figure, Line
from .style import DIM, LIGHT, RULE
from .svg import COLOURS, shape

MARKS = {"circle": "o", "square": "s", "triangle": "^", "diamond": "D"}
DOTS = 200  # an inch


def draw(figure: Figure, file: Path) -> None:
    """Draw the figure to `file`."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure as Canvas

    chart = figure.chart
    canvas = Canvas(figsize=(5.6, 4.2), dpi=DOTS, layout="constrained")
    FigureCanvasAgg(canvas)
    axes = canvas.add_subplot()
    for line in chart.lines:
        _line(axes, line)
    for dot in chart.dots:
        colour = LIGHT[dot.colour % COLOURS]
        axes.errorbar(
            dot.x,
            dot.y,
            yerr=dot.error or None,
            color=colour,
            fmt=MARKS[shape(dot.colour)],
            ms=3 if dot.faint else 6,
            mfc="white" if dot.hollow else colour,
            alpha=0.6 if dot.faint else 1.0,
            elinewidth=1.2,
        )
        if dot.label:
            axes.annotate(dot.label, (dot.x, dot.y), xytext=(6, -3), textcoords="offset points", fontsize=7)
    axes.set(title=chart.title, xlabel=chart.x, ylabel=chart.y)
    _scales(axes, figure)
    names = chart.keys or figure.names
    used = sorted({line.colour for line in chart.lines} | {dot.colour for dot in chart.dots})
    handles = [
        axes.plot([], [], MARKS[shape(i)], color=LIGHT[i % COLOURS], label=names[i])[0] for i in used if names[i]
    ]
    if handles:
        canvas.legend(
            handles=handles, loc="outside lower center", ncols=min(4, len(handles)), fontsize=7, frameon=False
        )
    canvas.savefig(file)


def _line(axes: Any, line: Line) -> None:
    if not line.points:
        return
    dashes = {"": "-", "faint": "-", "dotted": ":", "printed": "--"}[line.kind]
    width = {"": 1.8, "faint": 0.8, "dotted": 1.4, "printed": 1.0}[line.kind]
    axes.plot(
        *zip(*line.points, strict=True),
        dashes,
        color=LIGHT[line.colour % COLOURS],
        lw=width,
        alpha=0.45 if line.kind == "faint" else 1.0,
    )
    if line.end and not line.kind:
        axes.plot(*line.points[-1], MARKS[shape(line.colour)], color=LIGHT[line.colour % COLOURS], ms=5)


def _scales(axes: Any, figure: Figure) -> None:
    """Axes as on the page: logarithmic where they are there, with the same words at the ticks."""
    chart = figure.chart
    values = [point for line in chart.lines for point in line.points]
    values += [(dot.x, dot.y - dot.error) for dot in chart.dots]
    if chart.log_x and min(x for x, _ in values) > 0:
        axes.set_xscale("log")
    if chart.log_y and min(y for _, y in values) > 0:
        axes.set_yscale("log")
    if chart.ticks_x:
        axes.set_xticks(list(chart.ticks_x), [chart.show_x(value) for value in chart.ticks_x], minor=False)
        axes.minorticks_off()
    else:
        if chart.whole_x:
            axes.xaxis.get_major_locator().set_params(integer=True)
        axes.xaxis.set_major_formatter(lambda value, _: chart.show_x(value))
    axes.yaxis.set_major_formatter(lambda value, _: chart.show_y(value))
    axes.grid(axis="y", color=RULE, lw=0.6)
    axes.tick_params(colors=DIM, labelsize=8)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
