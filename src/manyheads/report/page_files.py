"""Every figure of the page as SVG, PNG and CSV and every table as CSV, in a folder beside it."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from manyheads.spec.errors import UserError
from manyheads.spec.experiment import Experiment

from .chart import Chart, Figure, Line, numbers
from .claims_table import claims_table, claims_without_runs, evidence, evidence_table
from .figures import figures
from .read_runs import ReportedRuns
from .section_html import arms_table, comparisons_table, figure_name, runs_table
from .svg import COLOURS, palette, shape, standalone
from .tables import Table, csv_rows, slug

MARKS = {"circle": "o", "square": "s", "triangle": "^", "diamond": "D"}
LINES = {"": ("-", 1.8), "faint": ("-", 0.8), "dotted": (":", 1.4), "printed": ("--", 1.0)}  # dashes and width
DPI = 200


def save(runs: ReportedRuns, folder: Path, experiments: Mapping[str, Experiment]) -> list[Path]:
    """Write all files and return their paths. PNG needs matplotlib; where that is not installed there are none."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return list(_save(runs, folder, experiments))
    except OSError as error:
        raise UserError(f"{folder} cannot be written: {error.strerror or error}") from None


def _save(runs: ReportedRuns, folder: Path, experiments: Mapping[str, Experiment]) -> Iterator[Path]:
    rows = evidence(runs.sections)
    tables: list[Table] = [claims_table(rows), evidence_table(rows), claims_without_runs(rows, experiments)]
    for section in runs.sections:
        tables += [arms_table(section), comparisons_table(section), runs_table(section, folder)]
        for figure in figures(section):
            yield from _figure(figure, folder, figure_name(figure, section))
    for table in tables:
        if table.rows:
            yield _csv(folder / f"{slug(table.name)}.csv", csv_rows(table))


def _figure(figure: Figure, folder: Path, name: str) -> Iterator[Path]:
    svg = folder / f"{name}.svg"
    svg.write_text(standalone(figure), encoding="utf-8")
    yield svg
    yield _csv(folder / f"{name}.csv", numbers(figure))
    if drawable():
        yield _png(figure, folder / f"{name}.png")


def _csv(file: Path, rows: Sequence[Sequence[str]]) -> Path:
    with file.open("w", newline="", encoding="utf-8") as out:
        csv.writer(out).writerows(rows)
    return file


def drawable() -> bool:
    """Whether matplotlib, which draws PNG files, is installed."""
    return find_spec("matplotlib") is not None


def _png(figure: Figure, file: Path) -> Path:
    """Draw the figure with matplotlib: the same lines and marks as on the page."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure as Canvas

    chart, colours = figure.chart, _colours()
    canvas = Canvas(figsize=(5.6, 4.2), dpi=DPI, layout="constrained")
    FigureCanvasAgg(canvas)
    axes = canvas.add_subplot()
    for line in chart.lines:
        _line(axes, line)
    for dot in chart.dots:
        colour = colours[dot.colour % COLOURS]
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
    _axes(axes, chart)
    used = sorted({line.colour for line in chart.lines} | {dot.colour for dot in chart.dots})
    handles = [
        axes.plot([], [], MARKS[shape(i)], color=colours[i % COLOURS], label=figure.series[i])[0]
        for i in used
        if figure.series[i]
    ]
    if handles:
        columns = min(4, len(handles))
        canvas.legend(handles=handles, loc="outside lower center", ncols=columns, fontsize=7, frameon=False)
    canvas.savefig(file)
    return file


def _colours() -> list[str]:
    return [palette()[f"c{i}"] for i in range(COLOURS)]


def _line(axes: Any, line: Line) -> None:
    if not line.points:
        return
    (dashes, width), colour = LINES[line.kind], _colours()[line.colour % COLOURS]
    alpha = 0.45 if line.kind == "faint" else 1.0
    axes.plot(*zip(*line.points, strict=True), dashes, color=colour, lw=width, alpha=alpha)
    if line.end and not line.kind:
        axes.plot(*line.points[-1], MARKS[shape(line.colour)], color=colour, ms=5)


def _axes(axes: Any, chart: Chart) -> None:
    """Axes as on the page: logarithmic where they are there, with the same text at the ticks."""
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
    axes.grid(axis="y", color=palette()["rule"], lw=0.6)
    axes.tick_params(colors=palette()["dim"], labelsize=8)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
