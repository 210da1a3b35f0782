"""A list of runs to do, what became of each, and who looks on."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from manyheads.runs import Run, RunSpec
from manyheads.spec.errors import UserError

Fate = Literal["done", "skipped", "failed", "stopped"]
LOOK = 0.2  # seconds between two looks, at which Python hears signals


@dataclass(frozen=True)
class Job:
    """One run and the folder it belongs in. One that is `alone` measures time: nothing else may run beside it."""

    path: Path
    spec: RunSpec
    alone: bool = False


@dataclass(frozen=True)
class Outcome:
    """What became of a job: done now, skipped since it was done before, failed, or stopped before its end."""

    job: Job
    fate: Fate
    message: str = ""


class Viewer(Protocol):
    """Somebody who looks on while jobs run."""

    def begin(self, jobs: Sequence[Job]) -> None:
        """These are the jobs."""

    def look(self, running: Sequence[Job]) -> None:
        """These run at this moment; called several times a second."""

    def ended(self, outcome: Outcome) -> None:
        """One job is over."""

    def close(self) -> None:
        """All are."""


def wait_for_others(folder: Path | str, asked: Callable[[], bool]) -> None:
    """Until nobody else trains a run folder, or this process is `asked` to stop: the worker of a sweep that was killed
    is still saving, or the same run was started twice."""
    said = False
    while Run.open(folder).state == "running" and not asked():
        if not said:
            print(f"{folder} is in use by another process; waiting until it ends", file=sys.stderr, flush=True)
            said = True
        time.sleep(LOOK)


def prepare(jobs: Sequence[Job]) -> list[Run]:
    """Make or open every run folder before the first run starts: a mistake in the last one is told at once."""
    paths = [job.path.resolve() for job in jobs]
    if len(set(paths)) < len(paths):
        twice = next(path for path in paths if paths.count(path) > 1)
        raise UserError(f"{twice} was given to two runs; give each a folder of its own")
    return [Run.create(job.path, job.spec) for job in jobs]


def carry_out(jobs: Sequence[Job], look: Viewer, work: Callable[[list[int]], dict[int, Outcome]]) -> list[Outcome]:
    """What every executor does around its own `work`, which is given the numbers of the jobs that are not finished."""
    runs = prepare(jobs)
    look.begin(jobs)
    try:
        found = {i: Outcome(jobs[i], "skipped") for i, made in enumerate(runs) if made.result is not None}
        for outcome in found.values():
            look.ended(outcome)
        found |= work([i for i in range(len(jobs)) if i not in found])
    finally:
        look.close()
    return [found[i] for i in range(len(jobs))]
