"""Asked to stop, a run stops cleanly; gone wrong, it says at which step."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from manyheads.runs import Run
from manyheads.train.early_end import Diverged
from manyheads.train.loop import train
from tests.train.tiny import run_here, spawn, spec, steps, traces
from tests.train.workers import train_alone

MADE = spec(basis=steps(80), checkpoint_every=0, ema=0.9)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_saves_and_exits_and_the_rest_is_the_same(number: int, code: int, tmp_path: Path) -> None:
    run_here(tmp_path / "whole", MADE)
    folder = tmp_path / "run"
    process = spawn(train_alone, str(folder), MADE.to_dict())
    while not (folder / "metrics.jsonl").exists():
        time.sleep(0.002)
    assert process.pid is not None
    os.kill(process.pid, number)
    process.join(180)
    assert process.exitcode == code
    run = Run.open(folder)
    assert run.state == "stopped"
    assert run.status is not None
    assert (run.checkpoints / f"step-{run.status['step']:08d}").is_dir()
    run_here(folder, MADE)
    assert traces(folder) == traces(tmp_path / "whole")


def test_on_a_budget_of_seconds_a_stopped_run_keeps_its_trace_and_its_time(tmp_path: Path) -> None:
    made = spec(
        basis={"kind": "seconds", "amount": 1.5}, checkpoint_every=0, probe_every=0, evaluate_every=0, log_every=1
    )
    folder = tmp_path / "run"
    process = spawn(train_alone, str(folder), made.to_dict())
    while not (folder / "metrics.jsonl").exists() or (folder / "metrics.jsonl").stat().st_size < 2000:
        time.sleep(0.002)
    assert process.pid is not None
    os.kill(process.pid, signal.SIGTERM)
    process.join(180)
    assert process.exitcode == 143
    run = Run.open(folder)
    before, spent = run.metrics.path.read_bytes(), run.timings.read()[-1]["seconds"]
    result = run_here(folder, made)
    assert run.metrics.path.read_bytes().startswith(before)
    seconds = [record["seconds"] for record in run.timings.read()]
    assert seconds == sorted(seconds)
    assert 1.5 <= result["timing"]["seconds"] < 1.5 + spent


@pytest.mark.parametrize(("lr", "words"), [(1e30, "nan"), (30.0, "above 4.15888")])
def test_a_loss_that_went_wrong_stops_with_its_step(lr: float, words: str, tmp_path: Path) -> None:
    made = spec(lr=lr, clip=0.0, explode=3.0, schedule={"kind": "constant"}, checkpoint_every=2, log_every=7)
    run = Run.create(tmp_path / "run", made)
    with pytest.raises(Diverged, match=words) as caught:
        train(run, device="cpu", progress="none")
    assert run.state == "failed"
    assert run.status is not None
    assert run.status["step"] == caught.value.step
    assert f"step {caught.value.step}" in run.status["message"]
    last = run.metrics.read()[-1]
    assert (last["kind"], last["step"]) == ("diverged", caught.value.step)
    saved = [int(path.name.removeprefix("step-")) for path in run.checkpoints.glob("step-*")]
    assert all(step <= caught.value.step for step in saved)


def test_a_failed_run_can_be_tried_again_and_fails_at_the_same_step(tmp_path: Path) -> None:
    run = Run.create(tmp_path / "run", spec(lr=1e30, clip=0.0, schedule={"kind": "constant"}))
    told = []
    for _ in range(2):
        with pytest.raises(Diverged) as caught:
            train(run, device="cpu", progress="none")
        told.append((caught.value.step, run.metrics.path.read_bytes()))
    assert told[0] == told[1]
