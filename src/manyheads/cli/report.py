"""`manyheads report`: one page about the runs below a folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def report(
    runs: Annotated[Path, typer.Argument(help="Folder with run folders in it, at any depth.")],
    out: Annotated[Path, typer.Option(help="The page to write.")] = Path("report.html"),
    quiet: Annotated[bool, typer.Option("--quiet", help="Only write the page.")] = False,
) -> None:
    """Write one self-contained page with tables, figures and verdicts, and print the same verdicts."""
    from manyheads.report.page import write

    from .verdict import show

    found = write(runs, out)
    if quiet:
        return
    for section in found.sections:
        show(section)
    if found.problems:
        print(f"\n{len(found.problems)} folders cannot be read:")
        for problem in found.problems:
            print(f"- {problem.problem}")
    print(f"\npage: {out}")
