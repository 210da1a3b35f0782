"""A changed copy of an experiment: other data, another budget, other fields of recipe or task.

The copy has a name of its own, so that its runs lie apart from those of the unchanged experiment; its record says what
was changed; and it decides no claim of the papers, since those are about the experiment as it was designed."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from manyheads import tasks
from manyheads.spec.errors import UserError
from manyheads.spec.experiment import Arm, Experiment, Setting
from manyheads.spec.files import canonical
from manyheads.spec.measurements import Measurement
from manyheads.spec.recipe import Recipe
from manyheads.spec.serialise import from_dict, to_dict
from manyheads.spec.task import Task

from .dataset_path import NamedDataset
from .new_run import task_for
from .stated_run import basis_fields, set_fields
from .train_task import complete


@dataclass(frozen=True)
class Change:
    """What somebody wrote to change an experiment, as the options of `manyheads run` have it."""

    data: tuple[str, ...] = ()
    steps: int | None = None
    basis: str | None = None
    epochs: float | None = None
    batch: int | None = None
    lr: float | None = None
    settings: tuple[str, ...] = ()
    root: Path | None = None

    @property
    def words(self) -> tuple[str, ...]:
        """The changes as a person reads them."""
        values = {"steps": self.steps, "basis": self.basis, "epochs": self.epochs, "batch": self.batch, "lr": self.lr}
        said = [
            f"{name} {value:g}" if isinstance(value, float) else f"{name} {value}" for name, value in values.items()
        ]
        stated = [text for text, value in zip(said, values.values(), strict=True) if value is not None]
        return (*(f"data {text}" for text in self.data), *stated, *self.settings)

    def options(self) -> str:
        """The same as options of the command."""
        values = {"steps": self.steps, "basis": self.basis, "epochs": self.epochs, "batch": self.batch, "lr": self.lr}
        said = [f"--data {text}" for text in self.data]
        said += [f"--{name} {value}" for name, value in values.items() if value is not None]
        return " ".join([*said, *(f"--set {text}" for text in self.settings)])


def changed(experiment: Experiment, scale: str, change: Change, named: Callable[[str], NamedDataset]) -> Experiment:
    """The copy of an experiment at one scale, with `change` made to every arm. An arm that states a field of its own,
    such as a learning rate, keeps it. `named` gives the dataset that the path of a folder or file stands for."""
    if not change.words:
        return experiment
    if experiment.after is not None:
        raise UserError(
            f"experiment {experiment.name} starts from the weights that {experiment.after.experiment} trains, and a "
            "changed copy has none of these; change that one"
        )
    setting = experiment.setting(scale)
    if all(isinstance(arm.own_task(setting), Measurement) for arm in setting.arms):
        raise UserError(
            f"experiment {experiment.name} measures and trains nothing, and {change.options()} is about training; leave it "
            "out"
        )
    recipes = {basis: _recipe(recipe, change) for basis, recipe in setting.recipes.items()}
    task = setting.task and _task(setting.task, setting.arms[0], change, named)
    arms = tuple(_arm(arm, setting, replace(setting, task=task), change, named) for arm in setting.arms)
    other = replace(setting, task=task, recipes=recipes, arms=arms)
    if other == setting:
        raise UserError(f"{change.options()} changes nothing in {experiment.name} at scale {scale}; leave it out")
    pairs = tuple(replace(pair, claim="") for pair in experiment.compared(scale))
    key = hashlib.sha256(canonical([scale, *change.words]).encode()).hexdigest()[:6]
    name = f"{experiment.name}_{key}"
    return replace(
        experiment,
        name=name,
        settings={scale: replace(other, growths=tuple(replace(one, claim="") for one in other.growths))},
        comparisons=pairs,
        trends=tuple(replace(trend, claim="") for trend in experiment.trends),
        run=f"manyheads run {experiment.name} --scale {scale} {change.options()}",
        of=experiment.name,
        changes=change.words,
    )


def _recipe(recipe: Recipe, change: Change) -> Recipe:
    fields = to_dict(recipe)
    budget = basis_fields(change.steps, change.basis, change.epochs)
    for name, value in (("batch", change.batch), ("lr", change.lr), ("basis", budget)):
        if value is not None:
            fields[name] = value
    set_fields(_about("recipe", change), {"recipe": fields, "task": {}})
    return from_dict(Recipe, fields, "recipe")


def _about(what: str, change: Change) -> tuple[str, ...]:
    """The settings of recipe or task; one of neither is refused where they are read."""
    other = "task." if what == "recipe" else "recipe."
    return tuple(text for text in change.settings if not text.startswith(other))


def _task(task: Task, arm: Arm, change: Change, named: Callable[[str], NamedDataset]) -> Task:
    """A task on the other data and with the fields that were set. What the data tells, such as the number of classes,
    is asked of the data again."""
    fields: dict[str, Any] = to_dict(task)
    data = _data(task, change, named)
    if data is not None and data.name != fields.get("data"):
        told = ("classes", "vocab", "tokenizer")
        fields = {name: value for name, value in fields.items() if name not in told}
        fields |= {"data": data.name} | data.fields
    set_fields(_about("task", change), {"task": fields, "recipe": {}})
    if fields == to_dict(task):
        return task
    return task_for(complete(fields, arm.arch, change.root), arm.arch)


def _data(task: Task, change: Change, named: Callable[[str], NamedDataset]) -> NamedDataset | None:
    """The dataset that takes the place of the task's own: `OLD=NEW` replaces one dataset, and `NEW` each."""
    own = getattr(task, "data", None)
    if own is None:
        return None
    for text in change.data:
        old, equals, new = text.partition("=")
        if not equals:
            return named(text)
        if old == own:
            return named(new)
    return None


def _arm(arm: Arm, before: Setting, after: Setting, change: Change, named: Callable[[str], NamedDataset]) -> Arm:
    """The arm built for the data that it now has."""
    if isinstance(arm.task, Task):
        arm = replace(arm, task=_task(arm.task, arm, change, named))
    if isinstance(arm.recipe, Recipe):
        arm = replace(arm, recipe=_recipe(arm.recipe, change))
    task = arm.own_task(after)
    return arm if task == arm.own_task(before) else replace(arm, arch=tasks.fit(task, arm.arch))
