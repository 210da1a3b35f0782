"""Jobs: runs to be trained in their folders, what became of each, and what people see meanwhile.

A terminal has a bar for each run in progress and one for all; elsewhere there are plain lines."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol, cast

from manyheads.runs import Run, RunFolder, RunSpec
from manyheads.spec.errors import UserError

Fate = Literal["done", "skipped", "failed", "stopped", "busy", "left"]
LOOK = 0.2  # seconds between two looks at a run; in between Python handles signals
SELDOM = 15.0  # seconds between two plain lines about runs in progress


@dataclass(frozen=True)
class Job:
    """One run and the folder it belongs in. Of one that is `alone` time counts: nothing else may run beside it. One that
    is `packed` is finished in a pack, and gets no folder."""

    path: Path
    spec: RunSpec
    alone: bool = False
    packed: RunFolder | None = None


@dataclass(frozen=True)
class Outcome:
    """What became of a job: done now, skipped since it was done before, failed, stopped before its end, or left because
    the time was up. A worker that finds its run in use by another process answers `busy`; the run is then waited for, and
    nobody is told."""

    job: Job
    fate: Fate
    message: str = ""


def outcome(job: Job, answer: dict[str, str]) -> Outcome:
    """What became of a job by the answer of its worker."""
    return Outcome(job, cast(Fate, answer["fate"]), answer["message"])


class Viewer(Protocol):
    """What people see while jobs run."""

    def begin(self, jobs: Sequence[Job]) -> None:
        """Show all jobs, before the first starts."""

    def look(self, running: Sequence[Job]) -> None:
        """Show the jobs that run at this moment; called several times a second."""

    def ended(self, outcome: Outcome) -> None:
        """Show a job that has ended."""

    def close(self) -> None:
        """End, after the last job or an error."""


def wait_for_others(folder: Path | str, asked: Callable[[], bool]) -> None:
    """Return when no other process trains a run folder, or this one is `asked` to stop. The worker of a sweep that was
    killed may still be saving, or the same run was started twice."""
    said = False
    while Run.open(folder).state == "running" and not asked():
        if not said:
            print(f"{folder} is in use by another process; waiting until it ends", file=sys.stderr, flush=True)
            said = True
        time.sleep(LOOK)


def prepare(jobs: Sequence[Job]) -> list[Run | None]:
    """Make or open every run folder before the first run starts, so that a mistake in the last is reported at once. A
    run that is packed has none."""
    paths = [os.path.realpath(job.path) for job in jobs]
    if len(set(paths)) < len(paths):
        twice = next(path for path in paths if paths.count(path) > 1)
        raise UserError(f"{twice} was given to two runs; give each a folder of its own")
    return [None if job.packed is not None else Run.create(job.path, job.spec) for job in jobs]


def phases(jobs: Sequence[Job], waiting: Sequence[int]) -> list[tuple[list[int], bool]]:
    """The numbers of the jobs that may share a device, and then those of the jobs that are alone, each with whether
    they are alone; a part without jobs is left out."""
    parts = [([i for i in waiting if jobs[i].alone is alone], alone) for alone in (False, True)]
    return [part for part in parts if part[0]]


def carry_out(jobs: Sequence[Job], look: Viewer, work: Callable[[list[int]], dict[int, Outcome]]) -> list[Outcome]:
    """What every executor does around its own `work`, which takes the numbers of the jobs that are not finished."""
    runs = prepare(jobs)
    look.begin(jobs)
    try:
        finished = [(i, run) for i, run in enumerate(runs) if run is None or run.result is not None]
        outcomes = {i: Outcome(jobs[i], "skipped") for i, _ in finished}
        for i, run in finished:
            if run is not None:
                run.drop_checkpoints()
            look.ended(outcomes[i])
        outcomes |= work([i for i in range(len(jobs)) if i not in outcomes])
    finally:
        look.close()
    return [outcomes[i] for i in range(len(jobs))]


def progress(job: Job) -> tuple[float, str]:
    """How far a run has come, from 0 to 1 and in words, by its status alone."""
    status = Run.open(job.path).status or {}
    step, total = status.get("step"), status.get("total")
    share = status.get("progress")
    words = "" if step is None else f"step {step}" if total is None else f"step {step}/{total}"
    return float(share) if isinstance(share, int | float) else 0.0, words


def line(outcome: Outcome) -> str:
    """One line about a run that has ended."""
    name = f"{outcome.job.path.parent.name}/{outcome.job.path.name}"
    if outcome.fate == "skipped":
        return f"{name}: finished before, skipped"
    if outcome.fate == "done":
        result = Run.open(outcome.job.path).result or {}
        metric, seconds = result.get("better", [""])[0], result.get("timing", {}).get("seconds")
        value = result.get("score", {}).get(metric)
        score = "" if value is None else f", {metric} {value:.4g}"
        doing = "training" if result.get("steps") else "measuring"
        return f"{name}: done{score}" + ("" if seconds is None else f", {seconds:.0f} s of {doing}")
    return f"{name}: {outcome.fate}" + (f": {outcome.message}" if outcome.message else "")


class QuietView:
    """A view that shows nothing."""

    def begin(self, jobs: Sequence[Job]) -> None:
        """Show nothing."""

    def look(self, running: Sequence[Job]) -> None:
        """Show nothing."""

    def ended(self, outcome: Outcome) -> None:
        """Show nothing."""

    def close(self) -> None:
        """Show nothing."""


class LineView(QuietView):
    """Plain lines on stderr: one for each run that ends, and every 15 seconds one about those in progress."""

    def __init__(self) -> None:
        self.total = self.over = 0
        self.last = time.monotonic()

    def begin(self, jobs: Sequence[Job]) -> None:
        """Note how many jobs there are."""
        self.total = len(jobs)

    def look(self, running: Sequence[Job]) -> None:
        """Print a line about the runs in progress, seldom."""
        if running and time.monotonic() - self.last > SELDOM:
            self.last = time.monotonic()
            parts = [f"{job.path.name} {100 * progress(job)[0]:.0f} %" for job in running]
            self._say(f"{self.over}/{self.total} over; {', '.join(parts)}")

    def ended(self, outcome: Outcome) -> None:
        """Print a line about the run."""
        self.over += 1
        self._say(f"{self.over}/{self.total} {line(outcome)}")

    def _say(self, text: str) -> None:
        print(text, file=sys.stderr, flush=True)


class BarView(QuietView):
    """Bars on a terminal, redrawn in place; runs that have ended become lines above them."""

    def __init__(self) -> None:
        from manyheads.train.progress import bars

        self.bars = bars(elapsed=True, transient=True)
        self.rows: dict[Any, Any] = {}
        self.all: Any = None
        self.total = self.over = 0

    def begin(self, jobs: Sequence[Job]) -> None:
        """Show the bar of all."""
        self.total = len(jobs)
        self.all = self.bars.add_task("all runs", total=max(1, len(jobs)), text="")
        self.bars.start()

    def look(self, running: Sequence[Job]) -> None:
        """Move the bars."""
        parts = 0.0
        for job in running:
            share, words = progress(job)
            parts += share
            if job.path not in self.rows:
                self.rows[job.path] = self.bars.add_task(job.path.name, total=1.0, text="")
            self.bars.update(self.rows[job.path], completed=share, text=words)
        for path in [path for path in self.rows if path not in {job.path for job in running}]:
            self.bars.remove_task(self.rows.pop(path))
        self.bars.update(self.all, completed=self.over + parts, text=f"{self.over}/{self.total}")

    def ended(self, outcome: Outcome) -> None:
        """Print a line above the bars."""
        self.over += 1
        if outcome.fate != "skipped":
            self.bars.console.print(line(outcome), highlight=False, markup=False)

    def close(self) -> None:
        """Take the bars away."""
        self.bars.stop()


def viewer(*, bars: bool = True) -> Viewer:
    """Bars on a terminal, unless `bars` is false, and lines elsewhere."""
    return BarView() if bars and sys.stderr.isatty() else LineView()
