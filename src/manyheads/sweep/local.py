"""Runs on this machine: one after another in this process, or side by side in worker processes, on CPU cores or one
GPU.

    outcomes = run([Job(path, spec), ...], workers=2, device="cpu")

Finished runs are skipped and killed ones resumed, so that calling it again goes on. A failed run does not stop the
others; a worker that dies is replaced, and its run tried once more from its last checkpoint."""

from __future__ import annotations

import queue
import signal
import threading
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import cast

from manyheads.runs import Busy, Run
from manyheads.runs.folder import LOCK
from manyheads.spec.errors import UserError
from manyheads.spec.lock import held

from .child import Child
from .job import Fate, Job, Outcome, Viewer, carry_out, wait_for_others
from .view import viewer

TRIES = 2  # of a run whose worker died under it: the second starts from the last checkpoint
PAUSE = 0.3  # seconds between two looks at the runs


class Interrupted(Exception):
    """The sweep was asked to stop. Every run in progress has saved; the same call goes on. `code` is 128 + the
    signal."""

    def __init__(self, outcomes: list[Outcome], number: int) -> None:
        self.outcomes, self.code = outcomes, 128 + number
        done = sum(outcome.fate in ("done", "skipped") for outcome in outcomes)
        super().__init__(f"stopped with {done} runs finished; what was begun is saved, and the same command goes on")


def run(
    jobs: Sequence[Job],
    *,
    workers: int = 0,
    device: str | None = None,
    threads: int = 1,
    root: Path | None = None,
    look: Viewer | None = None,
) -> list[Outcome]:
    """Do every job and say what became of it, in the order of `jobs`.

    `workers` processes work side by side, each with `threads` threads on the CPU; 0 works in this process, one after
    another, with its own threads. Asked to stop (Ctrl-C, SIGTERM) every run saves, and `Interrupted` is raised."""
    if workers < 0 or threads < 1:
        raise UserError(
            f"{workers} workers of {threads} threads; write 0 workers (this process) or more, 1 thread or more"
        )
    here(device)
    look = look or viewer(bars=workers > 0)

    def work(waiting: list[int]) -> dict[int, Outcome]:
        if workers == 0:
            return _here(jobs, waiting, device, root, look)
        return _Pool(jobs, waiting, min(workers, len(waiting)), device, threads, root).work(look)

    return carry_out(jobs, look, work)


def here(device: str | None) -> None:
    """Refuse a device that this machine does not have: it would fail every run."""
    if device is not None:
        from manyheads.train.parallel import pick_device

        pick_device(device)


def _here(
    jobs: Sequence[Job], waiting: Sequence[int], device: str | None, root: Path | None, look: Viewer
) -> dict[int, Outcome]:
    """One after another in this process; training itself listens for signals."""
    from manyheads.train.early_end import Stopped

    found: dict[int, Outcome] = {}
    for i in waiting:
        try:
            look.look([jobs[i]])
            _train_when_free(jobs[i], device, root)
            found[i] = Outcome(jobs[i], "done")
        except Stopped as stop:
            found[i] = Outcome(jobs[i], "stopped", str(stop))
            raise Interrupted(list(found.values()), stop.code - 128) from None
        except UserError as error:
            found[i] = Outcome(jobs[i], "failed", str(error))
        except Exception as error:
            traceback.print_exc()
            found[i] = Outcome(jobs[i], "failed", f"{type(error).__name__}: {error}")
        look.ended(found[i])
    return found


def _train_when_free(job: Job, device: str | None, root: Path | None) -> None:
    """Train a run as soon as nobody else does."""
    from manyheads.train.loop import train

    while True:
        wait_for_others(job.path, lambda: False)
        with suppress(Busy):  # somebody was faster
            train(Run.open(job.path), device=device, root=root)
            return


class _Pool:
    """Worker processes, each with a thread here that hands it one run at a time and waits for the answer."""

    def __init__(
        self,
        jobs: Sequence[Job],
        waiting: Sequence[int],
        size: int,
        device: str | None,
        threads: int,
        root: Path | None,
    ) -> None:
        self.jobs, self.size, self.device, self.threads, self.root = jobs, size, device, threads, root
        self.orders: queue.Queue[int] = queue.Queue()
        for i in waiting:
            self.orders.put(i)
        self.running: dict[int, Child] = {}
        self.ended: queue.Queue[tuple[int, Outcome]] = queue.Queue()
        self.asked = 0

    def work(self, look: Viewer) -> dict[int, Outcome]:
        """Everything, until it is done or somebody asks to stop."""
        found: dict[int, Outcome] = {}
        slots = [threading.Thread(target=self._slot, daemon=True) for _ in range(self.size)]
        with self._listening():
            for slot in slots:
                slot.start()
            alive = True
            while alive or not self.ended.empty():
                alive = any(slot.is_alive() for slot in slots)
                look.look([self.jobs[i] for i in list(self.running)])
                try:
                    i, outcome = self.ended.get(timeout=PAUSE)
                except queue.Empty:
                    continue
                found[i] = outcome
                look.ended(outcome)
        if self.asked:
            raise Interrupted([*found.values()], self.asked)
        return found

    @contextmanager
    def _listening(self) -> Iterator[None]:
        """In here SIGINT and SIGTERM ask every worker to save and stop; who asks twice will not wait, and they are
        killed. Python hears signals in the main thread alone."""

        def ask(number: int, frame: FrameType | None) -> None:
            again, self.asked = self.asked, number
            for child in list(self.running.values()):
                if again:
                    child.kill()
                else:
                    child.stop()

        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _slot(self) -> None:
        """One worker's life: a process, replaced when it dies, and one run after another."""
        child: Child | None = None
        while not self.asked:
            try:
                i = self.orders.get_nowait()
            except queue.Empty:
                break
            while (outcome := self._elsewhere(i)) is None:
                child, outcome = self._worked(child, i)
                # a run that failed has let go of its folder: if it is held, somebody else was faster
                if outcome.fate != "failed" or not held(self.jobs[i].path / LOCK):
                    break
            self.ended.put((i, outcome))
        if child is not None:
            child.dismiss()

    def _elsewhere(self, i: int) -> Outcome | None:
        """What became of a run that another process had; None where it is still to be done, and nobody else does it."""
        job = self.jobs[i]
        try:
            wait_for_others(job.path, lambda: self.asked > 0)
            if Run.open(job.path).result is not None:
                return Outcome(job, "done")
        except UserError as error:  # the folder was damaged meanwhile
            return Outcome(job, "failed", str(error))
        return Outcome(job, "stopped") if self.asked else None

    def _worked(self, child: Child | None, i: int) -> tuple[Child | None, Outcome]:
        """Have a worker do a run: `child`, or another where it died. The one that did, and what became of the run."""
        for _ in range(TRIES):
            if child is not None and child.dead:
                child.dismiss()
                child = None
            child = child or Child(self.threads, self.size)
            self.running[i] = child
            if self.asked:  # since somebody last looked
                child.stop()
            outcome, died = self._do(child, i)
            del self.running[i]
            if not died or self.asked:
                break
        return child, outcome

    def _do(self, child: Child, i: int) -> tuple[Outcome, bool]:
        """Hand over one run; what became of it, and whether the worker died over it."""
        job = self.jobs[i]
        child.give(job.path, self.device, self.root)
        answer = child.answer()
        if answer is not None:
            return Outcome(job, cast(Fate, answer["fate"]), answer["message"]), False
        if self.asked:
            return Outcome(job, "stopped"), True
        return Outcome(job, "failed", f"its process {child.death()}; see {job.path / 'log.txt'}"), True
