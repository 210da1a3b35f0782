"""Runs on this machine: one after another in this process, or side by side in worker processes, on CPU cores or one
GPU.

    outcomes = run([Job(path, spec), ...], workers=2, device="cpu")

Finished runs are skipped and killed ones resumed: the same call, made again, finishes what is left. A failed run does
not stop the others; a worker that dies is replaced, and its run resumes from its last checkpoint, unless the workers of
one run die again and again without a new checkpoint."""

from __future__ import annotations

import queue
import signal
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

from manyheads.runs import Busy, Run
from manyheads.spec.errors import UserError

from .deal import Deal, ExpectedTime, Limit
from .jobs import Job, Outcome, Viewer, carry_out, outcome, phases, viewer, wait_for_others
from .worker import Deaths, Worker, newest_checkpoint

PAUSE = 0.3  # seconds between two looks at the runs


class Interrupted(Exception):
    """The sweep was asked to stop. Every run in progress has saved, and the same call resumes them. `code` is 128 + the
    signal."""

    def __init__(self, outcomes: list[Outcome], number: int) -> None:
        self.outcomes, self.code = outcomes, 128 + number
        done = sum(one.fate in ("done", "skipped") for one in outcomes)
        super().__init__(f"stopped with {done} runs finished; the others are saved, and the same command resumes them")


def run(
    jobs: Sequence[Job],
    *,
    workers: int = 0,
    device: str | None = None,
    threads: int = 1,
    root: Path | None = None,
    look: Viewer | None = None,
    expected: Mapping[Path, ExpectedTime] | None = None,
    limit: Limit | None = None,
) -> list[Outcome]:
    """Do every job and say what became of it, in the order of `jobs`.

    `workers` processes work side by side, each with `threads` threads on the CPU; 0 works in this process, one after
    another, with its own threads. Jobs that are alone run after the others, one at a time. Where it is `expected` what
    runs take, the longest come first (`Deal`). At the `limit`, which worker processes alone can keep, runs in progress
    are saved and the others are left. When it is asked to stop (Ctrl-C, SIGTERM), every run saves and `Interrupted` is
    raised."""
    if workers < 0 or threads < 1:
        raise UserError(
            f"{workers} workers of {threads} threads; write 0 workers (this process) or more, 1 thread or more"
        )
    if limit is not None and workers == 0:
        raise UserError("a time limit needs worker processes; write 1 worker or more")
    here(device)
    look = look or viewer(bars=workers > 0)

    def work(waiting: list[int]) -> dict[int, Outcome]:
        if workers == 0:
            return _here(jobs, waiting, device, root, look)

        def part(numbers: list[int], alone: bool) -> dict[int, Outcome]:
            size = 1 if alone else min(workers, len(numbers))
            deal = Deal(jobs, numbers, expected or {}, limit)
            return _Pool(jobs, deal, size, device, threads, root).work(look)

        return in_phases(jobs, waiting, part)

    return carry_out(jobs, look, work)


def in_phases(
    jobs: Sequence[Job], waiting: Sequence[int], work: Callable[[list[int], bool], dict[int, Outcome]]
) -> dict[int, Outcome]:
    """Have `work` do the jobs that may share a device, and then those that are alone, for which it is told so."""
    outcomes: dict[int, Outcome] = {}
    for numbers, alone in phases(jobs, waiting):
        try:
            outcomes |= work(numbers, alone)
        except Interrupted as stop:
            raise Interrupted([*outcomes.values(), *stop.outcomes], stop.code - 128) from None
    return outcomes


def here(device: str | None) -> None:
    """Refuse a device that this machine does not have, with which every run would fail."""
    if device is not None:
        from manyheads.nn.device import pick_device

        pick_device(device)


def _here(
    jobs: Sequence[Job], waiting: Sequence[int], device: str | None, root: Path | None, look: Viewer
) -> dict[int, Outcome]:
    """Train one after another in this process; training itself handles signals."""
    from manyheads.train.early_end import Stopped

    outcomes: dict[int, Outcome] = {}
    for i in waiting:
        try:
            look.look([jobs[i]])
            _train_when_free(jobs[i], device, root)
            outcomes[i] = Outcome(jobs[i], "done")
        except Stopped as stop:
            outcomes[i] = Outcome(jobs[i], "stopped", str(stop))
            raise Interrupted(list(outcomes.values()), stop.code - 128) from None
        except UserError as error:
            outcomes[i] = Outcome(jobs[i], "failed", str(error))
        except Exception as error:
            traceback.print_exc()
            outcomes[i] = Outcome(jobs[i], "failed", f"{type(error).__name__}: {error}")
        look.ended(outcomes[i])
    return outcomes


def _train_when_free(job: Job, device: str | None, root: Path | None) -> None:
    """Train a run as soon as no other process does."""
    from manyheads.train.loop import train

    while True:
        wait_for_others(job.path, lambda: False)
        with suppress(Busy):  # another process was faster
            train(Run.open(job.path), device=device, root=root)
            return


class _Pool:
    """Worker processes. Each has a thread here that orders one run at a time and waits for the answer."""

    def __init__(
        self, jobs: Sequence[Job], deal: Deal, size: int, device: str | None, threads: int, root: Path | None
    ) -> None:
        self.jobs, self.size, self.device, self.threads, self.root = jobs, size, device, threads, root
        self.deal, self.limit, self.time_up = deal, deal.limit, False
        self.running: dict[int, Worker] = {}
        self.ended: queue.Queue[tuple[int, Outcome]] = queue.Queue()
        self.asked = 0

    def work(self, look: Viewer) -> dict[int, Outcome]:
        """Train the runs that are waiting, until all are done or somebody asks to stop."""
        outcomes: dict[int, Outcome] = {}
        slots = [threading.Thread(target=self._slot, daemon=True) for _ in range(self.size)]
        with self._listening():
            for slot in slots:
                slot.start()
            alive = True
            while alive or not self.ended.empty():
                alive = any(slot.is_alive() for slot in slots)
                self._keep_limit()
                look.look([self.jobs[i] for i in list(self.running)])
                try:
                    i, ended = self.ended.get(timeout=PAUSE)
                except queue.Empty:
                    continue
                outcomes[i] = ended
                look.ended(ended)
        if self.asked:
            raise Interrupted([*outcomes.values()], self.asked)
        for i in self.deal.waiting:
            begun = newest_checkpoint(self.jobs[i].path) >= 0
            outcomes[i] = self._left(self.jobs[i]) if begun else Outcome(self.jobs[i], "left", "not begun")
        return outcomes

    @property
    def stopping(self) -> bool:
        """Whether no run is to be begun any more."""
        return self.time_up or self.asked > 0

    def _keep_limit(self) -> None:
        """Ask every worker to save shortly before the end of the time, and kill those that have not when it is over."""
        if self.limit is None:
            return
        now = time.monotonic()
        if now >= self.limit.ask and not self.time_up:
            self.time_up = True  # first, so that a worker which begins meanwhile asks itself
            for worker in list(self.running.values()):
                worker.stop()
        if now >= self.limit.end:
            for worker in list(self.running.values()):
                worker.kill()

    def _left(self, job: Job) -> Outcome:
        """What becomes of a run in progress when the time is up."""
        step = newest_checkpoint(job.path)
        if step >= 0:
            return Outcome(job, "left", f"saved at step {step}; the same command resumes it")
        return Outcome(job, "left", "it has no checkpoint yet, and starts anew")

    @contextmanager
    def _listening(self) -> Iterator[None]:
        """In this context SIGINT and SIGTERM ask every worker to save and stop; a second signal kills them. Python
        handles signals in the main thread alone."""

        def ask(number: int, frame: FrameType | None) -> None:
            again, self.asked = self.asked, number
            for worker in list(self.running.values()):
                if again:
                    worker.kill()
                else:
                    worker.stop()

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
        """Have one worker process, replaced when it dies, train one run after another."""
        worker: Worker | None = None
        while not self.stopping and (i := self.deal.next()) is not None:
            while (ended := self._elsewhere(i)) is None:
                worker, ended = self._train(worker, i)
                if ended.fate != "busy":
                    break
            self.ended.put((i, ended))
        if worker is not None:
            worker.dismiss()

    def _elsewhere(self, i: int) -> Outcome | None:
        """What became of a run that another process trained; None where the run is left to be trained here."""
        job = self.jobs[i]
        try:
            wait_for_others(job.path, lambda: self.stopping)
            if Run.open(job.path).result is not None:
                return Outcome(job, "done")
        except UserError as error:  # the folder was damaged meanwhile
            return Outcome(job, "failed", str(error))
        if self.time_up and not self.asked:
            return self._left(job)
        return Outcome(job, "stopped") if self.asked else None

    def _train(self, worker: Worker | None, i: int) -> tuple[Worker | None, Outcome]:
        """Have `worker`, or a new one where it died, train a run; the worker that did, and what became of the run. A
        run whose workers die again and again is given up by `Deaths`."""
        deaths = Deaths(self.jobs[i].path)
        while True:
            if worker is not None and worker.dead:
                worker.dismiss()
                worker = None
            worker = worker or Worker(self.threads, self.size)
            self.running[i] = worker
            if self.stopping:  # in the meantime
                worker.stop()
            job = self.jobs[i]
            worker.give(job.path, self.device, self.root, self.size)
            answer = worker.answer()
            del self.running[i]
            if self.time_up and not self.asked and (answer is None or answer["fate"] == "stopped"):
                return worker, self._left(job)
            if answer is not None:
                return worker, outcome(job, answer)
            if self.asked:
                return worker, Outcome(job, "stopped")
            death = worker.death()
            if not deaths.again():
                return worker, Outcome(job, "failed", deaths.message(death))
