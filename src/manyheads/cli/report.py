"""`manyheads report`: write one page about the runs below a folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def report(
    runs: Annotated[Path, typer.Argument(help="Folder with run folders in it, at any depth.")],
    out: Annotated[Path, typer.Option(help="The page to write.")] = Path("report.html"),
    assets: Annotated[
        Path | None, typer.Option(help="Also write all figures (SVG, PNG, CSV) and tables (CSV) to this folder.")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Write the page and print nothing.")] = False,
) -> None:
    """Write one self-contained page with claims, tables, figures and a design explorer, and print its verdicts."""
    from manyheads.report.page import write

    from .verdict import claims, show

    reported = write(runs, out, assets=assets)
    if quiet:
        return
    for section in reported.sections:
        show(section)
    claims(reported.sections)
    if reported.problems:
        count = len(reported.problems)
        print(f"\n{count} folder{'s' * (count > 1)} cannot be read:")
        for problem in reported.problems:
            print(f"- {problem.problem}")
    if assets is not None:
        from manyheads.report.page_files import drawable

        print(f"\nfigures and tables: {assets}")
        if not drawable():
            print("PNG files need matplotlib: pip install 'manyheads[report]'. The buttons on the page do not.")
    print(f"\npage: {out}")
