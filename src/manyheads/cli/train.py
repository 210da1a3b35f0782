"""`manyheads train`: one run, from a model, a task and a recipe to a run folder; also under torchrun."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from manyheads.spec.errors import UserError, nearest

from .new_run import fitted, scratch_label, task_for
from .numbers import in_layers, parameters, size
from .train_task import complete, json_object, named_task, start_task

if TYPE_CHECKING:
    from manyheads.spec.arch import Arch
    from manyheads.spec.recipe import Recipe
    from manyheads.spec.task import Task

LIBRARIES = {"hf": "transformers", "timm": "timm"}


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
        str | None, typer.Option(help="Dataset of the task: fashion_mnist (embedded), cifar10, folder:NAME, ...")
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
        Path | None, typer.Option(help="Weights to fine-tune from: a finished run, or the folder of a saved model.")
    ] = None,
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

        _train(Run.open(resume), device, parallel, data_root, quiet, tensorboard, _saved(weights))
        return
    if model is None:
        raise UserError("no model was given; write a name, such as `manyheads train demo:lean`, or --resume FOLDER")
    arch, chosen, fields = _start(model, scale, task, data, recipe)
    for name, value in (("batch", batch), ("lr", lr), ("basis", _basis(steps, basis, epochs))):
        if value is not None:
            fields[name] = value
    _set(settings or [], {"recipe": fields, "task": chosen})
    source = _saved(weights)
    chosen = complete(chosen, arch, data_root)
    if source is not None:
        from manyheads.train.finetune import weights_digest

        chosen["weights"] = weights_digest(source)
    from manyheads.spec.recipe import IMAGENET_IMAGES, Recipe
    from manyheads.spec.serialise import from_dict

    work, plan = task_for(chosen, arch), from_dict(Recipe, fields, "recipe")
    arch = fitted(arch, work)
    if dry_run:
        samples = IMAGENET_IMAGES if recipe in ("table6", "table6_large") else None
        _estimate(arch, plan, work, samples, gpus, tflops, utilisation, parallel, data_root)
        return
    from manyheads.runs import Run, RunSpec
    from manyheads.train.finetune import check_named

    check_named(work)
    if _is_arm(model) and os.environ.get("RANK", "0") == "0":
        words = f"{type(work).__name__}, {plan.basis.amount:,.6g} {plan.basis.kind} of batch {plan.batch}"
        print(f"{model} has its own task and recipe: {words}", file=sys.stderr)
    folder = out or Path("runs") / f"{re.sub(r'[^A-Za-z0-9_.]+', '_', Path(model).name)}-s{seed}"
    label = {} if source is not None or _is_arm(model) else scratch_label(model)
    run = Run.create(folder, RunSpec(arch, work, plan, seed, label))
    _train(run, device, parallel, data_root, quiet, tensorboard, source)


def _saved(given: Path | None) -> Path | None:
    """The folder of a saved model: the one given, or the one inside the run given."""
    if given is None:
        return None
    kind, _, rest = str(given).partition(":")
    folder = Path(rest if kind in ("run", "hf") and rest else given)
    if kind in ("hf", "timm") and rest and not (folder / "arch.json").is_file():
        raise UserError(
            f"--weights {given}: training starts from weights that manyheads saved, which are a finished run or a folder "
            f"with arch.json and model.safetensors, and not from those of {LIBRARIES[kind]}; `manyheads train {given}` "
            "without --weights trains the same architecture from random weights"
        )
    return folder / "model" if (folder / "model").is_dir() else folder


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

    many = int(os.environ.get("WORLD_SIZE", "1")) > 1
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
        metric, timing, best = result["better"][0], result["timing"], result["best"]
        layers = in_layers(run.spec.arch)
        told = "" if layers is None else f"; parameters: {parameters(result['params'], layers)}"
        print(
            f"{metric} {result['score'][metric]:.4g} after {result['steps']:,} steps (best {best[metric]:.4g} at "
            f"{best['step']:,}), {timing['seconds']:.0f} s at {timing['rate']:,.0f} {timing['unit']}{told}: {run.path}"
        )


def _start(
    model: str, scale: str | None, task: str | None, data: str | None, recipe: str | None
) -> tuple[Arch, dict[str, Any], dict[str, Any]]:
    """Architecture, task and recipe before any single field is changed. An arm of an experiment, EXPERIMENT:ARM, brings
    all three; another model has the named recipe, and the task that is named or that its record can do."""
    experiment, _, arm = model.partition(":")
    if _is_arm(model):
        arch, chosen, fields = _arm(experiment, arm, scale)
        if task is not None:
            chosen = named_task(task)
        if recipe is not None:
            fields = _named_recipe(recipe)
        return arch, chosen | ({} if data is None else {"data": data}), fields
    if scale is not None:
        raise UserError(f"--scale {scale} belongs to an arm of an experiment, such as fig3:L8_h16; leave it out")
    from manyheads.interop.resolve import resolve

    arch = resolve(model)
    return arch, start_task(arch, task, data, recipe), {} if recipe is None else _named_recipe(recipe)


def _is_arm(model: str) -> bool:
    """Whether `model` is EXPERIMENT:ARM."""
    from manyheads.experiments.registry import EXPERIMENTS

    experiment, _, arm = model.partition(":")
    return experiment in EXPERIMENTS and bool(arm)


def _arm(experiment: str, arm: str, scale: str | None) -> tuple[Arch, dict[str, Any], dict[str, Any]]:
    """What an experiment trains under the name of an arm, with its first seed and on its first basis."""
    from manyheads.experiments.registry import EXPERIMENTS
    from manyheads.spec.experiment import specs
    from manyheads.spec.serialise import to_dict

    one = EXPERIMENTS[experiment]
    runs = {each: specs(one, each) for each in one.settings if scale in (None, each)}
    if not runs:
        raise UserError(f"experiment {experiment} has no scale {scale!r}; write one of {', '.join(one.settings)}")
    arms = list(dict.fromkeys(run.label["arm"] for each in runs.values() for run in each))
    if arm not in arms:
        raise UserError(f"experiment {experiment} has no arm {arm!r}{nearest(arm, arms)}; it has {', '.join(arms)}")
    run = next(run for each in runs.values() for run in each if run.label["arm"] == arm)
    return run.arch, to_dict(run.task), to_dict(run.recipe)


def _named_recipe(name: str) -> dict[str, Any]:
    from manyheads.experiments.recipes import NAMED
    from manyheads.spec.serialise import read_json, to_dict

    if name in NAMED:
        return to_dict(NAMED[name][0]())
    file = Path(name)
    return json_object(read_json(file) if os.path.isfile(file) else None, file, "--recipe", f"or {', '.join(NAMED)}")


def _basis(steps: int | None, basis: str | None, epochs: float | None) -> dict[str, Any] | None:
    budgets = {"steps": steps, "basis": basis, "epochs": epochs}
    given = [f"--{name} {value}" for name, value in budgets.items() if value is not None]
    if len(given) > 1:
        raise UserError(f"{' and '.join(given)} are {len(given)} budgets; write one of them")
    if epochs is not None:
        return {"kind": "epochs", "amount": epochs}
    if basis is None:
        return None if steps is None else {"kind": "steps", "amount": steps}
    kind, _, amount = basis.partition("=")
    try:
        return {"kind": kind, "amount": float(amount)}
    except ValueError:
        raise UserError(f"--basis {basis}: write what is held equal and how much of it, such as epochs=20") from None


def _set(settings: list[str], into: dict[str, dict[str, Any]]) -> None:
    """Write `recipe.clip=0` and the like into the objects they name; fields are checked when these are read."""
    if not settings:
        return
    from manyheads.spec.json_text import parse
    from manyheads.spec.recipe import Recipe
    from manyheads.spec.serialise import to_dict
    from manyheads.spec.task_kinds import TASKS

    kind = TASKS.get(str(into["task"].get("is")))
    defaults: dict[str, Any] = {"recipe": to_dict(Recipe()), "task": {} if kind is None else to_dict(kind())}
    for text in settings:
        path, equals, value = text.partition("=")
        first, *rest = path.split(".")
        if not equals or first not in into or not rest:
            raise UserError(f"--set {text}: write recipe.FIELD=VALUE or task.FIELD=VALUE, such as recipe.clip=0")
        place, default = into[first], defaults[first]
        for name in rest[:-1]:
            default = default.get(name) if isinstance(default, dict) else None
            place = place.setdefault(name, {} if default is None else default)
            if not isinstance(place, dict):
                raise UserError(
                    f"--set {text}: {name} holds no record; write the whole of it, such as "
                    f'{path.rpartition(".")[0]}={{"is": ..., "{rest[-1]}": {value}}}'
                )
        try:
            place[rest[-1]] = parse(value)
        except json.JSONDecodeError:
            place[rest[-1]] = value  # a word
        except ValueError as error:
            raise UserError(f"--set {text}: {error}") from None


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
        import torch

        from manyheads.tasks import open_task

        samples = open_task(task, torch.device("cpu"), 0, recipe.batch, root=root).samples
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
