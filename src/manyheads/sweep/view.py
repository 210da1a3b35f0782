"""What people see of a sweep: a bar for each run in progress and one for all; plain lines where there is no
terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import Any

from manyheads.runs import Run

from .job import Job, Outcome, Viewer

SELDOM = 15.0  # seconds between two plain lines about runs in progress


def progress(job: Job) -> tuple[float, str]:
    """How far a run is, from 0 to 1 and in words, by its status alone."""
    status = Run.open(job.path).status or {}
    step, total = status.get("step"), status.get("total")
    done = status.get("progress")
    words = "" if step is None else f"step {step}" if total is None else f"step {step}/{total}"
    return float(done) if isinstance(done, int | float) else 0.0, words


def told(outcome: Outcome) -> str:
    """One line about a run that is over."""
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


class Nobody:
    """Nobody looks on."""

    def begin(self, jobs: Sequence[Job]) -> None:
        """Not seen."""

    def look(self, running: Sequence[Job]) -> None:
        """Not seen."""

    def ended(self, outcome: Outcome) -> None:
        """Not seen."""

    def close(self) -> None:
        """Nothing to close."""


class Lines(Nobody):
    """Plain lines on stderr: one for each run that ends, and now and then one about those in progress."""

    def __init__(self) -> None:
        self.total = self.over = 0
        self.last = time.monotonic()

    def begin(self, jobs: Sequence[Job]) -> None:
        """How many there are."""
        self.total = len(jobs)

    def look(self, running: Sequence[Job]) -> None:
        """A line about those in progress, seldom."""
        if running and time.monotonic() - self.last > SELDOM:
            self.last = time.monotonic()
            parts = [f"{job.path.name} {100 * progress(job)[0]:.0f} %" for job in running]
            self._say(f"{self.over}/{self.total} over; {', '.join(parts)}")

    def ended(self, outcome: Outcome) -> None:
        """A line about one that is over."""
        self.over += 1
        self._say(f"{self.over}/{self.total} {told(outcome)}")

    def _say(self, text: str) -> None:
        print(text, file=sys.stderr, flush=True)


class Bars(Nobody):
    """Bars on a terminal, redrawn in place; runs that are over become lines above them."""

    def __init__(self) -> None:
        from rich import progress as p
        from rich.console import Console

        columns = (
            p.TextColumn("{task.description}"),
            p.BarColumn(),
            p.TaskProgressColumn(),
            p.TimeElapsedColumn(),
            p.TimeRemainingColumn(),
            p.TextColumn("{task.fields[told]}"),
        )
        self.bars = p.Progress(*columns, console=Console(stderr=True), transient=True)
        self.rows: dict[Any, Any] = {}
        self.all: Any = None
        self.total = self.over = 0

    def begin(self, jobs: Sequence[Job]) -> None:
        """Show the bar of all."""
        self.total = len(jobs)
        self.all = self.bars.add_task("all runs", total=max(1, len(jobs)), told="")
        self.bars.start()

    def look(self, running: Sequence[Job]) -> None:
        """Move the bars."""
        parts = 0.0
        for job in running:
            share, words = progress(job)
            parts += share
            if job.path not in self.rows:
                self.rows[job.path] = self.bars.add_task(job.path.name, total=1.0, told="")
            self.bars.update(self.rows[job.path], completed=share, told=words)
        for path in [path for path in self.rows if path not in {job.path for job in running}]:
            self.bars.remove_task(self.rows.pop(path))
        self.bars.update(self.all, completed=self.over + parts, told=f"{self.over}/{self.total}")

    def ended(self, outcome: Outcome) -> None:
        """A line above the bars."""
        self.over += 1
        if outcome.fate != "skipped":
            self.bars.console.print(told(outcome), highlight=False, markup=False)

    def close(self) -> None:
        """Take the bars away."""
        self.bars.stop()


def viewer(*, bars: bool = True) -> Viewer:
    """Bars on a terminal, if they are wanted, and lines elsewhere."""
    return Bars() if bars and sys.stderr.isatty() else Lines()
