"""Runs of which time counts run alone, and every result says how many runs were on the device."""

from __future__ import annotations

import json
import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from manyheads.experiments import registry
from manyheads.runs import Run
from manyheads.spec.comparison import Comparison
from manyheads.spec.experiment import Experiment
from manyheads.sweep.jobs import QuietView
from manyheads.sweep.local import run
from manyheads.sweep.plan import plan
from manyheads.train.early_end import Stopped
from manyheads.train.loop import train
from manyheads.train.progress import Silent

from .company import Company, check_alone, mixed, on_device
from .tiny import jobs, tiny


def alone(name: str, scale: str = "smoke") -> set[tuple[str, str]]:
    """Arm and basis of the runs of an experiment that run alone."""
    planned = plan(name, scale, Path("nowhere")).jobs()
    return {(job.spec.label["arm"], job.spec.label.get("basis", "")) for job in planned if job.alone}


def test_a_budget_of_seconds_and_a_comparison_of_rates_run_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    arms = {arm.name for arm in registry.get("controls").setting("small").arms}
    assert alone("controls", "small") == {(arm, "seconds") for arm in arms}
    assert {basis for _, basis in alone("table1")} == {"seconds"}
    assert alone("table4") == set()
    assert len(alone("latency")) == len(plan("latency", "smoke", Path("nowhere")).jobs())
    rates = (Comparison("lean", "original", "more", 0.05, metric="rate"),)
    monkeypatch.setattr(
        registry, "EXPERIMENTS", {"rated": replace(tiny(arms=4), name="rated", run="", comparisons=rates)}
    )
    assert alone("rated") == {("lean", ""), ("original", "")}


def test_a_run_that_is_alone_in_one_experiment_is_alone_in_all(monkeypatch: pytest.MonkeyPatch) -> None:
    first = replace(tiny(), name="first", run="")
    monkeypatch.setattr(registry, "EXPERIMENTS", {"first": first, "second": replace(first, name="second", alone=True)})
    planned = plan("all", "smoke", Path("nowhere")).jobs()
    assert [(job.spec.label["experiment"], job.alone) for job in planned] == [("first", True), ("first", True)]


def test_workers_do_runs_that_are_alone_one_at_a_time_with_nothing_beside(tmp_path: Path) -> None:
    wanted, seen = mixed(tmp_path), Company()
    outcomes = run(wanted, workers=2, device="cpu", look=seen)
    assert [outcome.fate for outcome in outcomes] == ["done"] * 4
    check_alone(wanted, seen)


def one_run(root: Path, experiment: Experiment | None = None) -> Run:
    """A run of twelve steps with a checkpoint after the sixth."""
    (job,) = jobs(root, experiment or tiny(arms=1))
    return Run.create(job.path, job.spec)


class AskToStop(Silent):
    """Asks the process to stop at the first log."""

    def move(self, step: int, *_: Any) -> None:
        """Send the signal of a scheduler."""
        os.kill(os.getpid(), signal.SIGTERM)


def test_a_run_that_had_company_before_it_was_stopped_says_so(tmp_path: Path) -> None:
    run_ = one_run(tmp_path)
    with pytest.raises(Stopped):
        train(run_, device="cpu", progress=AskToStop(), on_device=3)
    assert train(run_, device="cpu", quiet=True)["timing"]["on_device"] == 3


def test_of_a_checkpoint_of_an_earlier_version_nobody_knows_the_company(tmp_path: Path) -> None:
    run_ = one_run(tmp_path)
    with pytest.raises(Stopped):
        train(run_, device="cpu", progress=AskToStop())
    (file,) = run_.checkpoints.glob("step-*/note.json")
    note = json.loads(file.read_text())
    assert note.pop("on_device") == 1
    del note["digest"]
    file.write_text(json.dumps(note))  # as an earlier version writes it
    assert train(run_, device="cpu", quiet=True)["timing"]["on_device"] is None


def test_this_process_is_alone_on_its_device(tmp_path: Path) -> None:
    wanted = jobs(tmp_path, tiny(2, arms=1, probe_every=0))
    run(wanted, device="cpu", look=QuietView())
    assert on_device(wanted) == [1]
