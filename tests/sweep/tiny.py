"""The demonstration's arms at a size that trains in a second."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from manyheads.experiments.demo import DEMO
from manyheads.spec.experiment import Experiment, folder, specs
from manyheads.spec.recipe import Recipe
from manyheads.spec.task_kinds import task_from_dict
from manyheads.sweep.jobs import Job

RECIPE = {
    "batch": 8,
    "basis": {"kind": "steps", "amount": 12},
    "lr": 1e-3,
    "log_every": 2,
    "evaluate_every": 0.5,
    "probe_every": 0.5,
    "probe_samples": 2,
    "checkpoint_every": 6,
}
TASK = {"is": "Images", "data": "fashion_mnist", "limit": 64, "test_limit": 64}


def tiny(steps: int = 12, arms: int = 2, seeds: tuple[int, ...] = (0,), **recipe: object) -> Experiment:
    """Two arms, one seed, twelve steps, unless more is asked for."""
    fields = RECIPE | {"basis": {"kind": "steps", "amount": steps}} | recipe
    setting = replace(
        DEMO.setting("smoke"),
        arms=DEMO.setting("smoke").arms[:arms],
        seeds=seeds,
        task=task_from_dict(TASK),
        recipes={"steps": Recipe.from_dict(fields)},
    )
    return replace(DEMO, settings={"smoke": setting}, comparisons=())


def jobs(root: Path, experiment: Experiment) -> list[Job]:
    """Its runs below `root`."""
    return [Job(folder(root, spec), spec) for spec in specs(experiment, "smoke")]
