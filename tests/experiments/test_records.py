"""An experiment is data: its runs follow from it, training reads its tasks and recipes, its mistakes are told."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from manyheads.arch.count import params
from manyheads.experiments.claims import CLAIMS
from manyheads.experiments.demo import DEMO, shortened
from manyheads.experiments.registry import EXPERIMENTS, get
from manyheads.spec.errors import UserError
from manyheads.spec.experiment import Arm, Comparison, Experiment, folder, specs
from manyheads.spec.recipe import Basis, Recipe
from manyheads.spec.run import RunSpec
from manyheads.tasks import check

EVERY = [(experiment, scale) for experiment in EXPERIMENTS.values() for scale in experiment.settings]


@pytest.mark.parametrize(("experiment", "scale"), EVERY, ids=lambda item: getattr(item, "name", item))
def test_every_task_fits_its_model_and_survives_its_file(experiment: Experiment, scale: str) -> None:
    for spec in specs(experiment, scale):
        check(spec.task, spec.arch)
    assert RunSpec.from_dict(json.loads(json.dumps(spec.to_dict()))) == spec


@pytest.mark.parametrize(("experiment", "scale"), EVERY, ids=lambda item: getattr(item, "name", item))
def test_no_two_runs_of_an_experiment_are_the_same_or_share_a_folder(experiment: Experiment, scale: str) -> None:
    planned = specs(experiment, scale)
    assert len({spec.id for spec in planned}) == len(planned)
    assert len({folder(Path(), spec) for spec in planned}) == len(planned)


@pytest.mark.parametrize("experiment", EXPERIMENTS.values(), ids=lambda item: item.name)
def test_every_claim_is_a_known_one(experiment: Experiment) -> None:
    assert set(experiment.claims) <= CLAIMS.keys()


def test_the_demo_takes_heads_and_depth_apart() -> None:
    arms = {arm.name: arm.arch for arm in DEMO.setting("smoke").arms}
    assert list(arms) == ["original", "lean", "depth_only", "split"]
    shapes = {
        name: (arch.stages[0].depth, arch.stages[0].unit[0][0].op.heads, arch.stages[0].unit[0][0].op.head_dim)  # type: ignore[union-attr, index]
        for name, arch in arms.items()
    }
    assert shapes == {"original": (6, 4, 16), "lean": (3, 8, 16), "depth_only": (3, 4, 16), "split": (3, 8, 8)}
    assert params(arms["split"]).total == params(arms["depth_only"]).total < params(arms["lean"]).total
    assert all(arch.stages[0].tokens < 64 for arch in arms.values())  # inner is above tokens in every arm


def test_runs_have_their_label_and_their_folder() -> None:
    planned = specs(DEMO, "smoke")
    assert len(planned) == 8
    assert [spec.label["arm"] for spec in planned[:4]] == [
        "original",
        "lean",
        "depth_only",
        "split",
    ]  # a seed at a time
    assert folder(Path("runs"), planned[5]) == Path("runs/demo-smoke/lean-s1")


def test_an_arm_may_have_a_recipe_and_a_task_of_its_own() -> None:
    setting = DEMO.setting("smoke")
    own = Arm("slow", setting.arms[0].arch, task={"limit": 100}, recipe={"lr": 1e-4})
    experiment = Experiment("own", "", "", {"smoke": replace(setting, arms=(own,))})
    spec = specs(experiment, "smoke")[0]
    assert (spec.recipe.lr, spec.recipe.batch, spec.task.limit) == (1e-4, 64, 100)


def test_several_bases_are_several_runs_of_each_arm() -> None:
    setting = DEMO.setting("smoke")
    both = {"steps": setting.recipes["steps"], "flops": Recipe(basis=Basis("flops", 1e12))}
    experiment = Experiment("both", "", "", {"small": replace(setting, recipes=both)})
    names = {folder(Path(), spec).name for spec in specs(experiment, "small")}
    assert {"lean-steps-s0", "lean-flops-s0"} <= names
    assert len(names) == 16


def test_fewer_steps_change_the_budget_and_nothing_else() -> None:
    short, whole = specs(shortened(DEMO, 7), "smoke")[0], specs(DEMO, "smoke")[0]
    assert short.recipe == replace(whole.recipe, basis=Basis("steps", 7))


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: get("demmo"), "did you mean demo"),
        (lambda: DEMO.setting("paper"), "no scale 'paper'"),
        (lambda: Arm("a/b", DEMO.setting("smoke").arms[0].arch), "folders are named after it"),
        (lambda: replace(DEMO, comparisons=(Comparison("learn", "original", "more"),)), "did you mean lean"),
        (lambda: replace(DEMO.setting("smoke"), seeds=(1, 1)), "none twice"),
        (lambda: replace(DEMO, settings={"tiny": DEMO.setting("smoke")}), "smoke, laptop, small, paper"),
    ],
)
def test_mistakes_are_told(make: object, told: str) -> None:
    with pytest.raises(UserError, match=told):
        make()  # type: ignore[operator]


def test_records_and_pages_need_no_torch() -> None:
    code = (
        "import json, sys, manyheads.experiments.registry, manyheads.experiments.verdict, manyheads.report.page;"
        "print(json.dumps([name for name in ('torch', 'numpy') if name in sys.modules]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == []
