"""`manyheads run --minutes`: what is not finished in time is left, said, and finished by the same command."""

from __future__ import annotations

from pathlib import Path

import pytest

from manyheads.cli.run_slice import _expected
from manyheads.runs import Run
from manyheads.runs.pack import pack
from manyheads.spec.errors import UserError
from manyheads.sweep.deal import ExpectedTime
from manyheads.sweep.forecast import Forecast
from tests.cli.test_run import call, here, states, toys  # noqa: F401
from tests.sweep.tiny import jobs, tiny


def test_less_time_than_a_run_takes_is_said_and_loses_nothing(tmp_path: Path, toys: None) -> None:  # noqa: F811
    out = ["--out", str(tmp_path), "--quiet"]
    call("toy", *here(tmp_path), "--seeds", "1")
    told = call("toy", *out, "--minutes", "0.0001", code=3)
    assert "No run fits into this time, the shortest takes about " in told.stderr
    assert told.stdout.startswith("2 left;")
    assert "lean-s0: left: not begun" in told.stderr
    assert set(states(tmp_path).values()) <= {"done", "new", "stopped"}
    assert call("toy", *here(tmp_path)).stdout.startswith("2 done;")
    assert set(states(tmp_path).values()) == {"done"}
    assert call("toy", *out, "--minutes", "0.0001").stdout.startswith("2 finished before;")


@pytest.mark.parametrize(
    ("args", "why"),
    [
        (("--minutes", "0"), "nothing can be done in that time"),
        (("--minutes", "nan"), "nothing can be done in that time"),
        (("--minutes", "9", "--executor", "process"), "belongs to worker processes of this machine"),
        (("--minutes", "9", "--workers", "0"), "belongs to worker processes of this machine"),
        (("--minutes", "9", "--executor", "slurm"), "write --slurm timeout_min=9"),
        (("--learn-from", "nowhere", "--dry-run"), "--learn-from nowhere does not exist"),
    ],
)
def test_a_limit_that_nobody_would_keep_is_refused(tmp_path: Path, toys: None, args: tuple[str, ...], why: str) -> None:  # noqa: F811
    with pytest.raises(UserError, match=why):
        call("toy", "--out", str(tmp_path / "runs"), *args)
    assert not (tmp_path / "runs").exists()


def test_a_dry_run_says_what_its_times_are_learnt_from(tmp_path: Path, toys: None) -> None:  # noqa: F811
    call("toy", *here(tmp_path / "before"), "--seeds", "1")
    pack(tmp_path / "before", tmp_path / "known" / "toy.jsonl.xz")
    told = call("toy", "--out", str(tmp_path / "runs"), "--dry-run", "--learn-from", str(tmp_path / "known")).stdout
    assert "Times: original, lean by 1 finished run of the same arm." in told
    assert "Finished runs to learn from: " in told
    assert "toy.jsonl.xz (2)." in told
    assert "side by side; " in told
    without = call("toy", "--out", str(tmp_path / "runs"), "--dry-run").stdout
    assert "Times: original, lean by their operations and layers alone." in without
    assert "learn from" not in without
    assert not (tmp_path / "runs").exists()


def test_what_is_left_of_a_run_that_has_begun_is_told_by_its_own_speed(tmp_path: Path) -> None:
    (job,) = jobs(tmp_path, tiny(1000, arms=1))
    run = Run.create(job.path, job.spec)
    fresh = _expected(Forecast(job, False, 1, steps=1000, seconds=80.0), 5.0, 0.5)
    assert fresh == ExpectedTime(165.0, 5.0)
    run.timings.append({"step": 600, "seconds": 30.0, "rate": 1.0})
    (job.path / "checkpoint" / "step-00000500").mkdir(parents=True)
    begun = _expected(Forecast(job, False, 1, steps=1000, seconds=80.0), 5.0, 0.5)
    assert begun == ExpectedTime(30.0, 5.0, begun=True)  # 500 steps of 0.05 s, and what is not training
