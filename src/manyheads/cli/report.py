"""`manyheads report`: one page about the runs below a folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def report(
    runs: Annotated[Path, typer.Argument(help="Folder with run folders in it, at any depth.")],
    out: Annotated[Path, typer.Option(help="The page to write.")] = Path("report.html"),
    assets: Annotated[
        Path | None, typer.Option(help="Folder for all figures (SVG, PNG, CSV) and tables (CSV).")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Only write the page.")] = False,
) -> None:
    """Write one self-contained page with claims, tables, figures and a design explorer; print the same verdicts."""
    from manyheads.report.page import write

    from .verdict import claims, show

    found = write(runs, out, assets=assets)
    if quiet:
        return
    for section in found.sections:
        show(section)
    claims(found.sections)
    if found.problems:
        count = len(found.problems)
        print(f"\n{count} folder{'s' * (count > 1)} cannot be read:")
        for problem in found.problems:
            print(f"- {problem.problem}")
    if assets is not None:
        from manyheads.report.assets import drawable

        print(f"\nfigures and tables: {assets}")
        if not drawable():
            print("PNG files need matplotlib: pip install 'manyheads[report]'. The buttons on the page do not.")
    print(f"\npage: {out}")
