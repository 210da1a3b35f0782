"""`manyheads compare`: train models side by side, judge them, write the page, print the verdict."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from manyheads.spec.errors import UserError
from manyheads.spec.experiment import OWN

if TYPE_CHECKING:
    from manyheads.interop.compare import PlannedComparison
    from manyheads.sweep.jobs import Job, Outcome


N = TypeVar("N", int, float)


def compare(
    models: Annotated[
        list[str],
        typer.Argument(
            help="Two models or more: zoo names, timm:NAME, hf:FOLDER, paper:ROW, EXPERIMENT:ARM, a saved "
            "arch.json. All are trained from random weights."
        ),
    ],
    data: Annotated[
        str | None, typer.Option(help="Dataset: cifar10, folder:NAME, ..., or the path of images or text of your own.")
    ] = None,
    seeds: Annotated[str, typer.Option(help="Seeds of every model; a verdict takes three or more.")] = "0,1,2",
    no_loss: Annotated[
        str | None, typer.Option(help="Test that the others are worse by less than this: 0.005, or 0.5% of accuracy.")
    ] = None,
    better: Annotated[
        str | None,
        typer.Option(help="Test that the others are better by more than this, in units of the score (0: at all)."),
    ] = None,
    equal: Annotated[
        str | None, typer.Option(help="Test that the others differ by less than this: 0.005, or 0.5% of accuracy.")
    ] = None,
    against: Annotated[str, typer.Option(help="The arm that the others are compared with. Default: the first.")] = "",
    controls: Annotated[
        bool,
        typer.Option(
            "--controls", help="Add controls: models that change only the heads, or only the layers, and others."
        ),
    ] = False,
    rates: Annotated[
        str | None,
        typer.Option(
            help="Give each model its own learning rate: the best of these multiples of the recipe's: 0.5,1,2."
        ),
    ] = None,
    task: Annotated[str | None, typer.Option(help="Task, or a file of JSON. Default: what the models can do.")] = None,
    recipe: Annotated[str | None, typer.Option(help="Recipe: table6, stories, ..., or a file of JSON.")] = None,
    steps: Annotated[int | None, typer.Option(help="Budget in training steps. Default: the recipe's.")] = None,
    basis: Annotated[str | None, typer.Option(help="Budget in another unit: tokens=1e9, flops=1e15.")] = None,
    epochs: Annotated[float | None, typer.Option(help="Budget in epochs.")] = None,
    batch: Annotated[int | None, typer.Option(help="Samples in a step. Default: the recipe's.")] = None,
    lr: Annotated[
        float | None, typer.Option(help="Highest learning rate of the schedule. Default: the recipe's.")
    ] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="Set any field of the recipe or the task: recipe.clip=0.")
    ] = None,
    tokenizer: Annotated[str | None, typer.Option(help="Tokenizer of text that --data gives as a path.")] = None,
    name: Annotated[str, typer.Option(help="Name of the comparison. Default: MODEL_vs_MODEL.")] = "",
    out: Annotated[Path | None, typer.Option(help="Folder for runs and page. Default: runs/NAME.")] = None,
    workers: Annotated[int, typer.Option(help="Runs side by side; 0 trains in this process.")] = 2,
    threads: Annotated[int, typer.Option(help="CPU threads of each run.")] = 1,
    device: Annotated[str | None, typer.Option(help="cpu, cuda. Default: a GPU if there is one.")] = None,
    data_root: Annotated[
        Path | None, typer.Option(help="Folder of the datasets. Default: $MANYHEADS_DATA, or ~/.cache/manyheads.")
    ] = None,
    download: Annotated[
        bool, typer.Option("--download", help="Download CIFAR-10 if it is needed and missing.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print runs, time and memory; nothing is run.")] = False,
    tflops: Annotated[
        float | None,
        typer.Option(help="Speed of the device in TFLOPS, for --dry-run. Default: from finished runs, else assumed."),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Show no progress, only the results.")] = False,
) -> None:
    """Train models on the same data, judge them and write a page. Run again, it finishes what is left.

    Example: manyheads compare vit_b lean.json --data photos --epochs 20 --no-loss 0.5%"""
    from manyheads.interop.compare import planned_comparison, stated_test
    from manyheads.interop.compared_models import Expected, margin
    from manyheads.interop.stated_run import Stated

    from .data import fetch
    from .verdict import show

    margins = {"no_loss": no_loss, "better": better, "equal": equal}
    tests = {
        name: None if text is None else margin(text, f"--{name.replace('_', '-')}") for name, text in margins.items()
    }
    stated = Stated(
        task=task,
        data=data,
        recipe=recipe,
        steps=steps,
        basis=basis,
        epochs=epochs,
        batch=batch,
        lr=lr,
        settings=tuple(settings or ()),
        root=data_root,
        tokenizer=tokenizer,
    )
    command = shlex.join(["manyheads", *sys.argv[1:]])
    plan = planned_comparison(
        models,
        stated,
        Expected(*stated_test(tests), against),
        seeds=_numbers(seeds, "--seeds", int),
        controls=controls,
        rates=[] if rates is None else _numbers(rates, "--rates", float),
        name=name,
        out=out,
        command=command,
    )
    if dry_run:
        _dry(plan, workers, device, threads, tflops, data_root)
        return
    if download:
        fetch([plan.experiment.setting(OWN).task], data_root)
    from manyheads.sweep.jobs import QuietView
    from manyheads.sweep.local import Interrupted, run

    def execute(jobs: Sequence[Job]) -> list[Outcome]:
        look = QuietView() if quiet else None
        return run(jobs, workers=workers, threads=threads, device=device, root=data_root, look=look)

    try:
        compared = plan.make(execute, command)
    except Interrupted as stop:
        print(f"manyheads: {stop}", file=sys.stderr)
        raise typer.Exit(stop.code) from None
    for section in compared.reported.sections:
        show(section)
    print(f"\npage: {compared.page}")
    print("\n".join(f"verdict: {sentence}" for sentence in compared.verdicts))
    failed = [one for one in compared.outcomes if one.fate in ("failed", "stopped")]
    for one in failed:
        print(f"{one.job.path}: {one.fate}" + (f": {one.message}" if one.message else ""), file=sys.stderr)
    if failed:
        raise typer.Exit(1)


def _numbers(text: str, option: str, kind: type[N]) -> list[N]:
    try:
        return [kind(part) for part in text.split(",")]
    except ValueError:
        example = "0,1,2" if kind is int else "0.5,1,2"
        raise UserError(f"{option} {text}: write numbers with commas between them, such as {example}") from None


def _dry(
    plan: PlannedComparison, workers: int, device: str | None, threads: int, tflops: float | None, root: Path | None
) -> None:
    """Print what the comparison would take, the choice of learning rates first."""
    from .run_forecast import show

    for experiment in filter(None, [plan.choosing, plan.experiment]):
        print(f"{experiment.name}:")
        show(plan.selection(experiment), False, max(1, workers), device, threads, tflops, root, "processes")
