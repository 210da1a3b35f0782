"""Specifications written once load for ever, under the id that was written: those of every task and every recipe stay
here. `golden/schema1/specs.jsonl` has one specification a line, under a name: `full/` and `default/` as `manyheads
train` writes them (every field stated), `recipe/` the named recipes, and the others as experiments write them, with
what is left out at its default. `golden/schema1/tasks/` has finished runs, without their models."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from manyheads import tasks
from manyheads.experiments.long_range_recipes import PUBLISHED, SMOKE
from manyheads.experiments.recipes import NAMED
from manyheads.experiments.registry import EXPERIMENTS
from manyheads.runs import Run, find
from manyheads.spec.experiment import specs
from manyheads.spec.files import dump
from manyheads.spec.recipe import Recipe
from manyheads.spec.run import RunSpec, digest

GOLDEN = Path(__file__).parent / "golden"


def _specs() -> Iterator[Any]:
    for file in sorted(GOLDEN.glob("*/specs.jsonl")):
        for line in file.read_text(encoding="utf-8").splitlines():
            entry = json.loads(line)
            yield pytest.param(entry["spec"], id=entry["name"])


def within(part: Any, record: Any) -> bool:
    """Whether every field that `part` states, nested ones too, has its value in `record`."""
    if isinstance(part, dict):
        return isinstance(record, dict) and all(
            name in record and within(value, record[name]) for name, value in part.items()
        )
    return bool(part == record)


SPECS = list(_specs())
RUNS = sorted(path.parent for path in GOLDEN.glob("*/tasks/*/spec.json"))


@pytest.mark.parametrize("written", SPECS)
def test_a_written_specification_loads_and_keeps_its_id(written: dict[str, Any], tmp_path: Path) -> None:
    """The folder opens, its specification has the id that was written, and the run it names goes on in it."""
    (tmp_path / "spec.json").write_bytes(dump(written))
    run = Run.open(tmp_path)
    assert run.id == written["id"]
    assert run.spec.id == digest(run.spec.to_dict())
    assert within(written, run.spec.to_dict() | {"id": run.id})
    assert Run.create(tmp_path, RunSpec.from_dict(written)).id == written["id"]
    assert json.loads((tmp_path / "spec.json").read_bytes()) == written


@pytest.mark.parametrize(
    "written", [param for param in SPECS if str(param.id).startswith(("full/", "default/", "recipe/"))]
)
def test_a_specification_with_every_field_has_one_id(written: dict[str, Any]) -> None:
    """What `manyheads train` wrote is, byte for byte, what it would write today."""
    spec = RunSpec.from_dict(written)
    assert spec.id == written["id"]
    assert spec.to_dict() | {"id": spec.id} == written


@pytest.mark.parametrize("written", [param for param in SPECS if param.values[0]["label"]])
def test_a_run_that_an_experiment_wrote_is_the_run_that_it_plans(written: dict[str, Any]) -> None:
    """Experiments once wrote the fields that they stated and no others; the id of such a folder stays its own."""
    spec = RunSpec.from_dict(written)
    planned = specs(EXPERIMENTS[spec.label["experiment"]], spec.label["scale"])
    assert spec in planned
    assert spec.id == planned[planned.index(spec)].id


@pytest.mark.parametrize("written", SPECS)
def test_its_task_and_recipe_are_read(written: dict[str, Any]) -> None:
    task, recipe = tasks.from_dict(written["task"]), Recipe.from_dict(written["recipe"])
    assert tasks.from_dict(tasks.to_dict(task)) == task
    assert Recipe.from_dict(recipe.to_dict()) == recipe
    assert within(written["recipe"], recipe.to_dict())
    assert within(written["task"], tasks.to_dict(task))


def test_every_task_and_every_named_recipe_is_among_them() -> None:
    names = {str(param.id) for param in SPECS}
    ours = {name for name, kind in tasks.TASKS.items() if kind.__module__.startswith("manyheads.")}  # tests have more
    for form in ("full", "default"):
        assert {name.removeprefix(f"{form}/") for name in names if name.startswith(f"{form}/")} == ours
    recipes = {"table6", "table6_lean", *NAMED} - {"table6_large"}  # which differs from table6 in its batch alone
    recipes |= {f"lra_{name}{form}" for name in PUBLISHED for form in ("", "_lean", "_softmax")}
    recipes |= {f"lra_smoke_{name}" for name in SMOKE}
    assert recipes <= {name.removeprefix("recipe/") for name in names}


@pytest.mark.parametrize("folder", RUNS, ids=lambda folder: folder.name)
def test_a_finished_run_of_each_sort_of_task_loads(folder: Path) -> None:
    run = Run.open(folder)
    assert run.state == "done"
    assert run.id == json.loads((folder / "spec.json").read_bytes())["id"]
    assert run.result is not None
    assert run.result["better"][0] in run.result["score"]
    lines = run.metrics.read()
    assert run.result["steps"] == (lines[-1]["step"] if lines else 0)
    assert all("log_kappa" in record for record in run.spectra.read())
    assert [item.path for item in find(folder)] == [folder]
