"""`manyheads report`: write one page about the runs below a folder."""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from typing import Annotated, cast

import typer

from manyheads.spec.comparison import Expect
from manyheads.spec.errors import UserError, nearest
from manyheads.spec.shell import word

IN_FULL = 3  # sections that are printed with all their arms and verdicts; of more, each is a line
SINGLE = "single"  # what --only calls the runs that belong to no experiment


def report(
    runs: Annotated[Path, typer.Argument(help="Folder with run folders or packs in it, at any depth; or a pack.")],
    out: Annotated[Path, typer.Option(help="The page to write.")] = Path("report.html"),
    assets: Annotated[
        Path | None, typer.Option(help="Also write all figures (SVG, PNG, CSV) and tables (CSV) to this folder.")
    ] = None,
    only: Annotated[
        str | None, typer.Option(help="Print this experiment in full, and no other. The page has all of them.")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Write the page and print nothing.")] = False,
    against: Annotated[
        str, typer.Option(help="Compare every arm with this one. Default: original, or the largest arm.")
    ] = "",
    better: Annotated[
        float | None,
        typer.Option(
            help="Test that every arm is better than that one by more than this, in units of the metric (0: at all)."
        ),
    ] = None,
    no_loss: Annotated[
        float | None,
        typer.Option(
            help="Test that every arm is worse than that one by less than this, in units of the metric, such as 0.01."
        ),
    ] = None,
    equal: Annotated[
        float | None,
        typer.Option(help="Test that every arm is closer to that one than this, in units of the metric, such as 0.01."),
    ] = None,
    metric: Annotated[str, typer.Option(help="Compare this score, or log_kappa. Default: the headline.")] = "",
) -> None:
    """Write one self-contained page with claims, tables, figures and a design explorer, and print its verdicts.

    The runs of an experiment are judged by what it expects; of other runs, every arm is compared with the original.
    Example: manyheads report runs --against deep --no-loss 0.01"""
    from manyheads.report.page import asked_options, write
    from manyheads.report.read_runs import Asked

    from .verdict import claims, overview, show

    tests = {"better": better, "no_loss": no_loss, "equal": equal}
    stated = {name: margin for name, margin in tests.items() if margin is not None}
    if len(stated) > 1:
        given = ", ".join(f"--{name.replace('_', '-')}" for name in stated)
        raise UserError(f"{given} are different tests; write one of them")
    expect, margin = next(iter(stated.items()), ("open", 0.0))
    asked = Asked(against, cast(Expect, expect), margin, metric) if stated or against or metric else None
    reported = write(runs, out, assets=assets, asked=asked)
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
        print(f"\none of them in full: manyheads report {word(runs)}{asked_options(asked)} --only {quote(names[0])}")
    else:
        for section in chosen:
            show(section)
    claims(reported.sections)
    if reported.problems:
        count = len(reported.problems)
        one = "pack" if reported.problems[0].path.is_file() else "folder"
        print(f"\n{count} {reported.unreadable if count > 1 else one} cannot be read:")
        for problem in reported.problems:
            print(f"- {problem.problem}")
    if reported.repeated:
        first = reported.repeated[0]
        print(f"\n{len(reported.repeated)} runs lie in several places and count once, such as {first.path},")
        print(f"which is also {first.also[0]}")
    if assets is not None:
        from manyheads.report.page_files import drawable

        print(f"\nfigures and tables: {assets}")
        if not drawable():
            print("PNG files need matplotlib: pip install 'manyheads[report]'. The buttons on the page do not.")
    print(f"\npage: {out}")
