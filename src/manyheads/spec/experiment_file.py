"""`experiment.json`: an experiment as a file beside its runs, so that whoever reads the runs knows what was expected.

The experiments of the catalogue need no file. One that a user states, changes or narrows to some of its arms is written
to the folder of its runs before the first of them starts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from .comparison import Comparison, Growth, Slope, Trend
from .errors import UserError
from .experiment import Arm, Best, Experiment, Pretraining, Setting
from .files import dump, read_object, replace
from .recipe import Recipe
from .serialise import PARTS, arch_from_dict, check_names, from_dict, tagged, to_dict
from .task import Task, TaskPart
from .task_kinds import task_from_dict

EXPERIMENT = "experiment.json"
SCHEMA = 1
RECORDS = {"comparisons": Comparison, "trends": Trend, "slopes": Slope}


def save(experiment: Experiment, path: Path) -> None:
    """Write an experiment as JSON, replacing the file in one step."""
    replace(path, dump(experiment_to_dict(experiment)))


def load(path: Path) -> Experiment:
    """Read an experiment that `save` wrote. A file that is missing or damaged is refused."""
    data = read_object(path)
    if data is None:
        raise UserError(f"{path} does not exist; give a file that holds an experiment")
    try:
        return experiment_from_dict(data)
    except UserError as error:
        raise UserError(f"{path} holds no experiment: {error}") from None


def experiment_to_dict(experiment: Experiment) -> dict[str, Any]:
    """An experiment as plain JSON values. Fields at their default are left out."""
    plain = {field.name: getattr(experiment, field.name) for field in fields(experiment)}
    written = {name: value for name, value in plain.items() if value not in ("", (), {}, None, False)}
    written["settings"] = {scale: _setting(setting) for scale, setting in experiment.settings.items()}
    for name in RECORDS.keys() & written.keys():
        written[name] = [to_dict(record) for record in written[name]]
    for name in {"changes", "remarks"} & written.keys():
        written[name] = list(written[name])
    if experiment.printed:
        written["printed"] = dict(experiment.printed)
    if experiment.after is not None:
        written["after"] = to_dict(experiment.after)
    return {"schema": SCHEMA} | written


def experiment_from_dict(data: Any) -> Experiment:
    """The experiment in a JSON object."""
    if not isinstance(data, dict) or not isinstance(data.get("settings"), dict):
        raise UserError("it has no `settings`, which say what is run")
    schema = data.get("schema")
    if schema != SCHEMA:
        raise UserError(f"schema {schema!r} is not one this version reads ({SCHEMA}); a newer manyheads wrote it?")
    values = {name: value for name, value in data.items() if name != "schema"}
    check_names(Experiment, values, "the experiment")
    values["settings"] = {scale: _read_setting(one, f"settings.{scale}") for scale, one in data["settings"].items()}
    for name, kind in RECORDS.items():
        if name in values:
            values[name] = _records(kind, values[name], name)
    for name in ("changes", "remarks"):
        if name in values:
            values[name] = tuple(map(str, _listed(values[name], name)))
    if "after" in values:
        values["after"] = from_dict(Pretraining, values["after"], "after")
    return Experiment(**values)


def _setting(setting: Setting) -> dict[str, Any]:
    written: dict[str, Any] = {
        "arms": [_arm(arm) for arm in setting.arms],
        "seeds": list(setting.seeds),
        "task": None if setting.task is None else to_dict(setting.task),
        "recipes": {basis: to_dict(recipe) for basis, recipe in setting.recipes.items()},
    }
    if setting.bests:
        written["bests"] = [to_dict(best) for best in setting.bests]
    if setting.growths:
        written["growths"] = [_growth(growth) for growth in setting.growths]
    return written


def _arm(arm: Arm) -> dict[str, Any]:
    written: dict[str, Any] = {"name": arm.name, "arch": to_dict(arm.arch)}
    for name in ("note", "start"):
        if getattr(arm, name):
            written[name] = getattr(arm, name)
    for name in ("task", "recipe"):
        value = getattr(arm, name)
        if value:
            whole = isinstance(value, Task | Recipe)
            written[name] = to_dict(value) if whole else {"fields": _fields(value)}
    return written


def _fields(values: Mapping[str, Any]) -> dict[str, Any]:
    """The fields in which an arm differs from its setting, records among them as plain values."""
    return {name: to_dict(value) if hasattr(value, "__dataclass_fields__") else value for name, value in values.items()}


def _growth(growth: Growth) -> dict[str, Any]:
    plain = {field.name: getattr(growth, field.name) for field in fields(growth)}
    return plain | {
        "sizes": {str(size): list(arms) for size, arms in growth.sizes.items()},
        "enough": {str(size): arm for size, arm in growth.enough.items()},
    }


def _read_setting(data: Any, where: str) -> Setting:
    if not isinstance(data, dict):
        raise UserError(f"{where} is no object; write arms, seeds, task and recipes")
    check_names(Setting, data, where)
    arms = tuple(_read_arm(one, f"{where}.arms[{i}]") for i, one in enumerate(_listed(data.get("arms"), "arms")))
    recipes = data.get("recipes")
    if not isinstance(recipes, dict):
        raise UserError(f"{where}.recipes is no object; write a recipe under the name of each basis")
    return Setting(
        arms=arms,
        seeds=tuple(_listed(data.get("seeds"), f"{where}.seeds")),
        task=None if data.get("task") is None else task_from_dict(data["task"]),
        recipes={basis: from_dict(Recipe, one, f"{where}.recipes.{basis}") for basis, one in recipes.items()},
        bests=_records(Best, data.get("bests", []), f"{where}.bests"),
        growths=tuple(_read_growth(one, where) for one in _listed(data.get("growths", []), f"{where}.growths")),
    )


def _read_arm(data: Any, where: str) -> Arm:
    if not isinstance(data, dict):
        raise UserError(f"{where} is no object; write name and arch")
    check_names(Arm, data, where)
    values = data | {"arch": arch_from_dict(data.get("arch"))}
    for name in ("task", "recipe"):
        if name in data:
            values[name] = _own(name, data[name], f"{where}.{name}")
    return Arm(**values)


def _own(name: str, data: Any, where: str) -> Any:
    """The task or recipe of an arm: whole, or the fields in which it differs."""
    if isinstance(data, dict) and data.keys() == {"fields"}:
        return _differing(name, data["fields"], where)
    return task_from_dict(data) if name == "task" else from_dict(Recipe, data, where)


def _differing(name: str, values: Any, where: str) -> Mapping[str, Any]:
    """Fields as records hold them: lists are tuples, and a record among them is read by reading a whole one."""
    if not isinstance(values, dict):
        raise UserError(f"{where}.fields is no object; write the fields in which the arm differs")
    if name == "recipe":
        recipe = from_dict(Recipe, values, where)
        return {field: getattr(recipe, field) for field in values}
    return {field: _part(value, where) for field, value in values.items()}


def _part(value: Any, where: str) -> Any:
    """A field of a task that stands alone."""
    if isinstance(value, list):
        return tuple(_part(item, where) for item in value)
    if isinstance(value, dict):
        return tagged(PARTS | {kind.__name__: kind for kind in TaskPart.__subclasses__()}, value, where, "no record")
    return value


def _read_growth(data: Any, where: str) -> Growth:
    sizes = data.get("sizes") if isinstance(data, dict) else None
    if not isinstance(sizes, dict):
        raise UserError(f"{where}.growths: a growth has no sizes; write the arms of each size")
    check_names(Growth, data, where)
    enough = data.get("enough", {})
    if not isinstance(enough, dict):
        raise UserError(f"{where}.growths: enough is no object; write the arm of each size")
    by_size = {"sizes": {size: tuple(arms) for size, arms in sizes.items()}, "enough": enough}
    try:
        return Growth(**data | {name: {int(size): v for size, v in of.items()} for name, of in by_size.items()})
    except ValueError:
        raise UserError(f"{where}.growths has sizes {', '.join(sizes)}; write whole numbers") from None


def _records(kind: Any, data: Any, where: str) -> tuple[Any, ...]:
    return tuple(from_dict(kind, one, f"{where}[{i}]") for i, one in enumerate(_listed(data, where)))


def _listed(data: Any, where: str) -> list[Any]:
    if not isinstance(data, list):
        raise UserError(f"{where} is {data!r:.60}; write a list")
    return data
