"""What a person states about a new run, and the model, task and recipe that follow: the command line and Python alike."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from manyheads.spec.errors import UserError, nearest

from .new_run import fitted, task_for
from .train_task import complete, json_object, named_task, start_task

if TYPE_CHECKING:
    from manyheads.spec.arch import Arch
    from manyheads.spec.recipe import Recipe
    from manyheads.spec.task import Task

    from .dataset_path import NamedDataset


@dataclass(frozen=True)
class Stated:
    """What somebody wrote about a run, as the options of `manyheads train` have it; None where nothing was written.
    `settings` are those of --set, `root` is the folder that holds datasets, `tokenizer` the one of text that `data` gives
    as a path."""

    scale: str | None = None
    task: str | None = None
    data: str | None = None
    recipe: str | None = None
    steps: int | None = None
    basis: str | None = None
    epochs: float | None = None
    batch: int | None = None
    lr: float | None = None
    settings: tuple[str, ...] = ()
    root: Path | None = None
    tokenizer: str | None = None


def planned(
    model: str | Arch, stated: Stated, weights: str | None = None, start: Arch | None = None, folder: Path | None = None
) -> tuple[Arch, Task, Recipe]:
    """The model built for its data, the task and the recipe of a new run. `weights` is the digest of those that
    training starts from, which a task with a field for it states, `start` the model they belong to, and `folder` the
    one that they are saved in, whose tokenizer text takes."""
    from manyheads.spec.recipe import Recipe
    from manyheads.spec.serialise import from_dict
    from manyheads.spec.task_kinds import TASKS

    arch, chosen, fields = _start(model, stated, start, folder)
    budget = basis_fields(stated.steps, stated.basis, stated.epochs)
    for name, value in (("batch", stated.batch), ("lr", stated.lr), ("basis", budget)):
        if value is not None:
            fields[name] = value
    set_fields(stated.settings, {"recipe": fields, "task": chosen})
    chosen = complete(chosen, arch, stated.root)
    kind = TASKS.get(str(chosen.get("is")))
    if weights is not None and kind is not None and kind().starts_from is not None:
        chosen["weights"] = weights
    task, recipe = task_for(chosen, arch), from_dict(Recipe, fields, "recipe")
    return fitted(arch, task, start), task, recipe


def is_arm(model: str | Arch) -> bool:
    """Whether `model` is EXPERIMENT:ARM."""
    if not isinstance(model, str):
        return False
    from manyheads.experiments.registry import EXPERIMENTS

    experiment, _, arm = model.partition(":")
    return experiment in EXPERIMENTS and bool(arm)


def _start(
    model: str | Arch, stated: Stated, start: Arch | None, folder: Path | None
) -> tuple[Arch, dict[str, Any], dict[str, Any]]:
    """Architecture, task and recipe before any single field is changed. An arm of an experiment, EXPERIMENT:ARM, brings
    all three; another model has the named recipe, and the task that is named or that its record can do."""
    task, recipe = stated.task, stated.recipe
    if isinstance(model, str) and is_arm(model):
        experiment, _, arm = model.partition(":")
        arch, chosen, fields = _arm(experiment, arm, stated.scale)
        if task is not None:
            chosen = named_task(task)
        if recipe is not None:
            fields = _named_recipe(recipe)
        named = _dataset(stated, "", start or arch, folder)
        return arch, chosen | ({} if named is None else {"data": named.name} | named.fields), fields
    if stated.scale is not None:
        raise UserError(f"--scale {stated.scale} belongs to an arm of an experiment, such as fig3:L8_h16; leave it out")
    from .resolve import resolve

    arch = resolve(model) if isinstance(model, str) else model
    named = _dataset(stated, model if isinstance(model, str) else "", start or arch, folder)
    chosen = start_task(arch, task, None if named is None else named.name, recipe)
    return arch, chosen | ({} if named is None else named.fields), {} if recipe is None else _named_recipe(recipe)


def _dataset(stated: Stated, model: str, arch: Arch, weights: Path | None) -> NamedDataset | None:
    """The dataset that is stated, by name or by path."""
    from .dataset_path import named_dataset

    if stated.data is None:
        return None
    return named_dataset(stated.data, stated.root, stated.tokenizer, model, arch, weights)


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


def basis_fields(steps: int | None, basis: str | None, epochs: float | None) -> dict[str, Any] | None:
    """The basis of a recipe from the three ways to state it; None where none is stated."""
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


def set_fields(settings: tuple[str, ...], into: dict[str, dict[str, Any]]) -> None:
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
