"""Runs on a Ray cluster: workers, tasks and the driver are killed, and nothing is lost, to the bit."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from manyheads.runs import Run
from manyheads.spec.errors import UserError
from manyheads.sweep.jobs import Job, QuietView
from manyheads.sweep.ray import cluster, run
from tests.specs import run_spec

from .company import Company, check_alone, mixed
from .killing import STEPS, begun, environment, latest, measurements, name, offspring, parent, trainer, wait_for, wanted

LONG = 100_000  # steps: never finished in a test
DRIVER = """
import sys
from pathlib import Path
from manyheads.sweep.local import Interrupted
from manyheads.sweep.ray import run
from tests.sweep.killing import wanted
try:
    run(wanted(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])), workers=2, device="cpu")
except Interrupted as stop:
    print(stop, file=sys.stderr)
    sys.exit(stop.code)
"""


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    """Where Ray may write: a short path, since there are sockets in it."""
    folder = Path(tempfile.mkdtemp(prefix="ray"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def ray(place: Path) -> Iterator[Any]:
    """A real cluster of two CPUs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("RAY_ADDRESS", raising=False)
        patch.setenv("RAY_TMPDIR", str(place))
        with cluster(2, 1) as connected:
            yield connected


def driver(root: Path, steps: int, arms: int, place: Path, address: str = "") -> subprocess.Popen[str]:
    """A sweep in a process of its own, on the cluster at `address` or on one of its own."""
    command = [sys.executable, "-c", DRIVER, str(root), str(steps), str(arms)]
    env = environment(RAY_TMPDIR=str(place), RAY_ADDRESS=address)
    return subprocess.Popen(command, text=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=env)


def test_a_task_and_a_worker_are_killed_and_started_again_and_no_number_changes(
    tmp_path: Path, ray: Any, quiet: tuple[bytes, bytes]
) -> None:
    (job,) = wanted(tmp_path)
    deaths: list[str] = []

    def kill() -> None:
        wait_for(lambda: begun(job))
        first = trainer(job)
        deaths.append(name(parent(first)))
        os.kill(parent(first), signal.SIGKILL)  # Ray's process; the one that trains notices, saves and stops
        wait_for(lambda: begun(job) and trainer(job) != first)
        saved = latest(job)
        wait_for(lambda: latest(job) > saved)
        deaths.append(name(trainer(job)))
        os.kill(trainer(job), signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    (outcome,) = run([job], workers=2, device="cpu", look=QuietView())
    killer.join()
    assert deaths[0].startswith("ray::")
    assert "manyheads.sweep.worker" in deaths[1]
    assert outcome.fate == "done", outcome.message
    assert measurements(job.path) == quiet
    assert (job.path / "log.txt").read_text().count("resuming from step") == 2


def test_a_killed_driver_is_started_again_and_no_number_changes(
    tmp_path: Path, ray: Any, place: Path, quiet: tuple[bytes, bytes]
) -> None:
    (job,) = wanted(tmp_path)
    first = driver(tmp_path, STEPS, 1, place, ray.get_runtime_context().gcs_address)
    wait_for(lambda: begun(job) or first.poll() is not None)
    first.kill()
    _, told = first.communicate(timeout=60)
    assert Run.open(job.path).result is None, f"it was faster than its killer: {told}"
    (outcome,) = run([job], workers=2, device="cpu", look=QuietView())
    assert outcome.fate == "done", outcome.message
    assert measurements(job.path) == quiet
    assert "resuming from step" in (job.path / "log.txt").read_text()
    assert [again.fate for again in run([job], look=QuietView())] == ["skipped"]


@pytest.mark.slow  # 13 s of CPU for what the other executors show, too
def test_a_failed_run_stops_no_other_and_is_told(tmp_path: Path, ray: Any) -> None:
    good = wanted(tmp_path)[0]
    elsewhere = run_spec(good.spec.arch, {"is": "Images", "data": "fashion_mnist_full"}, good.spec.recipe, 0)
    lost = Job(tmp_path / "lost", elsewhere)
    outcomes = run([lost, good], workers=1, device="cpu", root=tmp_path, look=QuietView())
    assert [outcome.fate for outcome in outcomes] == ["failed", "done"]
    assert "Fashion-MNIST is not at" in outcomes[0].message


def test_runs_that_are_alone_have_nothing_beside_them(tmp_path: Path, ray: Any) -> None:
    wanted, seen = mixed(tmp_path), Company()
    assert [outcome.fate for outcome in run(wanted, workers=2, device="cpu", look=seen)] == ["done"] * 4
    check_alone(wanted, seen)


def test_a_gpu_that_the_cluster_does_not_have_is_refused(tmp_path: Path, ray: Any) -> None:
    if ray.cluster_resources().get("GPU"):
        pytest.skip("this machine has a GPU")
    with pytest.raises(UserError, match="the Ray cluster has no GPU"):
        run(wanted(tmp_path), device="cuda", look=QuietView())
    with pytest.raises(UserError, match="write --device cuda"):
        run(wanted(tmp_path), device="cuda:1", look=QuietView())
    with pytest.raises(UserError, match="write 1 or more"):
        run(wanted(tmp_path), workers=0, look=QuietView())


def test_without_ray_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(UserError, match=r"pip install 'manyheads\[sweep\]'"):
        run(wanted(tmp_path), look=QuietView())
    assert Run.open(wanted(tmp_path)[0].path).state == "new"


@pytest.mark.slow  # 16 s of CPU each: a cluster of its own
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL], ids=lambda number: number.name)
def test_a_driver_with_a_cluster_of_its_own_saves_and_leaves_nothing_behind(
    tmp_path: Path, place: Path, number: signal.Signals
) -> None:
    process = driver(tmp_path, LONG, 2, place)
    both = wanted(tmp_path, LONG, 2)
    wait_for(lambda: all(begun(job) for job in both) or process.poll() is not None, 300)
    own = offspring(process.pid)
    process.send_signal(number)
    _, told = process.communicate(timeout=120)
    assert process.returncode == (-number if number == signal.SIGKILL else 128 + number), told
    try:
        wait_for(lambda: [Run.open(job.path).state for job in both] == ["stopped", "stopped"])
        assert [(Run.open(job.path).status or {})["state"] for job in both] == [
            "stopped",
            "stopped",
        ]  # saved, not cut off
        if number != signal.SIGKILL:
            assert "the same command resumes them" in told
        # Ray's agents outlive a killed driver by a minute
        wait_for(lambda: not any(name(pid) for pid in own if not name(pid).startswith("ray::")), 60)
    finally:
        for pid in own:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
