"""Run specifications from plain JSON values, as files and people write them: shorter than records in a test."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from manyheads.spec.arch import Arch
from manyheads.spec.recipe import Recipe
from manyheads.spec.run import RunSpec
from manyheads.spec.serialise import from_dict, to_dict
from manyheads.spec.task import Task
from manyheads.spec.task_kinds import task_from_dict

Fields = Mapping[str, Any]


def run_spec(
    arch: Arch, task: Task | Fields, recipe: Recipe | Fields, seed: int, label: Fields | None = None
) -> RunSpec:
    """A specification whose task and recipe may be JSON objects."""
    own = task if isinstance(task, Task) else task_from_dict(dict(task))
    how = recipe if isinstance(recipe, Recipe) else from_dict(Recipe, dict(recipe), "recipe")
    return RunSpec(arch, own, how, seed, dict(label or {}))


def changed(recipe: Recipe, **fields: Any) -> Recipe:
    """A recipe with some fields replaced, given as JSON values."""
    return from_dict(Recipe, to_dict(recipe) | fields, "recipe")
