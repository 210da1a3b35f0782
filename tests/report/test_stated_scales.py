"""An experiment that is written beside the runs of each of its scales, after one of the scales was changed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from manyheads.experiments.demo import DEMO
from manyheads.report.read_runs import read_runs
from manyheads.spec.experiment import Experiment, folder, specs
from manyheads.spec.experiment_file import save

from .made import put

SETTING = DEMO.setting("smoke")


def mine(*seeds: int, question: str = "") -> Experiment:
    """An experiment with a smoke scale, and a scale small that has these seeds."""
    settings = {"smoke": SETTING, "small": replace(SETTING, seeds=seeds)}
    return replace(DEMO, name="mine", question=question or DEMO.question, settings=settings)


def put_runs(root: Path, experiment: Experiment, scale: str) -> None:
    """Its finished runs at a scale, and the experiment beside them."""
    for spec in specs(experiment, scale):
        put(folder(root, spec), spec, 0.8)
    save(experiment, root / f"mine-{scale}" / "experiment.json")


def test_other_seeds_at_one_scale_are_no_other_experiment_at_another_scale(tmp_path: Path) -> None:
    put_runs(tmp_path, mine(0, 1, 2), "smoke")
    put_runs(tmp_path, mine(7, 8, 9), "small")
    found = read_runs(tmp_path, {})
    assert [problem.problem for problem in found.problems] == []
    seeds = {one.scale: one.experiment.settings[one.scale].seeds for one in found.sections if one.experiment}
    assert seeds == {"small": (7, 8, 9), "smoke": SETTING.seeds}


def test_two_experiments_of_one_name_and_scale_are_still_refused_together(tmp_path: Path) -> None:
    put_runs(tmp_path / "a", mine(0, 1), "small")
    put_runs(tmp_path / "b", mine(0, 1, question="Something else?"), "small")
    (problem,) = read_runs(tmp_path, {}).problems
    assert "states another experiment mine than a place beside it" in str(problem.problem)


def test_runs_whose_own_record_was_lost_are_judged_by_the_one_of_another_scale(tmp_path: Path) -> None:
    put_runs(tmp_path, mine(0, 1, 2), "smoke")
    put_runs(tmp_path, mine(0, 1, 2), "small")
    (tmp_path / "mine-small" / "experiment.json").unlink()
    assert all(section.experiment is not None for section in read_runs(tmp_path, {}).sections)
