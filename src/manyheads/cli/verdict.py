"""The verdicts in the terminal: the table of arms and the sentences that the page has."""

from __future__ import annotations

from collections.abc import Sequence

from manyheads.report.claims_table import evidence, tally
from manyheads.report.read_runs import Section
from manyheads.report.section_summary import conclusion, table

WIDE = 100  # characters; a narrower terminal does without some columns
LEFT_OUT = ("inner", "seeds", "paper")


def show(section: Section) -> None:
    """Print the table of arms of a section, and its verdicts in sentences."""
    from rich.console import Console
    from rich.table import Table

    console = Console()
    rows = table(section)
    title = " ".join(filter(None, [section.name or "single runs", section.scale, section.basis]))
    printed = Table(title=title, title_justify="left", box=None, header_style="bold", padding=(0, 1, 0, 0))
    heads = list(rows[0] if rows else {})
    heads = heads[: heads.index("seeds") + 1] if heads else []  # further scores are on the page
    heads = [head for head in heads if console.width >= WIDE or head not in LEFT_OUT]
    for head in heads:
        printed.add_column(
            "params" if head == "parameters" else head, justify="left" if head == "arm" else "right", no_wrap=True
        )
    for row in rows:
        printed.add_row(*(row[head].text for head in heads))
    console.print()
    console.print(printed)
    sentences = conclusion(section)
    if sentences:
        console.print()
    for line in sentences:
        console.print(f"- {line}", highlight=False, markup=False)


def claims(sections: Sequence[Section]) -> None:
    """Print how the claims came out, in one line; nothing where no run is about a claim."""
    line = tally(evidence(sections))
    if line and len(sections) > 1:
        print(f"\n{line}")
