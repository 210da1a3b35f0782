"""A section of runs in the terminal: the table and the words of the page."""

from __future__ import annotations

from collections.abc import Sequence

from manyheads.report.gather import Section
from manyheads.report.ledger import ledger, tally
from manyheads.report.summary import conclusion, table

WIDE = 100  # columns of a terminal that has room for everything
SPARED = ("inner", "seeds", "paper")
SHORT = {"parameters": "params"}


def show(section: Section) -> None:
    """Print the table of arms and the verdict."""
    from rich.console import Console
    from rich.table import Table

    console = Console()
    rows = table(section)
    title = " ".join(filter(None, [section.name or "single runs", section.scale, section.basis]))
    drawn = Table(title=title, title_justify="left", box=None, header_style="bold", padding=(0, 1, 0, 0))
    heads = list(rows[0] if rows else {})
    heads = heads[: heads.index("seeds") + 1] if heads else []  # further scores are on the page
    heads = [head for head in heads if console.width >= WIDE or head not in SPARED]
    for head in heads:
        drawn.add_column(SHORT.get(head, head), justify="left" if head == "arm" else "right", no_wrap=True)
    for row in rows:
        drawn.add_row(*(row[head].text for head in heads))
    console.print()
    console.print(drawn)
    told = conclusion(section)
    if told:
        console.print()
    for line in told:
        console.print(f"- {line}", highlight=False, markup=False)


def claims(sections: Sequence[Section]) -> None:
    """Print how the claims came out, in one line; nothing for runs that speak of none."""
    line = tally(ledger(sections))
    if line and len(sections) > 1:
        print(f"\n{line}")
