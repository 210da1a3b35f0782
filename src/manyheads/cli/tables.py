"""Tables that fit the terminal: columns are left out in a stated order, and the first ones never."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

GAP = 2  # spaces between columns
NOTE = 30  # characters that a note has at least


@dataclass(frozen=True)
class Column:
    """A column of a table. Of the columns that may be left out, the one with the highest `leave` goes first; one with 0
    always stays, such as a run's name and its headline number. A `note` takes the width that is left, and wraps."""

    title: str
    right: bool = False
    leave: int = 0
    note: bool = False


def fitting(columns: Sequence[Column], rows: Sequence[Sequence[str]], width: int) -> dict[int, int]:
    """The numbers of the columns that fit in `width` characters side by side, and the width of each.

    Notes wrap. The first column is folded where it takes more than half of the width and others would leave for it,
    or where even the columns that always stay do not fit."""
    from rich.cells import cell_len

    widths = [max(map(cell_len, (column.title, *(row[i] for row in rows)))) for i, column in enumerate(columns)]
    kept = {i: min(NOTE, wide) if columns[i].note else wide for i, wide in enumerate(widths)}
    if sum(kept.values()) + GAP * (len(kept) - 1) > width:
        kept[0] = min(widths[0], width // 2)
    while (spare := width - sum(kept.values()) - GAP * (len(kept) - 1)) < 0:
        leaving = max(kept, key=lambda i: columns[i].leave)
        if columns[leaving].leave == 0:
            return kept | {0: max(1, kept[0] + spare)}
        del kept[leaving]
    for i in kept:  # the name first, then notes
        wider = min(widths[i], kept[i] + spare)
        spare, kept[i] = spare - (wider - kept[i]), wider
    return kept


def show(
    console: Any, columns: Sequence[Column], rows: Sequence[Sequence[str]], styles: Sequence[Any] = (), title: str = ""
) -> None:
    """Print rows of text. `styles` has a style for each row, or a style for each cell of each row.

    A line below the table names the columns that a wider terminal shows."""
    from rich.table import Table
    from rich.text import Text

    kept = fitting(columns, rows, console.width)
    heading = Text(title) if title else None
    table = Table(
        title=heading, title_justify="left", box=None, header_style="bold", pad_edge=False, padding=(0, GAP, 0, 0)
    )
    for i, wide in kept.items():
        justify: Any = "right" if columns[i].right else "left"
        table.add_column(Text(columns[i].title), justify=justify, width=wide, overflow="fold")
    for number, row in enumerate(rows):
        style = styles[number] if styles else ""
        cells = [Text(row[i], style=style if isinstance(style, str) else style[i]) for i in kept]
        table.add_row(*cells)
    console.print(table)
    if left := [column.title for i, column in enumerate(columns) if i not in kept and column.title]:
        console.print(Text(f"A wider terminal also shows: {', '.join(left)}.", style="dim"))
