"""What `manyheads run` finds out before it starts worker processes: how many there should be, what every run is expected
to take, and whether a time limit is long enough."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from manyheads.spec.errors import UserError

if TYPE_CHECKING:
    from manyheads.runs import RunFolder
    from manyheads.sweep.deal import ExpectedTime, Limit
    from manyheads.sweep.forecast import Forecast
    from manyheads.sweep.jobs import Job

TIME_UP = 3  # the exit code where runs are left because the time was up


@dataclass(frozen=True)
class Slice:
    """How runs are dealt: the number of worker processes, what is expected of each run, and the time limit."""

    workers: int
    expected: dict[Path, ExpectedTime] = field(default_factory=dict)
    limit: Limit | None = None


def check_minutes(minutes: float | None, executor: str, workers: int | None) -> None:
    """Refuse a time limit that is none, or that nobody would keep."""
    if minutes is None:
        return
    if not 0 < minutes < 1e6:
        raise UserError(f"--minutes {minutes:g}: nothing can be done in that time; write a number above 0")
    if executor != "processes" or workers == 0:
        own = "; write --slurm timeout_min=9" if executor == "slurm" else ""
        raise UserError(f"--minutes belongs to worker processes of this machine (--executor processes){own}")


def known_runs(out: Path, learn_from: Path | None) -> list[RunFolder]:
    """The finished runs that times are learnt from: those below `out`, and those of another folder or a pack."""
    from manyheads.runs import find

    if learn_from is not None and not learn_from.exists():
        raise UserError(f"--learn-from {learn_from} does not exist; give a pack, or a folder with packs or run folders")
    places = [out] if learn_from is None else [out, learn_from]
    return [run for place in places if not place.is_file() or place is learn_from for run in find(place) if run.result]


def prepare_slice(
    jobs: Sequence[Job],
    known: Sequence[RunFolder],
    *,
    workers: int | None,
    threads: int,
    device: str | None,
    root: Path | None,
    limit: Limit | None,
    quiet: bool,
) -> Slice:
    """The number of workers, where none is stated, and what the jobs are expected to take with so many side by side."""
    from manyheads.sweep.capacity import choose, expected_overhead, here
    from manyheads.sweep.forecast import forecast, sharing

    machine = here(device)
    try:
        forecasts = forecast(jobs, device=device, threads=threads, root=root, known=known, gpu=machine.name)
    except UserError:  # a run that cannot be trained is named when it is, and the others are trained
        return Slice(2 if workers is None else workers, limit=limit)
    if workers is None:
        choice = choose(forecasts, machine, threads)
        workers = choice.workers
        if not quiet and any(not each.done for each in forecasts):
            print(f"{workers} side by side: {choice.words}", file=sys.stderr)
    beside = max(1, min(workers, sum(not each.done for each in forecasts)))
    speed = sharing(beside, device, threads).speed
    expected = {}
    for each in forecasts:
        if not each.done and each.seconds is not None:
            overhead = expected_overhead(each, machine.kind)
            expected[each.job.path] = _expected(each, overhead, speed(1 if each.job.alone else beside))
    if limit is not None:
        _compare(forecasts, expected, limit)
    return Slice(workers, expected, limit)


def _expected(each: Forecast, overhead: float, speed: float) -> ExpectedTime:
    """What is left of a run. One that has begun is expected to go on as fast as it was."""
    from manyheads.runs import Run
    from manyheads.sweep.deal import ExpectedTime
    from manyheads.sweep.worker import newest_checkpoint

    assert each.seconds is not None
    seconds, step = each.seconds / speed, newest_checkpoint(each.job.path)
    if step < 0:
        return ExpectedTime(seconds + overhead, overhead)
    if each.steps is not None:
        past = Run.open(each.job.path).timings.read()
        if past and past[-1]["step"] > 0:
            seconds = each.steps * past[-1]["seconds"] / past[-1]["step"]
        seconds *= max(0.0, 1 - step / each.steps)
    return ExpectedTime(seconds + overhead, overhead, begun=True)


def _compare(forecasts: Sequence[Forecast], expected: dict[Path, ExpectedTime], limit: Limit) -> None:
    """Say so where no run fits into the time."""
    from manyheads.report.number_text import duration
    from manyheads.spec.measurements import Measurement

    left = [each for each in forecasts if not each.done]
    times = [(expected[each.job.path].seconds, each) for each in left if each.job.path in expected]
    if len(times) < len(left) or not left:
        return
    shortest, _ = min(times, key=lambda pair: pair[0])
    if shortest <= limit.left:
        return
    what = "is begun, saved when the time is up, and resumed by the same command"
    if all(isinstance(each.job.spec.task, Measurement) for each in left):
        what = "is begun, since a measurement cannot be resumed; write more minutes"
        print(
            f"No run fits into this time, the shortest takes about {duration(shortest)}: none {what}", file=sys.stderr
        )
        return
    print(
        f"No run fits into this time, the shortest takes about {duration(shortest)}: what is trained {what}",
        file=sys.stderr,
    )
