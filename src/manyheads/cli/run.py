"""`manyheads run`: run an experiment in this process, in several, with Ray or Slurm."""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from manyheads.spec.errors import UserError, nearest
from manyheads.spec.json_text import parse
from manyheads.spec.shell import word

from .run_slice import TIME_UP, Slice, check_minutes, known_runs, prepare_slice

if TYPE_CHECKING:
    from manyheads.sweep.jobs import Job, Outcome
    from manyheads.sweep.plan import Selection

MOST = 100_000  # runs side by side, or threads of one
EXECUTORS = ("process", "processes", "ray", "slurm")
DEVICE = re.compile(r"cpu|cuda(:[0-9]+)?")


def run(
    experiment: Annotated[
        str, typer.Argument(help="Name of an experiment, such as fig2 or table4, or all; or your own file: mine.py.")
    ],
    scale: Annotated[
        str | None, typer.Option(help="smoke, laptop (2 cores), small (one GPU), paper. Default: smoke.")
    ] = None,
    arms: Annotated[str | None, typer.Option(help="Only these of its arms (models): original,lean.")] = None,
    seeds: Annotated[str | None, typer.Option(help="Seeds to run instead of the experiment's own: 0,1,2.")] = None,
    data: Annotated[
        list[str] | None,
        typer.Option(help="Use another dataset: cifar10=folder:mine, or the path of a folder or file for all."),
    ] = None,
    steps: Annotated[int | None, typer.Option(help="Another budget in training steps.")] = None,
    basis: Annotated[
        str | None, typer.Option(help="Only this basis of the experiment (steps), or another budget: epochs=5.")
    ] = None,
    epochs: Annotated[float | None, typer.Option(help="Another budget in epochs.")] = None,
    batch: Annotated[int | None, typer.Option(help="Another number of samples in a step.")] = None,
    lr: Annotated[float | None, typer.Option(help="Another learning rate, where an arm states none.")] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="Change any field of recipe or task: recipe.clip=0.")
    ] = None,
    tokenizer: Annotated[str | None, typer.Option(help="Tokenizer of text that --data gives as a path.")] = None,
    out: Annotated[Path, typer.Option(help="Folder for the run folders.")] = Path("runs"),
    executor: Annotated[str, typer.Option(help=f"Where runs execute: {', '.join(EXECUTORS)}.")] = "processes",
    workers: Annotated[
        int | None,
        typer.Option(help="Runs side by side. Default: as many as keep this machine busy, or as fit on a cluster."),
    ] = None,
    minutes: Annotated[
        float | None,
        typer.Option(
            help="Stop this many minutes after the start; runs in progress are saved, and resumed the next time."
        ),
    ] = None,
    learn_from: Annotated[
        Path | None, typer.Option(help="Pack or folder of finished runs to learn times from, beside those in --out.")
    ] = None,
    threads: Annotated[
        int | None, typer.Option(help="CPU threads of each run. Default: 1; with --list none are set.")
    ] = None,
    device: Annotated[str | None, typer.Option(help="cpu, cuda. Default: a GPU if there is one.")] = None,
    data_root: Annotated[
        Path | None, typer.Option(help="Folder of the datasets. Default: $MANYHEADS_DATA, or ~/.cache/manyheads.")
    ] = None,
    slurm: Annotated[
        list[str] | None, typer.Option(help="Options of Slurm: partition=gpu, timeout_min=600, mem_gb=32 ...")
    ] = None,
    download: Annotated[
        bool, typer.Option("--download", help="Download CIFAR-10 if it is needed and missing.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print runs, time and memory; nothing is run.")] = False,
    tflops: Annotated[
        float | None,
        typer.Option(help="Speed of the device in TFLOPS, for --dry-run. Default: from finished runs, else assumed."),
    ] = None,
    listed: Annotated[
        bool, typer.Option("--list", help="Print commands for another scheduler; nothing is run.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Show no progress, only the last lines.")] = False,
) -> None:
    """Run an experiment. Run again, it finishes what is left: finished runs are skipped, killed ones resumed.

    With other data, another budget or --set it is a changed copy, whose runs and page are kept apart from the
    experiment's own."""
    started = time.monotonic()  # a time limit counts from here, before anything heavy is imported
    each = 1 if threads is None else threads
    _check(executor, workers, each, device, slurm)
    check_minutes(minutes, executor, workers)
    from manyheads.interop.changed_experiment import Change
    from manyheads.sweep.deal import Limit
    from manyheads.sweep.plan import ALL, commands, plan

    from .asked_experiment import asked, check_data, split_basis
    from .data import fetch

    limit = None if minutes is None else Limit.after(60 * minutes, started)
    one, budget = split_basis(basis)
    change = Change(tuple(data or ()), steps, budget, epochs, batch, lr, tuple(settings or ()), data_root)
    wanted, size = asked(experiment, scale, change, tokenizer)
    selection = plan(wanted, size, out, arms=_names(arms), seeds=_seeds(seeds), basis=one)
    if dry_run:
        from .run_forecast import show

        beside = 1 if executor == "process" else workers if workers is None else max(1, workers)
        place = "processes" if "cluster=local" in (slurm or []) else executor
        known = known_runs(out, learn_from)
        show(selection, experiment == "all", beside, device, each, tflops, data_root, place, known)
        return
    if download:
        fetch((spec.task for spec in selection.now), data_root)
    if experiment != ALL and not listed and executor != "slurm":  # elsewhere there may be other data
        check_data(selection, data_root)
    selection.write_experiments()
    selection.share()
    if listed:
        jobs = selection.jobs()
        later, why = _later(selection, bool(jobs))
        print(*commands([*jobs, *later], device, data_root, threads), sep="\n")
        alone = sum(job.alone for job in [*jobs, *later])
        if alone:
            print(f"of {alone} of these runs time counts: nothing else may run on their device", file=sys.stderr)
    else:
        options = _options(slurm or [])
        where = {"device": device, "root": data_root}
        known = known_runs(out, learn_from) if executor == "processes" else []

        def sliced(jobs: Sequence[Job]) -> Slice:
            return prepare_slice(
                jobs, known, workers=workers, threads=each, limit=limit, quiet=quiet, device=device, root=data_root
            )

        outcomes, why = _phases(selection, executor, workers, quiet, where, each, out, options, sliced)
        _tell(outcomes, selection.share(), out)
    if why:
        print(why, file=sys.stderr)
        raise typer.Exit(1)


def _check(executor: str, workers: int | None, threads: int, device: str | None, slurm: list[str] | None) -> None:
    """Refuse options that contradict each other or that no executor has."""
    if executor not in EXECUTORS:
        raise UserError(f"--executor {executor}{nearest(executor, EXECUTORS)}; write one of {', '.join(EXECUTORS)}")
    if executor == "process" and workers:
        raise UserError(f"--executor process --workers {workers}: one process works alone; write --executor processes")
    least = 1 if executor in ("ray", "slurm") else 0  # 0 worker processes: the runs execute in this process
    if workers is not None and workers < least:
        raise UserError(f"--workers {workers}: write {least} or more")
    if workers is not None and workers > MOST:
        raise UserError(f"--workers {workers}: write at most {MOST:,}")
    if not 1 <= threads <= MOST:
        raise UserError(f"--threads {threads}: write 1 or more, at most {MOST:,}")
    if device is not None and not DEVICE.fullmatch(device):
        raise UserError(f"--device {device}: write cpu, cuda or cuda:1")
    if slurm and executor != "slurm":
        raise UserError(f"--slurm {slurm[0]} belongs to --executor slurm; write that too, or leave it out")


def _phases(
    selection: Selection,
    executor: str,
    workers: int | None,
    quiet: bool,
    where: dict[str, Any],
    threads: int,
    out: Path,
    options: dict[str, Any],
    sliced: Callable[[Sequence[Job]], Slice],
) -> tuple[list[Outcome], str]:
    """Run everything in its order: runs that start from the weights of other runs when those are finished; if those are
    not, the second value says why the runs were left out."""
    from manyheads.sweep.jobs import QuietView, prepare
    from manyheads.sweep.local import Interrupted, here

    def execute(jobs: Sequence[Job]) -> list[Outcome]:
        look = QuietView() if quiet else None
        if executor == "ray":
            from manyheads.sweep.ray import run as on_ray

            return on_ray(jobs, workers=workers, threads=threads, look=look, **where)
        if executor == "slurm":
            from manyheads.sweep.slurm import run as on_slurm

            cluster = options.get("cluster", "slurm")
            own = {name: value for name, value in options.items() if name != "cluster"}
            return on_slurm(
                jobs, out / ".slurm", cluster=cluster, workers=workers, threads=threads, options=own, look=look, **where
            )
        from manyheads.sweep.local import run as on_this_machine

        if executor == "process" or workers == 0:
            return on_this_machine(jobs, workers=0, threads=threads, look=look, **where)
        part = sliced(jobs)
        return on_this_machine(
            jobs, workers=part.workers, threads=threads, look=look, expected=part.expected, limit=part.limit, **where
        )

    jobs = selection.jobs()
    if executor.startswith("process"):
        here(where["device"])
    prepare(jobs)  # of all phases, so that a folder in the way is reported before anything runs
    try:
        outcomes = execute(jobs)
        later, why = _later(selection, bool(jobs))
        return outcomes + (execute(later) if later else []), why
    except Interrupted as stop:
        print(f"manyheads: {stop}", file=sys.stderr)
        raise typer.Exit(stop.code) from None


def _later(selection: Selection, others: bool) -> tuple[list[Job], str]:
    """The runs that start from other runs' weights, or why they cannot. That is an error only where there are no
    `others`, whose outcomes it would hide."""
    try:
        return selection.later_jobs(), ""
    except UserError as error:
        if not others:
            raise
        return [], f"{selection.later[0].label['experiment']}: not run: {error}"


def _tell(outcomes: list[Outcome], shared: int, out: Path) -> None:
    """Print what became of the runs. Runs that failed or stopped are named, and make the command fail."""
    fates: Counter[str] = Counter(outcome.fate for outcome in outcomes)
    words = {"done": "done", "skipped": "finished before", "stopped": "stopped", "failed": "failed", "left": "left"}
    counts = [f"{fates[fate]} {word}" for fate, word in words.items() if fates[fate]]
    counts += [f"{shared} the same as others"] if shared else []
    print(f"{', '.join(counts) or 'nothing to run'}; for a page: manyheads report {word(out)}")
    unfinished = [outcome for outcome in outcomes if outcome.fate in ("failed", "stopped", "left")]
    for outcome in unfinished:
        name = os.path.relpath(outcome.job.path, out)
        print(f"{name}: {outcome.fate}" + (f": {outcome.message}" if outcome.message else ""), file=sys.stderr)
    if unfinished:
        raise typer.Exit(TIME_UP if all(outcome.fate == "left" for outcome in unfinished) else 1)


def _names(text: str | None) -> list[str] | None:
    return None if text is None else text.split(",")


def _seeds(text: str | None) -> list[int] | None:
    try:
        return None if text is None else [int(part) for part in text.split(",")]
    except ValueError:
        raise UserError(f"--seeds {text}: write whole numbers with commas between them, such as 0,1,2") from None


def _options(texts: list[str]) -> dict[str, Any]:
    """`partition=gpu` and `timeout_min=600` as submitit takes them."""
    options: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise UserError(f"--slurm {text}: write NAME=VALUE, such as partition=gpu")
        try:
            options[name] = parse(value)
        except json.JSONDecodeError:
            options[name] = value  # a word
        except ValueError as error:
            raise UserError(f"--slurm {text}: {error}") from None
    return options
