"""The verdicts in the terminal: the table of arms and the sentences that the page has, or a line for each section."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from manyheads.report.claims_table import evidence, tally
from manyheads.report.read_runs import Section
from manyheads.report.section_summary import conclusion, table
from manyheads.report.section_verdicts import verdicts

from . import tables
from .tables import Column

# the columns that a narrow terminal does without: the last goes first, and the arm and its score always stay
LEAVE = ("heads", "layers", "parameters", "seeds", "paper", "kappa", "FLOPs", "seconds", "Gaussian", "inner")
MOST = 40  # arms and sentences of a section; the page has all


def show(section: Section) -> None:
    """Print the table of arms of a section, and its verdicts in sentences."""
    from rich.console import Console

    console = Console()
    rows = table(section)
    heads = list(rows[0] if rows else {})
    heads = heads[: heads.index("seeds") + 1] if heads else []  # further scores are on the page
    columns = [
        Column("params" if head == "parameters" else head, i > 0, _leave(i, head)) for i, head in enumerate(heads)
    ]
    cells = [[row[head].text for head in heads] for row in rows[:MOST]]
    console.print()
    tables.show(console, columns, cells, title=_name(section))
    _more(len(rows), "arms")
    sentences = conclusion(section)
    if sentences:
        console.print()
    for line in sentences[:MOST]:
        console.print(f"- {line}", highlight=False, markup=False)
    _more(len(sentences), "sentences")


def _leave(i: int, head: str) -> int:
    kind = head.split(",")[0]  # kappa of one kind of attention: "kappa, softmax"
    return 0 if i < 2 else 1 + LEAVE.index(kind) if kind in LEAVE else len(LEAVE) + 1


def _more(count: int, what: str) -> None:
    if count > MOST:
        print(f"... and {count - MOST} more {what}, on the page")


def _name(section: Section) -> str:
    return " ".join(filter(None, [section.name or "single runs", section.scale, section.basis]))


def overview(sections: Sequence[Section]) -> None:
    """Print one line for each section: its verdicts, how many of its runs are done, how many arms it has."""
    from rich.console import Console

    columns = [Column("experiment"), Column("verdicts", leave=1), Column("done", True), Column("arms", True, leave=2)]
    rows = []
    for section in sections:
        words = Counter(one.verdict.word for one in verdicts(section))
        done = sum(run.state == "done" for run in section.runs)
        counts = ", ".join(f"{count} {word}" for word, count in words.items())
        rows.append([_name(section), counts, f"{done}/{len(section.runs)}", str(len(section.arms))])
    tables.show(Console(), columns, rows)


def claims(sections: Sequence[Section]) -> None:
    """Print how the claims came out, in one line; nothing where no run is about a claim."""
    line = tally(evidence(sections))
    if line and len(sections) > 1:
        print(f"\n{line}")
