"""A list of runs to do, what became of each, and who looks on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from manyheads.runs import Run, RunSpec

Fate = Literal["done", "skipped", "failed", "stopped"]


@dataclass(frozen=True)
class Job:
    """One run and the folder it belongs in."""

    path: Path
    spec: RunSpec


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


def prepare(jobs: Sequence[Job]) -> list[Run]:
    """Make or open every run folder before the first run starts: a mistake in the last one is told at once."""
    return [Run.create(job.path, job.spec) for job in jobs]
