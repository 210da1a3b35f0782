"""`manyheads pack`: put the finished runs below a folder into one file."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from manyheads.spec.errors import UserError, readable


def pack(
    runs: Annotated[Path, typer.Argument(help="Folder with run folders or packs in it, at any depth.")],
    out: Annotated[Path, typer.Option(help="The file to write; its name ends in .jsonl.xz.")],
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing but what was left out.")] = False,
) -> None:
    """Write the finished runs below a folder into one file that other commands read like run folders.

    Models and checkpoints are not packed, and curves are thinned. Runs that are not finished or that cannot be read are
    named and left out, and the exit code is 1. Example: manyheads pack runs --out evidence/mine.jsonl.xz"""
    from manyheads.runs.pack import pack as write

    if not os.path.exists(runs):
        raise UserError(f"{runs} does not exist; give the folder that runs were written to")
    report = write(runs, out)
    if not quiet:
        for remark in report.remarks:
            print(readable(remark))
        size = out.stat().st_size
        each = report.size / report.runs / 1e3
        print(f"{report.runs} run{'s' * (report.runs > 1)} of {each:.1f} KB, compressed to {size / 1e3:,.0f} KB: {out}")
    for sentence in report.left_out:
        print(f"left out: {readable(sentence)}", file=sys.stderr)
    if report.left_out:
        raise typer.Exit(1)
