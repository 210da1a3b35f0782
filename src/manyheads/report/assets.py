"""Every figure as SVG, PNG and CSV and every table as CSV, in a folder beside the page."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

from manyheads.spec.errors import UserError
from manyheads.spec.experiment import Experiment

from .chart import Figure, numbers
from .figures import figures
from .gather import Gathered
from .ledger import claims_table, evidence_table, ledger, unspoken
from .section import arms_table, comparisons_table, figure_name, runs_table
from .style import BACK, INK, sheet
from .svg import HEIGHT, WIDTH, inside, mark
from .tables import Table, csv_rows, slug
from .words import escape

HEAD, ROW, LETTER = 26, 18, 6.3  # height of the title and of a line of the legend, width of a letter


def save(found: Gathered, folder: Path, experiments: Mapping[str, Experiment]) -> list[Path]:
    """Write all files, and say which. PNG needs matplotlib; where that is not installed there are none."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return list(_save(found, folder, experiments))
    except OSError as error:
        raise UserError(f"{folder} cannot be written: {error.strerror or error}") from None


def _save(found: Gathered, folder: Path, experiments: Mapping[str, Experiment]) -> Iterator[Path]:
    entries = ledger(found.sections)
    tables: list[Table] = [claims_table(entries), evidence_table(entries), unspoken(entries, experiments)]
    for section in found.sections:
        tables += [arms_table(section), comparisons_table(section), runs_table(section, folder)]
        for figure in figures(section):
            yield from _figure(figure, folder / figure_name(figure, section))
    for table in tables:
        if table.rows:
            yield _csv(folder / f"{slug(table.name)}.csv", csv_rows(table))


def _figure(figure: Figure, stem: Path) -> Iterator[Path]:
    def named(kind: str) -> Path:
        return stem.with_name(f"{stem.name}.{kind}")

    named("svg").write_text(standalone(figure), encoding="utf-8")
    yield named("svg")
    yield _csv(named("csv"), numbers(figure))
    if drawable():
        from .png import draw

        draw(figure, named("png"))
        yield named("png")


def drawable() -> bool:
    """Whether what PNG needs is installed."""
    return find_spec("matplotlib") is not None


def _csv(file: Path, rows: Sequence[Sequence[str]]) -> Path:
    with file.open("w", newline="", encoding="utf-8") as out:
        csv.writer(out).writerows(rows)
    return file


def standalone(figure: Figure) -> str:
    """A figure as an SVG file: light, title above, legend below."""
    legend, bottom = _legend(figure.chart.keys or figure.names, HEAD + HEIGHT + ROW)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{2 * WIDTH}" height="{2 * bottom}" '
        f'viewBox="0 0 {WIDTH} {bottom}"><style>{sheet()}</style>'
        f'<rect width="{WIDTH}" height="{bottom}" fill="{BACK}"/>'
        f'<text x="12" y="19" style="font-size:14px;fill:{INK}">{escape(figure.chart.title)}</text>'
        f'<g transform="translate(0 {HEAD})">{inside(figure.chart)}</g>{legend}</svg>\n'
    )


def _legend(names: Sequence[str], top: float) -> tuple[str, float]:
    """The legend in as many lines as it needs, and where it ends."""
    if not any(names):
        return "", top
    x, y, parts = 12.0, top, []
    for colour, name in enumerate(names):
        width = 26 + LETTER * len(name)
        if x + width > WIDTH - 4 and x > 12:
            x, y = 12.0, y + ROW
        parts.append(
            mark(x + 6, y - 4, colour, 5.0)
            + f'<text x="{x + 17:.1f}" y="{y}" style="font-size:11px;fill:{INK}">{escape(name)}</text>'
        )
        x += width
    return "".join(parts), y + 12
