"""`manyheads train`: one run, from a model, a task and a recipe to a run folder; also under torchrun."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from manyheads.spec.errors import UserError

from .numbers import in_layers, parameters, size

if TYPE_CHECKING:
    from manyheads.spec.arch import Arch
    from manyheads.spec.recipe import Recipe
    from manyheads.spec.task import Task


def train(
    model: Annotated[
        str | None,
        typer.Argument(help="A zoo name, paper:ROW, a saved arch.json, or EXPERIMENT:ARM, such as demo:lean."),
    ] = None,
    scale: Annotated[
        str | None, typer.Option(help="Scale of EXPERIMENT:ARM: smoke, laptop, small or paper. Default: the smallest.")
    ] = None,
    task: Annotated[
        str | None,
        typer.Option(help="Task: images, language_model, ..., or a file of JSON. Default: what the model can do."),
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(help="Dataset of the task: fashion_mnist (embedded), cifar10, folder:NAME, ..., or a path."),
    ] = None,
    recipe: Annotated[
        str | None, typer.Option(help="Recipe: table6, stories, crammed, ..., or a file of JSON.")
    ] = None,
    steps: Annotated[int | None, typer.Option(help="Budget in training steps.")] = None,
    basis: Annotated[
        str | None,
        typer.Option(help="Budget in another unit: epochs=20, samples=1e6, tokens=1e9, flops=1e15, seconds=9."),
    ] = None,
    epochs: Annotated[float | None, typer.Option(help="Budget in epochs, short for --basis epochs=N.")] = None,
    batch: Annotated[
        int | None, typer.Option("--batch", "--batch-size", help="Samples in a step, over all processes.")
    ] = None,
    lr: Annotated[
        float | None, typer.Option("--lr", "--learning-rate", help="Highest learning rate of the schedule.")
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", help="Set any field of the recipe or the task: recipe.clip=0, task.limit=9."),
    ] = None,
    weights: Annotated[
        str | None,
        typer.Option(help="Weights to start from: hf:FOLDER, timm:NAME, run:FOLDER, or the folder of a saved model."),
    ] = None,
    tokenizer: Annotated[str | None, typer.Option(help="Tokenizer of text that --data gives as a path.")] = None,
    seed: Annotated[int, typer.Option(help="Random seed of initial weights, data order and augmentation.")] = 0,
    out: Annotated[Path | None, typer.Option(help="Run folder. Default: runs/MODEL-sSEED.")] = None,
    resume: Annotated[Path | None, typer.Option(help="Resume this run folder; nothing else is needed.")] = None,
    device: Annotated[
        str | None, typer.Option(help="Device: cpu, cuda, cuda:1. Default: a GPU if there is one.")
    ] = None,
    parallel: Annotated[str | None, typer.Option(help="Under torchrun: ddp (default) or fsdp.")] = None,
    data_root: Annotated[
        Path | None, typer.Option(help="Folder that holds datasets. Default: $MANYHEADS_DATA, or ~/.cache/manyheads.")
    ] = None,
    download: Annotated[
        bool, typer.Option("--download", help="Download CIFAR-10 if it is needed and missing.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress, only the last line.")] = False,
    tensorboard: Annotated[bool, typer.Option("--tensorboard", help="Also write TensorBoard events.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Estimate memory and time without training.")] = False,
    gpus: Annotated[int, typer.Option(help="Number of GPUs that --dry-run assumes.")] = 1,
    tflops: Annotated[
        float, typer.Option(help="TFLOPS of one GPU that --dry-run assumes. Default: an A100 in TF32.")
    ] = 156.0,
    utilisation: Annotated[
        float, typer.Option(help="Fraction of --tflops that --dry-run assumes training reaches.")
    ] = 0.4,
) -> None:
    """Train a model. If it is interrupted, run the same command again: it resumes."""
    if resume is not None:
        others = (
            model,
            task,
            data,
            recipe,
            steps,
            basis,
            epochs,
            batch,
            lr,
            settings,
            out,
            dry_run or None,
            seed or None,
        )
        if any(value is not None for value in others):
            raise UserError(
                f"--resume {resume} holds its own model, task and recipe; leave out all that belongs to them"
            )
        from manyheads.runs import Run

        _train(Run.open(resume), device, parallel, data_root, quiet, tensorboard, _saved(weights, resume))
        return
    if model is None and weights is None:
        raise UserError("no model was given; write a name, such as `manyheads train demo:lean`, or --resume FOLDER")
    model = model or str(weights)  # the model of the weights
    folder = out or Path("runs") / f"{re.sub(r'[^A-Za-z0-9_.]+', '_', Path(model).name)}-s{seed}"
    from manyheads.interop.stated_run import Stated, is_arm, planned
    from manyheads.spec.recipe import IMAGENET_IMAGES

    stated = Stated(
        scale=scale,
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
    source, digest = None if dry_run else _saved(weights, folder), None
    start = None
    if source is not None:
        from manyheads.spec.serialise import load
        from manyheads.train.finetune import weights_digest

        digest, start = weights_digest(source), load(source / "arch.json")
    arch, work, plan = planned(model, stated, digest, start, source)
    if dry_run:
        samples = IMAGENET_IMAGES if recipe in ("table6", "table6_large") else None
        _estimate(arch, plan, work, samples, gpus, tflops, utilisation, parallel, data_root)
        return
    from manyheads.interop.new_run import scratch_label
    from manyheads.runs import Run, RunSpec
    from manyheads.train.finetune import check_named

    from .data import fetch

    check_named(work)
    if download:
        fetch([work], data_root)
    if is_arm(model) and os.environ.get("RANK", "0") == "0":
        words = f"{type(work).__name__}, {plan.basis.amount:,.6g} {plan.basis.kind} of batch {plan.batch}"
        print(f"{model} has its own task and recipe: {words}", file=sys.stderr)
    if source is None:
        label = {} if is_arm(model) else scratch_label(model)
    else:
        label = {"model": model, "weights": str(weights)}
        _check_start(source, arch, work, data_root)
    stated_weights = digest if digest is not None and work.starts_from is None else ""
    run = Run.create(folder, RunSpec(arch, work, plan, seed, label, stated_weights))
    _train(run, device, parallel, data_root, quiet, tensorboard, source)


def _saved(given: str | None, run: Path) -> Path | None:
    """The folder of a saved model with the weights that a run starts from. Those of other libraries are converted
    into a folder beside the run."""
    if given is None:
        return None
    from manyheads.interop.start_weights import starting_folder

    return starting_folder(given, run.parent)


def _check_start(source: Path, arch: Arch, task: Task, root: Path | None) -> None:
    """Refuse weights that the model cannot start from, before a run folder is made."""
    from manyheads.interop.start_weights import compare_tokenizers
    from manyheads.train.finetune import check_fits

    check_fits(arch, source)
    compare_tokenizers(source, task, root)


def _train(
    run: Any,
    device: str | None,
    parallel: str | None,
    root: Path | None,
    quiet: bool,
    events: bool,
    weights: Path | None,
) -> None:
    from manyheads.train.early_end import Stopped
    from manyheads.train.loop import train as trained
    from manyheads.train.parallel import processes_started

    many = processes_started() > 1
    first = os.environ.get("RANK", "0") == "0"
    if run.result is not None and first:
        print(f"{run.path} is finished", file=sys.stderr)
    kind = cast(Any, parallel or ("ddp" if many else "none"))
    try:
        result = trained(run, device=device, parallel=kind, root=root, quiet=quiet, events=events, weights=weights)
    except Stopped as stop:
        if first:
            print(f"manyheads: {stop}", file=sys.stderr)
        raise typer.Exit(stop.code) from None
    if first:
        try:
            print(_last_line(result, run))
        except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:  # somebody else's result
            raise UserError(
                f"the result of {run.path} is not what training writes: {type(error).__name__} {error}"
            ) from None


def _last_line(result: dict[str, Any], run: Any) -> str:
    metric, timing, best = result["better"][0], result["timing"], result["best"]
    layers = in_layers(run.spec.arch)
    told = "" if layers is None else f"; parameters: {parameters(result['params'], layers)}"
    return (
        f"{metric} {result['score'][metric]:.4g} after {result['steps']:,} steps (best {best[metric]:.4g} at "
        f"{best['step']:,}), {timing['seconds']:.0f} s at {timing['rate']:,.0f} {timing['unit']}{told}: {run.path}"
    )


def _estimate(
    arch: Arch,
    recipe: Recipe,
    task: Task,
    samples: int | None,
    gpus: int,
    tflops: float,
    share: float,
    parallel: str | None,
    root: Path | None,
) -> None:
    from manyheads.report.number_text import count, duration
    from manyheads.train.estimate import estimate

    if samples is None and recipe.basis.kind == "epochs":
        from manyheads.tasks import sample_count

        samples = sample_count(task, recipe.batch, root=root)
    kind = cast(Any, parallel or "ddp")
    found = estimate(arch, recipe, samples=samples, gpus=gpus, device_tflops=tflops, utilisation=share, parallel=kind)
    rows = [("parameters", parameters(found.params, in_layers(arch)))]
    if found.steps is not None and found.samples is not None and found.flops is not None:
        rows += [("steps", f"{found.steps:,}"), ("samples", f"{found.samples:,}"), ("FLOPs", count(found.flops))]
    rows += [
        ("rows at a time", f"{found.rows} in each of {gpus} GPU{'s' * (gpus > 1)}"),
        ("memory of a GPU", f"{size(found.memory)} with fused attention, {size(found.memory_unfused)} without"),
        ("time", f"{duration(found.seconds)}, where a GPU does {share:.0%} of {tflops:g} TFLOPS"),
    ]
    for name, value in rows:
        print(f"{name:16} {value}")
