"""A forecast is the time that runs take which share a device, not the time of one run divided by their number."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from manyheads.arch.families import vit
from manyheads.runs import Run, RunSpec
from manyheads.spec.images import Images
from manyheads.spec.recipe import Basis, Recipe
from manyheads.sweep.forecast import GPU_GAIN, Forecast, forecast, sharing, wall
from manyheads.sweep.jobs import Job
from manyheads.sweep.plan import plan
from tests.data.written import write_folder

from .tiny import jobs, tiny

EVIDENCE = Path(__file__).resolve().parents[2] / "evidence"
(JOB,) = jobs(Path("nowhere"), tiny(arms=1))
CORES = len(os.sched_getaffinity(0))


def evidence(name: str) -> dict:
    """A record of what was measured."""
    return json.loads((EVIDENCE / name).read_text())


def runs(*seconds: float, alone: bool = False) -> list[Forecast]:
    """Runs that would take so many seconds on a device of their own."""
    return [Forecast(replace(JOB, alone=alone), False, 1, seconds=each) for each in seconds]


def test_the_rank_grid_on_one_h200_is_forecast_as_it_was_measured() -> None:
    grid = evidence("rank_small_h200.json")["grid"]
    planned = forecast(plan(grid["experiment"], "small", Path("nowhere")).jobs(), device="cuda")
    assert len(planned) == grid["runs"]
    told = wall(planned, 16, sharing(16, "cuda"))
    assert grid["seconds"] / 1.5 < told < 1.5 * grid["seconds"]
    alone = sum(each.seconds or 0.0 for each in planned)
    assert told > alone / 2


def test_the_gain_of_several_runs_on_a_gpu_is_the_measured_one() -> None:
    record = evidence("bench_train_h200.json")
    for together in ("together_8", "together_14"):
        assert pytest.approx(GPU_GAIN, rel=0.01) == record[together]["rate"] / record["alone"]["rate"]


def test_images_that_each_run_keeps_on_the_device_are_forecast(tmp_path: Path) -> None:
    write_folder(tmp_path / "colours", train=6, val=1)
    arch = vit(8, 1, 2, 8, 8, image=16, patch=8, classes=3)
    spec = RunSpec(arch, Images("folder:colours", size=16, classes=3), Recipe(batch=4, basis=Basis("steps", 1)), 0)
    (here,) = forecast([replace(JOB, spec=spec)], device="cpu", root=tmp_path)
    assert here.held == 21 * 3 * 16 * 16
    (missing,) = forecast([replace(JOB, spec=spec)], device="cpu", root=tmp_path / "nowhere")
    assert missing.held == 0


@pytest.mark.parametrize("workers", [1, 2, 8, 64])
def test_a_gpu_does_the_same_work_for_any_number_of_workers(workers: int) -> None:
    took = wall(runs(*[10.0] * 64), workers, sharing(workers, "cuda"))
    assert took == pytest.approx(640.0 if workers == 1 else 640.0 / GPU_GAIN)


def test_workers_beyond_the_cores_gain_nothing() -> None:
    many = runs(*[10.0] * 60 * CORES)
    assert wall(many, CORES, sharing(CORES, "cpu")) == pytest.approx(600.0)
    assert wall(many, 10 * CORES, sharing(10 * CORES, "cpu")) == pytest.approx(600.0)
    assert wall(many, CORES, sharing(CORES, "cpu", threads=2)) == pytest.approx(1200.0)


def test_runs_on_devices_of_their_own_do_not_slow_each_other() -> None:
    assert wall(runs(*[10.0] * 64), 16, sharing(16, "cuda", own=True)) == pytest.approx(40.0)


def test_the_longest_run_is_waited_for_at_its_own_speed() -> None:
    assert wall(runs(100.0, 1.0), 2, sharing(2, "cuda")) == pytest.approx(2 / GPU_GAIN + 99.0)


def test_runs_that_are_alone_follow_one_after_another() -> None:
    both = [*runs(10.0, 10.0, alone=True), *runs(10.0, 10.0)]
    assert wall(both, 2, sharing(2, "cuda")) == pytest.approx(20.0 + 20.0 / GPU_GAIN)


def test_a_finished_run_that_had_company_is_faster_without(tmp_path: Path) -> None:
    done, other = jobs(tmp_path, tiny(arms=1, seeds=(0, 1)))
    finish(done, on_device=16)
    told = forecast([done, other], device="cuda")[1]
    assert told.seconds == pytest.approx(80.0 * GPU_GAIN / 16)


def test_a_finished_run_of_an_earlier_version_is_taken_as_it_was(tmp_path: Path) -> None:
    done, other = jobs(tmp_path, tiny(arms=1, seeds=(0, 1)))
    finish(done)
    assert forecast([done, other], device="cuda")[1].seconds == 80.0


@pytest.mark.parametrize("timing", [3, "x", None, [], {"seconds": "x"}, {"seconds": None}, {"on_device": 0}])
def test_a_result_without_a_time_says_nothing(timing: Any, tmp_path: Path) -> None:
    done, other = jobs(tmp_path, tiny(arms=1, seeds=(0, 1)))
    Run.create(done.path, done.spec).finish({"score": {}, "better": ["top1", "up"], "timing": timing})
    assert forecast([done, other], device="cuda")[1].seconds == forecast([other], device="cuda")[0].seconds


@pytest.mark.parametrize("on_device", [0, -1, "x", None])
def test_an_impossible_company_counts_as_unknown(on_device: Any, tmp_path: Path) -> None:
    done, other = jobs(tmp_path, tiny(arms=1, seeds=(0, 1)))
    finish(done, on_device=on_device)
    assert forecast([done, other], device="cuda")[1].seconds == 80.0


def finish(job: Job, **timing: Any) -> None:
    """Write a result of 80 seconds."""
    Run.create(job.path, job.spec).finish(
        {"score": {}, "better": ["top1", "up"], "timing": {"seconds": 80.0, **timing}}
    )
