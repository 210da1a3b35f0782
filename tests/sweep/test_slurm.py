"""Runs as Slurm jobs: saved and queued again when their time is up, found again by a second call. submitit's local
executor, and, for what only Slurm has, a folder of commands that behave as Slurm's do."""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from manyheads.runs import Run
from manyheads.spec.errors import UserError
from manyheads.sweep import slurm
from manyheads.sweep.jobs import Job, QuietView
from manyheads.sweep.slurm import NOTE, run

from .company import Company, check_alone, mixed, on_device
from .killing import begun, environment, measurements, name, parent, trainer, undisturbed, wait_for, wanted
from .pretend_slurm import commands, install, submitted

DRIVER = """
import sys
from pathlib import Path
from manyheads.sweep.local import Interrupted
from manyheads.sweep.slurm import run
from tests.sweep.killing import wanted
root = Path(sys.argv[1])
try:
    done = run(wanted(root, arms=2), root / ".slurm", device="cpu", options={"partition": "gpu"})
    print(*(outcome.fate for outcome in done))
except Interrupted as stop:
    print(stop, file=sys.stderr)
    sys.exit(stop.code)
"""


def test_when_its_time_is_up_a_run_is_saved_and_queued_again_and_no_number_changes(
    tmp_path: Path, quiet: tuple[bytes, bytes]
) -> None:
    (job,) = wanted(tmp_path / "asked")
    asked: list[str] = []

    def ask() -> None:
        wait_for(lambda: begun(job))
        for pid in (trainer(job), parent(trainer(job))):  # Slurm signals every process of a job
            asked.append(name(pid))
            os.kill(pid, signal.SIGUSR2)

    asking = threading.Thread(target=ask)
    asking.start()
    (outcome,) = run([job], tmp_path / ".slurm", cluster="local", device="cpu", look=QuietView())
    asking.join()
    assert "manyheads.sweep.worker" in asked[0]
    assert "submitit" in asked[1]
    assert outcome.fate == "done", outcome.message
    assert measurements(job.path) == quiet
    log = (job.path / "log.txt").read_text()
    assert log.count("resuming from step") == 1
    assert "resuming from step 0" not in log


def test_mistakes_are_told_before_anything_is_submitted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UserError, match="there is no Slurm on this machine"):
        run(wanted(tmp_path / "runs"), tmp_path / ".slurm", look=QuietView())
    with pytest.raises(UserError, match="cluster moon: write slurm, or local"):
        run(wanted(tmp_path / "runs"), tmp_path / ".slurm", cluster="moon", look=QuietView())
    with pytest.raises(UserError, match=r"not submitit's.*portition"):
        run(
            wanted(tmp_path / "runs"),
            tmp_path / ".slurm",
            cluster="local",
            options={"portition": "gpu"},
            look=QuietView(),
        )
    with pytest.raises(UserError, match="write 1 or more"):
        run(wanted(tmp_path / "runs"), tmp_path / ".slurm", workers=0, look=QuietView())
    monkeypatch.setitem(sys.modules, "submitit", None)
    with pytest.raises(UserError, match=r"pip install 'manyheads\[slurm\]'"):
        run(wanted(tmp_path / "runs"), tmp_path / ".slurm", look=QuietView())
    assert not (tmp_path / "runs").exists()


class Trap:
    """An object whose pickle makes a file where it is unpickled."""

    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self) -> Any:
        return Path.touch, (self.trace,)


STATES = "JobID|State|NodeList\\n"


@pytest.fixture
def idle_slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A Slurm that takes jobs, runs none, and says of each that it runs."""
    idle = 'echo "Submitted batch job 7"'
    folder = commands(tmp_path / "slurm", sbatch=idle, srun="", sacct=f"printf '{STATES}7|RUNNING|here\\n'")
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(slurm, "PAUSE", 0.01)
    monkeypatch.setattr(slurm, "LATE", 0.1)


NOTES = {
    "no field": {},
    "no job": {"schema": 1, "cluster": "slurm", "folder": "FOLDER"},
    "a number": {"schema": 1, "cluster": "slurm", "folder": "FOLDER", "job": 7},
    "a list": {"schema": 1, "cluster": "slurm", "folder": ["FOLDER"], "job": "7"},
    "nothing": {"schema": 1, "cluster": "slurm", "folder": None, "job": None},
    "an option": {"schema": 1, "cluster": "slurm", "folder": "FOLDER", "job": "7 --help"},
    "another folder": {"schema": 1, "cluster": "slurm", "folder": "/", "job": "7"},
    "no path": {"schema": 1, "cluster": "slurm", "folder": "\0", "job": "7"},
    "a huge number": {"schema": 10**400, "cluster": "slurm", "folder": "FOLDER", "job": "7"},
    "no JSON": "{",
    "no object": [7],
}


@pytest.mark.parametrize("name", NOTES)
def test_a_note_that_no_sweep_wrote_submits_the_run_again(tmp_path: Path, idle_slurm: None, name: str) -> None:
    (job,) = wanted(tmp_path / "runs")
    Run.create(job.path, job.spec)
    note = NOTES[name]
    text = note if isinstance(note, str) else json.dumps(note).replace("FOLDER", str(tmp_path / ".slurm"))
    (job.path / NOTE).write_text(text)

    class Answering(QuietView):
        """In place of a job that ends."""

        def look(self, running: Sequence[Job]) -> None:
            """The job has an answer, once it is submitted."""
            written = json.loads((job.path / NOTE).read_text())
            assert written["job"] == "7"
            (job.path / slurm.ANSWER).write_text('{"schema": 1, "fate": "failed", "message": "it was submitted"}')
            (Path(written["folder"]) / "7_0_result.pkl").touch()

    (outcome,) = run([job], tmp_path / ".slurm", device="cpu", look=Answering())
    assert (outcome.fate, outcome.message) == ("failed", "it was submitted")


@pytest.mark.parametrize("damage", ["a link", "for all", "for the group", "a file"])
def test_a_folder_in_which_others_can_put_orders_is_refused(tmp_path: Path, idle_slurm: None, damage: str) -> None:
    if damage == "a link":
        (tmp_path / "theirs").mkdir()
        (tmp_path / ".slurm").symlink_to(tmp_path / "theirs")
    elif damage.startswith("for "):
        (tmp_path / ".slurm").mkdir()
        (tmp_path / ".slurm").chmod(0o777 if damage == "for all" else 0o770)
    else:
        (tmp_path / ".slurm").touch()
    with pytest.raises(UserError, match=r"\.slurm"):
        run(wanted(tmp_path / "runs"), tmp_path / ".slurm", look=QuietView())
    assert not (tmp_path / "runs").exists()


def test_jobs_read_their_orders_from_a_new_folder_that_nobody_else_may_enter(tmp_path: Path, idle_slurm: None) -> None:
    (job,) = wanted(tmp_path / "runs")
    (tmp_path / ".slurm").mkdir(mode=0o700)
    (tmp_path / ".slurm" / "7_submitted.pkl").write_bytes(pickle.dumps(Trap(tmp_path / "ran")))

    class Ending(QuietView):
        """In place of a job that ends."""

        def look(self, running: Sequence[Job]) -> None:
            """The job has ended."""
            (new,) = (tmp_path / ".slurm").glob("jobs-*")
            assert (new / "7_submitted.pkl").exists()
            assert new.stat().st_mode & 0o777 == 0o700
            (new / "7_0_result.pkl").touch()

    run([job], tmp_path / ".slurm", device="cpu", look=Ending())
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("where", ["elsewhere", ".slurm"])
def test_the_answer_of_a_job_is_never_unpickled(tmp_path: Path, idle_slurm: None, where: str) -> None:
    """A run folder that somebody handed over names a job, and the folder in which that job will have its answer."""
    (job,) = wanted(tmp_path / "runs")
    Run.create(job.path, job.spec)
    (tmp_path / where).mkdir(mode=0o700)
    note = {"schema": 1, "cluster": "slurm", "folder": str(tmp_path / where), "job": "7"}
    (job.path / NOTE).write_text(json.dumps(note))

    class Both(QuietView):
        """A trap in the folder that was named, and in those of this sweep."""

        def look(self, running: Sequence[Job]) -> None:
            """Put it there."""
            for folder in (tmp_path / where, *(tmp_path / ".slurm").glob("jobs-*")):
                (folder / "7_0_result.pkl").write_bytes(pickle.dumps(("success", Trap(tmp_path / "ran"))))

    (outcome,) = run([job], tmp_path / ".slurm", device="cpu", look=Both())
    assert not (tmp_path / "ran").exists()
    assert outcome.fate == "failed"
    assert "job 7 ended without an answer" in outcome.message


def test_runs_that_are_alone_have_nothing_beside_them(tmp_path: Path) -> None:
    wanted, seen = mixed(tmp_path / "runs"), Company()
    outcomes = run(wanted, tmp_path / ".slurm", cluster="local", workers=2, device="cpu", look=seen)
    assert [outcome.fate for outcome in outcomes] == ["done"] * 4
    check_alone(wanted, seen)


def test_slurm_gives_a_run_that_is_alone_a_node_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{install(tmp_path / 'slurm')}{os.pathsep}{os.environ['PATH']}")
    both = mixed(tmp_path / "runs")[1:3]
    outcomes = run(both, tmp_path / ".slurm", device="cpu", look=QuietView())
    assert [outcome.fate for outcome in outcomes] == ["done"] * 2
    assert ["#SBATCH --exclusive" in script for script in submitted(tmp_path / "slurm")] == [False, True]
    assert on_device(both) == [1, None]  # nobody knows what else runs on a node that is not a run's own


@pytest.mark.slow  # 20 s of CPU: five processes that each load PyTorch
def test_a_driver_that_ends_leaves_its_jobs_and_the_next_one_finds_them(tmp_path: Path) -> None:
    quiet = undisturbed(wanted(tmp_path / "quiet", arms=2))
    both = wanted(tmp_path / "runs", arms=2)
    env = environment(PATH=f"{install(tmp_path / 'slurm')}{os.pathsep}{os.environ['PATH']}")
    command = [sys.executable, "-c", DRIVER, str(tmp_path / "runs")]
    first = subprocess.Popen(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env)
    wait_for(lambda: all(begun(job) for job in both) or first.poll() is not None)
    first.send_signal(signal.SIGTERM)
    _, told = first.communicate(timeout=60)
    assert first.returncode == 143, told
    assert "2 jobs stay with Slurm" in told
    assert all((job.path / NOTE).is_file() for job in both)
    second = subprocess.run(command, text=True, capture_output=True, env=env, timeout=300)
    assert second.stdout.split() == ["done", "done"], second.stderr
    assert [measurements(job.path) for job in both] == quiet
    (script,) = submitted(tmp_path / "slurm")  # one array, submitted once
    assert "#SBATCH --array=0-1%2" in script
    assert "#SBATCH --partition=gpu" in script
    assert "#SBATCH --signal=USR2@" in script


@pytest.mark.slow  # 30 s of CPU: six processes that each load PyTorch
def test_a_preempted_job_is_queued_again_and_a_cancelled_one_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    quiet = undisturbed(wanted(tmp_path / "quiet", arms=2))
    preempted, cancelled = both = wanted(tmp_path / "runs", arms=2)
    monkeypatch.setenv("PATH", f"{install(tmp_path / 'slurm')}{os.pathsep}{os.environ['PATH']}")

    def preempt() -> None:
        wait_for(lambda: begun(preempted))
        pids = (trainer(preempted), parent(trainer(preempted)))
        for number in (signal.SIGTERM, signal.SIGUSR2):  # as Slurm does before it takes a node away
            for pid in pids:
                os.kill(pid, number)

    def cancel() -> None:
        wait_for(lambda: begun(cancelled))
        task = parent(trainer(cancelled))
        os.kill(trainer(cancelled), signal.SIGTERM)
        wait_for(lambda: Run.open(cancelled.path).state == "stopped")
        os.kill(task, signal.SIGKILL)

    threads = [threading.Thread(target=do) for do in (preempt, cancel)]
    for thread in threads:
        thread.start()
    outcomes = run(both, tmp_path / ".slurm", device="cpu", look=QuietView())
    for thread in threads:
        thread.join()
    assert [outcome.fate for outcome in outcomes] == ["done", "stopped"], outcomes
    assert "ended without an answer" in outcomes[1].message
    assert [outcome.fate for outcome in run(both, tmp_path / ".slurm", device="cpu", look=QuietView())] == [
        "skipped",
        "done",
    ]
    assert [measurements(job.path) for job in both] == quiet
