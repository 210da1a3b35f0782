"""A sweep does every run once, whatever is killed on the way, and hides no failure."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from manyheads.runs import Run
from manyheads.spec.errors import UserError
from manyheads.sweep.jobs import Job, Outcome, QuietView, line, progress
from manyheads.sweep.local import run
from manyheads.sweep.remote import RemoteRun
from manyheads.sweep.worker import TRIES, Deaths, Worker
from tests.specs import changed, run_spec

from . import killing
from .killing import begun, environment, latest, measurements, trainer, wait_for
from .tiny import jobs, tiny

LONG = 100_000  # steps: never finished in a test


def test_workers_and_this_process_give_the_same_numbers_to_the_bit(tmp_path: Path) -> None:
    import torch

    here, there = jobs(tmp_path / "here", tiny()), jobs(tmp_path / "there", tiny())
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        assert [outcome.fate for outcome in run(here, device="cpu", look=QuietView())] == ["done", "done"]
    finally:
        torch.set_num_threads(threads)
    assert [outcome.fate for outcome in run(there, workers=2, device="cpu", look=QuietView())] == ["done", "done"]
    for one, other in zip(here, there, strict=True):
        assert measurements(one.path) == measurements(other.path)
        assert Run.open(one.path).id == Run.open(other.path).id


def test_finished_runs_are_skipped_and_left_as_they_are(tmp_path: Path) -> None:
    wanted = jobs(tmp_path, tiny())
    run(wanted[:1], device="cpu", look=QuietView())
    before = {file: file.read_bytes() for file in wanted[0].path.rglob("*") if file.is_file()}
    outcomes = run(wanted, device="cpu", look=QuietView())
    assert [outcome.fate for outcome in outcomes] == ["skipped", "done"]
    assert {file: file.read_bytes() for file in wanted[0].path.rglob("*") if file.is_file()} == before


def test_a_failed_run_stops_no_other_and_is_told(tmp_path: Path) -> None:
    wanted = jobs(tmp_path, tiny())
    spec = wanted[0].spec
    wild = run_spec(spec.arch, spec.task, changed(spec.recipe, lr=1e6, clip=0.0, explode=2.0), 0)
    nowhere = {"is": "Images", "data": "fashion_mnist_full"}
    lost = run_spec(spec.arch, nowhere, spec.recipe, 0)
    outcomes = run(
        [Job(tmp_path / "wild", wild), Job(tmp_path / "lost", lost), wanted[1]],
        workers=1,
        device="cpu",
        root=tmp_path,
        look=QuietView(),
    )
    assert [outcome.fate for outcome in outcomes] == ["failed", "failed", "done"]
    assert "loss of step" in outcomes[0].message
    assert Run.open(tmp_path / "wild").state == "failed"
    assert "Fashion-MNIST is not at" in outcomes[1].message
    assert outcomes[0].message in (tmp_path / "wild" / "log.txt").read_text()


def test_workers_killed_with_minus_9_are_replaced_and_their_run_ends_as_if_nothing_had_been(
    tmp_path: Path, quiet: tuple[bytes, bytes]
) -> None:
    (job,) = killing.wanted(tmp_path)
    deaths: list[str] = []

    def kill() -> None:
        for _ in range(TRIES):
            wait_for(lambda: begun(job) and latest(job) not in deaths)
            deaths.append(latest(job))
            os.kill(trainer(job), signal.SIGKILL)
            wait_for(lambda: Run.open(job.path).state == "stopped")

    killer = threading.Thread(target=kill)
    killer.start()
    (outcome,) = run([job], workers=1, device="cpu", look=QuietView())
    killer.join()
    assert len(deaths) == TRIES
    assert outcome.fate == "done", outcome.message
    assert measurements(job.path) == quiet
    assert (job.path / "log.txt").read_text().count("resuming from step") == TRIES


@pytest.mark.parametrize("remote", [False, True])
def test_a_run_whose_workers_die_without_a_new_checkpoint_is_given_up(tmp_path: Path, remote: bool) -> None:
    (job,) = killing.wanted(tmp_path)
    Run.create(job.path, job.spec)
    deaths: set[int] = set()
    over = threading.Event()

    def kill() -> None:
        while not over.wait(0.01):
            for pid in killing.offspring(os.getpid()) - deaths:
                if "manyheads.sweep.worker" in killing.name(pid):
                    deaths.add(pid)
                    os.kill(pid, signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        if remote:
            answer = RemoteRun(str(job.path), "cpu", None, 1).train()
        else:
            (outcome,) = run([job], workers=1, device="cpu", look=QuietView())
            answer = {"fate": outcome.fate, "message": outcome.message}
    finally:
        over.set()
        killer.join()
    assert answer["fate"] == "failed"
    assert f"was killed by SIGKILL, {TRIES} times without a new checkpoint" in answer["message"]
    assert len(deaths) == TRIES


def test_deaths_are_counted_from_the_newest_checkpoint_on(tmp_path: Path) -> None:
    deaths = Deaths(tmp_path)
    answers = []
    for step in (0, 5, 5, 10, 7, 10):
        (tmp_path / "checkpoint" / f"step-{step:08d}").mkdir(parents=True, exist_ok=True)
        answers.append(deaths.again())
    assert answers == [True, True, True, True, True, False]


def test_a_worker_that_finds_its_run_in_use_has_not_failed(tmp_path: Path) -> None:
    (job,) = jobs(tmp_path, tiny(arms=1))
    elsewhere, worker = Run.create(job.path, job.spec), Worker(1)
    with elsewhere.locked():
        worker.give(job.path, "cpu", None, 1)
        answer = worker.answer()
    worker.dismiss()
    assert answer is not None
    assert answer["fate"] == "busy"


SWEEP = """
import sys
from pathlib import Path
from manyheads.sweep.local import Interrupted, run
from tests.sweep.tiny import jobs, tiny
try:
    run(jobs(Path(sys.argv[1]), tiny(int(sys.argv[2]))), workers=2, device="cpu")
except Interrupted as stop:
    print(stop, file=sys.stderr)
    sys.exit(stop.code)
"""


def start(root: Path, steps: int) -> subprocess.Popen[str]:
    """A sweep in a process of its own."""
    command = [sys.executable, "-c", SWEEP, str(root), str(steps)]
    return subprocess.Popen(command, text=True, stderr=subprocess.PIPE, env=environment())


@pytest.mark.slow  # 13 s of CPU each: two workers and a process that starts them; a killed one is below
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["SIGINT", "SIGTERM"])
def test_asked_to_stop_it_saves_every_run_and_says_how_to_go_on(tmp_path: Path, number: int, code: int) -> None:
    sweep = start(tmp_path, LONG)
    wanted = jobs(tmp_path, tiny(LONG))
    wait_for(lambda: all(begun(job) for job in wanted))
    sweep.send_signal(number)
    _, told = sweep.communicate(timeout=60)
    assert sweep.returncode == code, told
    assert "the same command resumes them" in told
    assert [Run.open(job.path).state for job in wanted] == ["stopped", "stopped"]


def test_workers_of_a_killed_sweep_save_and_stop(tmp_path: Path) -> None:
    sweep = start(tmp_path, LONG)
    wanted = jobs(tmp_path, tiny(LONG))
    wait_for(lambda: all(begun(job) for job in wanted))
    sweep.kill()
    sweep.communicate(timeout=60)
    wait_for(lambda: [Run.open(job.path).state for job in wanted] == ["stopped", "stopped"])
    assert all((Run.open(job.path).status or {})["state"] == "stopped" for job in wanted)  # saved, and not cut off


def test_mistakes_are_told_before_the_first_run_starts(tmp_path: Path) -> None:
    wanted = jobs(tmp_path, tiny())
    with pytest.raises(UserError, match="two runs"):
        run([wanted[0], replace(wanted[1], path=wanted[0].path)], look=QuietView())
    with pytest.raises(UserError, match="workers"):
        run(wanted, workers=-1, look=QuietView())
    Run.create(wanted[1].path, wanted[0].spec)
    with pytest.raises(UserError, match="holds another run"):
        run(wanted, look=QuietView())
    assert Run.open(wanted[0].path).state == "new"


@pytest.mark.parametrize("workers", [0, 1])
def test_a_run_that_another_process_has_is_waited_for_and_not_trained_twice(
    tmp_path: Path, workers: int, capfd: pytest.CaptureFixture[str]
) -> None:
    (job,) = jobs(tmp_path, tiny(arms=1))
    elsewhere = Run.create(job.path, job.spec)
    heard: list[str] = []

    def finish() -> None:
        with elsewhere.locked():
            started.set()
            wait_for(lambda: heard.append(capfd.readouterr().err) or "waiting until it ends" in "".join(heard))
            elsewhere.finish({"better": ["top1", "up"], "score": {"top1": 0.5}})

    started = threading.Event()
    other = threading.Thread(target=finish)
    other.start()
    started.wait()
    (outcome,) = run([job], workers=workers, device="cpu", look=QuietView())
    other.join()
    assert f"{job.path} is in use by another process" in "".join(heard)
    assert outcome.fate == "done"
    assert Run.open(job.path).result == {"better": ["top1", "up"], "score": {"top1": 0.5}}
    assert not (job.path / "metrics.jsonl").exists()


def test_progress_is_read_from_the_status_alone(tmp_path: Path) -> None:
    job = jobs(tmp_path, tiny(arms=1))[0]
    made = Run.create(job.path, job.spec)
    assert progress(job) == (0.0, "")
    made.write_status(state="running", step=3, total=12, progress=0.25)
    assert progress(job) == (0.25, "step 3/12")


@pytest.mark.parametrize(("steps", "doing"), [(12, "training"), (0, "measuring")])
def test_a_finished_run_is_told_in_a_line(tmp_path: Path, steps: int, doing: str) -> None:
    (job,) = jobs(tmp_path, tiny(arms=1))
    result = {"better": ["top1", "up"], "score": {"top1": 0.25}, "steps": steps, "timing": {"seconds": 3.4}}
    Run.create(job.path, job.spec).finish(result)
    assert line(Outcome(job, "done")) == f"demo-smoke/original-s0: done, top1 0.25, 3 s of {doing}"
    assert line(Outcome(job, "skipped")) == "demo-smoke/original-s0: finished before, skipped"
    assert line(Outcome(job, "failed", "why")) == "demo-smoke/original-s0: failed: why"
