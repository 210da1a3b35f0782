"""Tables as records: written as HTML, which the page sorts, and as CSV, here and in the browser."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape

FILTERED = 25  # a table with more rows has a box to filter them
APART = "; "  # between the badges of a cell, in CSV and for screen readers
LONG = 24  # characters from which on a cell of words may wrap


@dataclass(frozen=True)
class Cell:
    """What a cell shows, sorts by and links to.

    CSV has `key` in place of the text if it is a number, and the numbers of `more` in columns of their own. `drawn` is
    markup shown before the text. `kind` makes the cell a badge; `parts` are several badges or links, whose texts are
    joined to the cell's."""

    text: str
    key: float | str = ""
    more: Mapping[str, float] = field(default_factory=dict)
    href: str = ""
    drawn: str = ""
    kind: str = ""
    parts: Sequence[Cell] = ()

    @classmethod
    def of(cls, parts: Sequence[Cell]) -> Cell:
        """A cell of several badges or links."""
        return cls(APART.join(part.text for part in parts), parts=parts)


@dataclass(frozen=True)
class Table:
    """Rows of cells under the same heads. With `words`, cells hold sentences and may wrap; with `cards`, each row is a
    card on a narrow screen. `meaning` explains a head to whoever points at it."""

    name: str
    heads: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    words: bool = False
    cards: bool = False
    meaning: Mapping[str, str] = field(default_factory=dict)


def slug(name: str) -> str:
    """A name as part of a file's name."""
    return re.sub(r"[^A-Za-z0-9.]+", "_", name).strip("_")


def csv_rows(table: Table) -> list[list[str]]:
    """The table as rows of text for CSV, heads first."""
    extra = [list(dict.fromkeys(name for row in table.rows for name in row[at].more)) for at in range(len(table.heads))]
    heads = [
        name for head, more in zip(table.heads, extra, strict=True) for name in (head, *(f"{head} {m}" for m in more))
    ]
    rows = []
    for row in table.rows:
        cells: list[str] = []
        for cell, more in zip(row, extra, strict=True):
            cells += [plain(cell), *(number(cell.more[name]) if name in cell.more else "" for name in more)]
        rows.append(cells)
    return [heads, *rows]


def plain(cell: Cell) -> str:
    """A cell in CSV: its number, or its text if it has none; empty if it shows nothing."""
    return cell.text if isinstance(cell.key, str) or not cell.text else number(cell.key)


def number(value: float) -> str:
    """A number as both JavaScript and Python write it: whole ones without a point."""
    return str(int(value)) if math.isfinite(value) and value == int(value) and abs(value) < 1e15 else repr(float(value))


def html(table: Table) -> str:
    """The table in a frame that scrolls sideways on a narrow screen, by keyboard too."""
    if not table.rows:
        return ""
    heads = "".join(
        f'<th scope="col"{_title(table.meaning.get(head.split(",")[0], ""))}><button type="button">'
        f"{escape(head)}</button></th>"
        for head in table.heads
    )
    names = [f' data-head="{escape(head)}"' if table.cards else "" for head in table.heads]
    body = "".join(f"<tr>{''.join(map(_cell, row, names))}</tr>" for row in table.rows)
    kind = "wide" + " words" * table.words + " cards" * table.cards
    name = escape(table.name)
    search = (
        f'<input type="search" class="filter" placeholder="filter rows" aria-label="filter rows of {name}">'
        if len(table.rows) > FILTERED
        else ""
    )
    return (
        f'<div class="table"><div class="{kind}" role="region" tabindex="0" aria-label="{name}">'
        f"<table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table></div>"
        f'<div class="tools">{search}<button type="button" class="get" data-get="csv" data-name="{slug(table.name)}">'
        f"CSV</button></div></div>"
    )


def _title(text: str) -> str:
    return f' title="{escape(text)}"' if text else ""


def _cell(cell: Cell, head: str) -> str:
    key = ""
    if not isinstance(cell.key, str):
        key = f' data-n="{number(cell.key)}"'
    elif cell.key and cell.key != cell.text:
        key = f' data-key="{escape(cell.key)}"'
    more = f' data-more="{escape(json.dumps({name: number(v) for name, v in cell.more.items()}))}"' if cell.more else ""
    text = f'<span class="apart">{APART}</span>'.join(map(_content, cell.parts or [cell]))
    long = ' class="long"' if len(cell.text) > LONG and not (cell.kind or cell.drawn) else ""
    text = f"<span>{text}</span>" if head and text else text  # a card puts the head beside it
    return f"<td{long}{head}{key}{more}>{cell.drawn}{text}</td>"


def _content(cell: Cell) -> str:
    text = escape(cell.text)
    if cell.href:
        text = f'<a href="{escape(cell.href)}">{text}</a>'
    return f'<span class="badge {cell.kind}">{text}</span>' if cell.kind else text
