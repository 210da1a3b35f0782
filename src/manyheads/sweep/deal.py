"""Which run is next. Runs that have begun come first, the one with least left before others; then the longest.

Without a time limit the seeds keep their order, so that an interrupted sweep has whole comparisons first, and only the
runs of one seed are sorted. With one, all runs are, and what can be finished in the time that is left comes before what
cannot. A run that will not finish is begun when no other run can be, unless it is a measurement: that has no checkpoint
and would start anew."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path

from manyheads.spec.measurements import Measurement

from .jobs import Job

GRACE = 30.0  # seconds before the end at which runs are asked to save
SHARE = 0.15  # of the time limit, which GRACE does not exceed
LEAST = 2.0  # times its overhead that have to be left so that a run is begun which will not finish


@dataclass(frozen=True)
class ExpectedTime:
    """What is left of a run: seconds in the company that it will have, and those of them that are not training. One that
    has `begun` resumes from a checkpoint."""

    seconds: float
    overhead: float = 0.0
    begun: bool = False


@dataclass(frozen=True)
class Limit:
    """The time at which everything has to be over, on the clock of `time.monotonic`, and when runs are asked to save."""

    end: float
    ask: float

    @classmethod
    def after(cls, seconds: float, start: float | None = None) -> Limit:
        """The limit so many seconds after `start`, which is now unless it is stated."""
        end = (time.monotonic() if start is None else start) + seconds
        return cls(end, end - min(GRACE, SHARE * seconds))

    @property
    def left(self) -> float:
        """Seconds until runs are asked to save."""
        return self.ask - time.monotonic()


@dataclass
class Deal:
    """Hands out the numbers of jobs, each once, to several threads."""

    jobs: Sequence[Job]
    waiting: list[int]
    expected: Mapping[Path, ExpectedTime] = field(default_factory=dict)
    limit: Limit | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        if self.limit is not None:
            self.waiting = sorted(self.waiting, key=self._order)
            return
        by_seed = groupby(
            self.waiting, key=lambda i: (self.jobs[i].spec.label.get("experiment"), self.jobs[i].spec.seed)
        )
        self.waiting = [i for _, group in by_seed for i in sorted(group, key=self._order)]

    def next(self) -> int | None:
        """The number of the next job; None where none is left, or none that should be begun in the time that is."""
        with self._lock:
            chosen = self._choose()
            if chosen is not None:
                self.waiting.remove(chosen)
            return chosen

    def _choose(self) -> int | None:
        if self.limit is None:
            return next(iter(self.waiting), None)
        left = self.limit.left
        fitting = (i for i in self.waiting if self._expected(i).seconds <= left)
        begun = (i for i in self.waiting if self._may_begin(i, left))
        return next(fitting, next(begun, None))

    def _may_begin(self, i: int, left: float) -> bool:
        """Whether a job that will not finish should be begun."""
        return not isinstance(self.jobs[i].spec.task, Measurement) and left > LEAST * self._expected(i).overhead

    def _expected(self, i: int) -> ExpectedTime:
        return self.expected.get(self.jobs[i].path, ExpectedTime(0.0))

    def _order(self, i: int) -> tuple[bool, float]:
        expected = self._expected(i)
        return (False, expected.seconds) if expected.begun else (True, -expected.seconds)
