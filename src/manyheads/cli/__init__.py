"""The command line: thin commands over the rooms. A user's mistake is one sentence and exit code 2."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from io import TextIOWrapper
from typing import Annotated

import typer

from manyheads.spec.errors import UserError, first_line, readable

from .audit import audit
from .catalogue import datasets, experiments, recipes, tasks
from .compare import compare
from .data import data
from .demo import demo
from .generate import generate
from .pack import pack
from .plan import plan
from .probe import probe
from .rank import rank
from .report import report
from .run import run
from .runs import runs
from .shape import shape
from .theory import theory
from .tokenize import tokenize
from .train import train
from .zoo import zoo

app = typer.Typer(
    name="manyheads",
    help="Redesign transformers with more heads and fewer layers, and see whether that was a good idea.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
COMMANDS = (
    *(zoo, shape, plan, train, compare, demo, run, runs, pack, report, probe, rank, theory, audit, data, tokenize),
    *(generate, tasks, recipes, datasets, experiments),
)
for command in COMMANDS:
    app.command()(command)


def _version(wanted: bool) -> None:
    if wanted:
        from manyheads import __version__

        print(__version__)
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[bool, typer.Option("--version", help="Version.", callback=_version, is_eager=True)] = False,
) -> None:
    """Redesign transformers with more heads and fewer layers, and see whether that was a good idea."""


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command line."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # a name on the disk may hold what the terminal cannot show
            stream.reconfigure(errors="backslashreplace")
    try:
        app(args=None if argv is None else list(argv), prog_name="manyheads")
    except UserError as error:
        print(f"manyheads: {readable(error)}", file=sys.stderr)
        sys.exit(2)
    except BrokenPipeError:  # `manyheads audit | head`
        sys.stderr.close()
        sys.exit(0)
    except OSError as error:  # a file that a command named: unreadable, too long a name, a link to itself
        name = "" if error.filename is None else f"{error.filename}: "
        print(f"manyheads: {readable(name)}{error.strerror or first_line(error)}", file=sys.stderr)
        sys.exit(2)
    except MemoryError as error:
        print(f"manyheads: there is not enough memory for this ({first_line(error)}); ask for less", file=sys.stderr)
        sys.exit(2)
