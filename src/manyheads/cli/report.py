"""`manyheads report`: write one page about the runs below a folder."""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from typing import Annotated

import typer

from manyheads.spec.errors import UserError, nearest

IN_FULL = 3  # sections that are printed with all their arms and verdicts; of more, each is a line
SINGLE = "single"  # what --only calls the runs that belong to no experiment


def report(
    runs: Annotated[Path, typer.Argument(help="Folder with run folders in it, at any depth.")],
    out: Annotated[Path, typer.Option(help="The page to write.")] = Path("report.html"),
    assets: Annotated[
        Path | None, typer.Option(help="Also write all figures (SVG, PNG, CSV) and tables (CSV) to this folder.")
    ] = None,
    only: Annotated[
        str | None, typer.Option(help="Print this experiment in full, and no other. The page has all of them.")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Write the page and print nothing.")] = False,
) -> None:
    """Write one self-contained page with claims, tables, figures and a design explorer, and print its verdicts."""
    from manyheads.report.page import write

    from .verdict import claims, overview, show

    reported = write(runs, out, assets=assets)
    names = list(dict.fromkeys(section.name or SINGLE for section in reported.sections))
    if only is not None and only not in names:
        raise UserError(
            f"--only {only}: {runs} has no such experiment{nearest(only, names)}; it has {', '.join(names)}"
        )
    if quiet:
        return
    chosen = [section for section in reported.sections if only in (None, section.name or SINGLE)]
    if only is None and len(chosen) > IN_FULL:
        overview(chosen)
        print(f"\none of them in full: manyheads report {quote(str(runs))} --only {quote(names[0])}")
    else:
        for section in chosen:
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
