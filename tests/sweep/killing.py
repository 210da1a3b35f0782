"""What the tests of the executors share: when a run has begun, which processes train it, and what must come out."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from manyheads.runs import Run
from manyheads.sweep.jobs import Job, QuietView
from manyheads.sweep.local import run

from .tiny import jobs, tiny

STEPS, EVERY = 160, 20
TOP = Path(__file__).resolve().parents[2]


def wanted(root: Path, steps: int = STEPS, arms: int = 1) -> list[Job]:
    """A run, or one of each arm, with many checkpoints."""
    return jobs(root, tiny(steps, arms, checkpoint_every=EVERY))


def measurements(path: Path) -> tuple[bytes, bytes]:
    """What two equal runs have equal to the bit."""
    return (path / "metrics.jsonl").read_bytes(), (path / "spectra.jsonl").read_bytes()


def undisturbed(wanted: Sequence[Job]) -> list[tuple[bytes, bytes]]:
    """The measurements of runs that nobody kills, trained in this process with one thread."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        assert {outcome.fate for outcome in run(wanted, device="cpu", look=QuietView())} == {"done"}
    finally:
        torch.set_num_threads(threads)
    return [measurements(job.path) for job in wanted]


def wait_for(true: Callable[[], bool], seconds: float = 120.0) -> None:
    """Wait until something is so."""
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "it never came to be so"
        time.sleep(0.02)


def latest(job: Job) -> str:
    """The newest checkpoint of a run, if there is one."""
    return max((path.name for path in (job.path / "checkpoint").glob("step-????????")), default="")


def begun(job: Job) -> bool:
    """Whether a run is being trained and has a checkpoint."""
    return latest(job) != "" and Run.open(job.path).state == "running"


def trainer(job: Job) -> int:
    """The process that trains a run."""
    return int(json.loads((job.path / "lock").read_text())["pid"])


def parent(pid: int) -> int:
    """The process that started a process."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def name(pid: int) -> str:
    """What a process calls itself; nothing where there is none, or only its remains."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode().strip()
    except OSError:
        return ""


def offspring(pid: int) -> set[int]:
    """All processes that a process started, and theirs."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError, ValueError):
                children.setdefault(parent(int(entry.name)), []).append(int(entry.name))
    found: set[int] = set()
    waiting = [pid]
    while waiting:
        new = children.get(waiting.pop(), [])
        found.update(new)
        waiting += new
    return found


def environment(**more: str) -> dict[str, str]:
    """For a process that imports the tests, too."""
    path = os.pathsep.join(filter(None, [str(TOP), os.environ.get("PYTHONPATH", "")]))
    return os.environ | {"PYTHONPATH": path} | more
