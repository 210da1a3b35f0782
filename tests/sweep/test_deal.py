"""Longest runs first; within a time limit those that can be finished; at its end everything is saved, and nothing lost."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from manyheads.runs import Run
from manyheads.spec.errors import UserError
from manyheads.spec.measurements import Footprint
from manyheads.sweep.capacity import Machine, choose
from manyheads.sweep.deal import Deal, ExpectedTime, Limit
from manyheads.sweep.forecast import Forecast
from manyheads.sweep.jobs import Job, QuietView
from manyheads.sweep.local import run
from manyheads.sweep.worker import newest_checkpoint

from .killing import begun
from .tiny import jobs, tiny

HOUR = 3600.0


def dealt(deal: Deal) -> list[int]:
    """All numbers in their order."""
    return list(iter(deal.next, None))


def five(root: Path) -> tuple[list[Job], dict[Path, ExpectedTime]]:
    """Two seeds of two arms, and what they take: 10, 20, 40, 30 s."""
    made = jobs(root, tiny(arms=2, seeds=(0, 1)))
    return made, {
        job.path: ExpectedTime(seconds, 5.0) for job, seconds in zip(made, (10.0, 20.0, 40.0, 30.0), strict=True)
    }


def within(seconds: float) -> Limit:
    """A limit of which so much is left before runs are asked to save."""
    now = time.monotonic()
    return Limit(now + seconds + 9, now + seconds)


def test_without_a_limit_seeds_keep_their_order_and_the_longest_of_each_is_first(tmp_path: Path) -> None:
    made, expected = five(tmp_path)
    assert dealt(Deal(made, [0, 1, 2, 3], expected)) == [1, 0, 2, 3]
    assert dealt(Deal(made, [0, 1, 2, 3])) == [0, 1, 2, 3]


def test_a_run_that_has_begun_is_finished_before_another_is_begun(tmp_path: Path) -> None:
    made, expected = five(tmp_path)
    for i in (1, 3):
        expected[made[i].path] = replace(expected[made[i].path], begun=True)
    assert dealt(Deal(made, [0, 1, 2, 3], expected, within(HOUR))) == [1, 3, 2, 0]


@pytest.mark.parametrize(
    ("left", "order"),
    [
        (HOUR, [2, 3, 1, 0]),
        (25.0, [1, 0, 2, 3]),  # the longest that fits, and then what will not finish
        (10.5, [0, 2, 3, 1]),
        (9.0, []),  # all would not be begun before the time is up: their overhead is 5 s
        (-1.0, []),
    ],
)
def test_within_a_limit_the_longest_that_fits_is_next(tmp_path: Path, left: float, order: list[int]) -> None:
    made, expected = five(tmp_path)
    assert dealt(Deal(made, [0, 1, 2, 3], expected, within(left))) == order


def test_a_measurement_that_does_not_fit_is_not_begun(tmp_path: Path) -> None:
    made, expected = five(tmp_path)
    made[2] = replace(made[2], spec=replace(made[2].spec, task=Footprint()))
    assert dealt(Deal(made, [0, 1, 2, 3], expected, within(25.0))) == [1, 0, 3]


def test_runs_of_unknown_length_are_begun_while_there_is_time(tmp_path: Path) -> None:
    made, expected = five(tmp_path)
    del expected[made[3].path]
    assert dealt(Deal(made, [0, 1, 2, 3], expected, within(25.0))) == [1, 0, 3, 2]
    assert dealt(Deal(made, [3], {}, within(-1.0))) == []


def test_several_threads_get_every_job_once(tmp_path: Path) -> None:
    made, expected = five(tmp_path)
    deal, got = Deal(made, [0, 1, 2, 3], expected), []
    threads = [threading.Thread(target=lambda: got.extend(dealt(deal))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(got) == [0, 1, 2, 3]


def test_runs_are_asked_to_save_before_the_end_and_never_too_early() -> None:
    for seconds, grace in ((10.0, 1.5), (540.0, 30.0)):
        limit = Limit.after(seconds, 100.0)
        assert (limit.end, limit.ask) == (100.0 + seconds, 100.0 + seconds - grace)


@dataclass(frozen=True)
class OnceBegun(Limit):
    """A limit that is reached as soon as a run has a checkpoint, however slow this machine is."""

    job: Job

    @property
    def left(self) -> float:
        """Much until then."""
        return HOUR

    def __getattribute__(self, name: str) -> object:
        if name == "ask":
            return 0.0 if begun(object.__getattribute__(self, "job")) else float("inf")
        return object.__getattribute__(self, name)


def test_when_the_time_is_up_a_run_is_saved_and_the_others_are_left(tmp_path: Path) -> None:
    first, second = jobs(tmp_path, tiny(100_000, checkpoint_every=5, probe_every=0, evaluate_every=0.5))
    limit = OnceBegun(time.monotonic() + HOUR, 0.0, first)
    expected = {first.path: ExpectedTime(2.0), second.path: ExpectedTime(1.0)}
    outcomes = run([first, second], workers=1, device="cpu", look=QuietView(), expected=expected, limit=limit)
    assert [outcome.fate for outcome in outcomes] == ["left", "left"]
    step = newest_checkpoint(first.path)
    assert outcomes[0].message == f"saved at step {step}; the same command resumes it"
    assert step == (Run.open(first.path).status or {})["step"] > 0
    assert Run.open(first.path).state == "stopped"
    assert outcomes[1].message == "not begun"
    assert Run.open(second.path).state == "new"


def test_a_worker_that_does_not_save_in_time_is_killed(tmp_path: Path) -> None:
    wanted = jobs(tmp_path, tiny(100_000))
    started = time.monotonic()
    outcomes = run(wanted, workers=1, device="cpu", look=QuietView(), limit=Limit.after(0.3))
    assert time.monotonic() - started < 20
    assert {outcome.message for outcome in outcomes} <= {"it has no checkpoint yet, and starts anew", "not begun"}


def test_a_limit_needs_workers(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="a time limit needs worker processes"):
        run(jobs(tmp_path, tiny()), workers=0, look=QuietView(), limit=Limit.after(9.0))


def made_up(job: Job, count: int, **numbers: float) -> list[Forecast]:
    """Runs of which something is forecast."""
    return [replace(Forecast(job, False, 1), **numbers) for _ in range(count)]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("machine", "threads", "runs", "numbers", "workers", "why"),
    [
        (Machine("cpu", None, None, 8), 1, 20, {}, 8, "this machine has 8 cores"),
        (Machine("cpu", None, None, 8), 3, 20, {}, 2, "this machine has 8 cores"),
        (Machine("cpu", None, None, 2), 4, 20, {}, 1, "this machine has 2 cores"),
        (Machine("cpu", None, None, 8), 1, 3, {}, 3, "there are no more runs"),
        (Machine("cpu", None, 10e9, 8), 1, 20, {"memory": 2.5e9}, 3, "more would not fit into the memory"),
        (Machine("cpu", None, 1e9, 8), 1, 20, {"memory": 2.5e9}, 1, "more would not fit into the memory"),
        # 15 s at 60 TFLOPS of 15 s, and as much again to start it
        (Machine("cuda", "x", 140e9, 16), 1, 24, {"seconds": 15.0, "flops": 9e14, "overhead": 15.0}, 2, "50 %"),
        (Machine("cuda", "x", 140e9, 16), 1, 24, {"seconds": 45.0, "flops": 9e14, "overhead": 15.0}, 4, "25 %"),
        (Machine("cuda", "x", 140e9, 16), 1, 99, {"seconds": 75.0, "flops": 1e14, "overhead": 5.0}, 16, "2 %"),
        (Machine("cuda", "x", 20e9, 16), 1, 99, {"seconds": 75.0, "flops": 1e14, "memory": 3e9}, 4, "memory"),
        (
            Machine("cuda", "x", 60e9, 16),
            1,
            99,
            {"seconds": 75.0, "flops": 1e14, "memory": 3e9, "held": 8e9},
            4,
            "memory",
        ),
        # more than a quarter of the memory: such images are streamed
        (
            Machine("cuda", "x", 20e9, 16),
            1,
            99,
            {"seconds": 75.0, "flops": 1e14, "memory": 3e9, "held": 8e9},
            4,
            "memory",
        ),
        (Machine("cuda", "x", 140e9, 6), 1, 99, {"seconds": 75.0, "flops": 1e14, "memory": 3e9}, 6, "6 cores"),
        (Machine("cuda", None, None, 16), 1, 99, {}, 2, "more would hardly gain anything"),
    ],
)
def test_as_many_runs_as_the_device_takes(
    tmp_path: Path, machine: Machine, threads: int, runs: int, numbers: dict[str, float], workers: int, why: str
) -> None:
    (job,) = jobs(tmp_path, tiny(arms=1))
    choice = choose(made_up(job, runs, **numbers), machine, threads)
    assert choice.workers == workers
    assert why in choice.words


def test_runs_that_are_done_or_alone_ask_for_no_worker(tmp_path: Path) -> None:
    (job,) = jobs(tmp_path, tiny(arms=1))
    done = [replace(each, done=True) for each in made_up(job, 9)]
    alone = made_up(replace(job, alone=True), 9)
    assert choose([*done, *alone, *made_up(job, 2)], Machine("cpu", None, None, 8), 1).workers == 2
    assert choose([*done, *alone], Machine("cpu", None, None, 8), 1).workers == 1


def test_memory_is_that_of_the_largest_runs(tmp_path: Path) -> None:
    (job,) = jobs(tmp_path, tiny(arms=1))
    mixed: Sequence[Forecast] = [*made_up(job, 10, memory=1e6), *made_up(job, 2, memory=4e9)]
    assert choose(mixed, Machine("cpu", None, 10.2e9, 8), 1).workers == 2
