"""What was held equal between arms, computed from their runs; and the fields in which two arms differ although nobody
planned it, so that a difference between them has more than one reason."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from manyheads.spec.experiment import Experiment
from manyheads.spec.measurements import Measurement
from manyheads.spec.run import RunSpec
from manyheads.spec.serialise import to_dict

from .read_runs import ArmRuns, Section

RECIPE = ("batch", "basis")  # of a recipe: its budget. How an arm is best trained is its own affair


def unplanned(section: Section, ours: ArmRuns, theirs: ArmRuns) -> list[str]:
    """The fields of task and budget in which two arms differ, other than those in which their experiment says so."""
    fields = [_terms(run.folder.spec) for arm in (ours, theirs) for run in arm.done if run.folder.spec is not None]
    names = dict.fromkeys(name for terms in fields for name in terms)
    different = [name for name in names if len({repr(terms.get(name)) for terms in fields}) > 1]
    planned = _planned(section, (ours.name, theirs.name)) if different else set()
    return [name for name in different if name not in planned]


def _terms(spec: RunSpec) -> dict[str, Any]:
    """The task and the budget of a run as flat fields."""
    recipe = to_dict(spec.recipe)
    terms = dict(_flat(to_dict(spec.task), "task"))
    if not isinstance(spec.task, Measurement):
        terms |= dict(_flat({name: recipe[name] for name in RECIPE if name in recipe}, "recipe"))
    return terms


def _flat(value: Any, name: str) -> Iterable[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _flat(inner, f"{name}.{key}")
    else:
        yield name, value


def _planned(section: Section, names: tuple[str, str]) -> set[str]:
    """The fields in which the experiment itself makes two arms differ."""
    experiment: Experiment | None = section.experiment
    if experiment is None or section.scale not in experiment.settings:
        return set()
    setting = experiment.settings[section.scale]
    recipe = setting.recipes.get(section.basis) or next(iter(setting.recipes.values()))
    arms = [arm for arm in setting.arms if arm.name in names]
    specs = [RunSpec(arm.arch, arm.own_task(setting), arm.own_recipe(recipe), 0, {}) for arm in arms]
    terms = [_terms(spec) for spec in specs]
    everything = {name for fields in terms for name in fields}
    return {name for name in everything if len({repr(fields.get(name)) for fields in terms}) > 1}


def held_equal(arms: Iterable[ArmRuns]) -> str:
    """What these arms have the same amount of: steps, tokens, FLOPs, seconds. Empty where nothing is trained."""
    specs = [run.folder.spec for arm in arms for run in arm.runs if run.folder.spec is not None]
    trained = [spec for spec in specs if not isinstance(spec.task, Measurement)]
    if not trained:
        return ""
    bases = {(spec.recipe.basis.kind, spec.recipe.basis.amount) for spec in trained}
    if len(bases) > 1:
        amounts = ", ".join(f"{amount:,.6g} {kind}" for kind, amount in sorted(bases))
        return f"nothing ({amounts})"
    kind = next(iter(bases))[0]
    batches = {spec.recipe.batch for spec in trained}
    return kind if len(batches) == 1 or kind != "steps" else f"{kind}, of batches of {min(batches)} to {max(batches)}"
