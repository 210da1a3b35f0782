"""Runs on this machine: one after another in this process, or side by side in worker processes, on CPU cores or one GPU.

    outcomes = run([Job(path, spec), ...], workers=2, device="cpu")

Finished runs are skipped and killed ones resumed, so that calling it again goes on. A failed run does not stop the others;
a worker that dies is replaced, and its run tried once more from its last checkpoint.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any

from manyheads.arch.errors import UserError
from manyheads.runs import Run

from .job import Job, Outcome, Viewer, prepare
from .view import viewer

TRIES = 2  # of a run whose worker died under it: the second starts from the last checkpoint
PAUSE = 0.3  # seconds between two looks at the runs


class Interrupted(Exception):
    """The sweep was asked to stop. Every run in progress has saved; the same call goes on. `code` is 128 + the signal."""

    def __init__(self, outcomes: list[Outcome], number: int) -> None:
        self.outcomes, self.code = outcomes, 128 + number
        done = sum(outcome.fate in ("done", "skipped") for outcome in outcomes)
        super().__init__(f"stopped with {done} runs finished; what was begun is saved, and the same command goes on")


def run(
    jobs: Sequence[Job], *, workers: int = 0, device: str | None = None, threads: int = 1, root: Path | None = None,
    look: Viewer | None = None,
) -> list[Outcome]:  # fmt: skip
    """Do every job and say what became of it, in the order of `jobs`.

    `workers` processes work side by side, each with `threads` threads on the CPU; 0 works in this process, one after
    another, with its own threads. Asked to stop (Ctrl-C, SIGTERM) every run saves, and `Interrupted` is raised."""
    if workers < 0 or threads < 1:
        raise UserError(f"{workers} workers of {threads} threads; write 0 workers (this process) or more, 1 thread or more")
    paths = [job.path.resolve() for job in jobs]
    if len(set(paths)) < len(paths):
        twice = next(path for path in paths if paths.count(path) > 1)
        raise UserError(f"{twice} was given to two runs; give each a folder of its own")
    runs = prepare(jobs)
    look = look or viewer(bars=workers > 0)
    look.begin(jobs)
    try:
        skipped = {i: Outcome(jobs[i], "skipped") for i, made in enumerate(runs) if made.result is not None}
        for outcome in skipped.values():
            look.ended(outcome)
        waiting = [i for i in range(len(jobs)) if i not in skipped]
        if workers == 0:
            found = _here(jobs, waiting, device, root, look)
        else:
            found = _Pool(jobs, waiting, min(workers, len(waiting)), device, threads, root).work(look)
    finally:
        look.close()
    return [(skipped | found)[i] for i in range(len(jobs))]


def _here(
    jobs: Sequence[Job], waiting: Sequence[int], device: str | None, root: Path | None, look: Viewer
) -> dict[int, Outcome]:
    """One after another in this process; training itself listens for signals."""
    from manyheads.train.loop import train
    from manyheads.train.stop import Stopped

    found: dict[int, Outcome] = {}
    for i in waiting:
        try:
            look.look([jobs[i]])
            train(Run.open(jobs[i].path), device=device, root=root)
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


class _Pool:
    """Worker processes, each with a thread here that hands it one run at a time and waits for the answer."""

    def __init__(
        self, jobs: Sequence[Job], waiting: Sequence[int], size: int, device: str | None, threads: int, root: Path | None
    ) -> None:
        self.jobs, self.size, self.device, self.root = jobs, size, device, root
        self.environment = os.environ | {name: str(threads) for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS")}
        self.orders: queue.Queue[int] = queue.Queue()
        for i in waiting:
            self.orders.put(i)
        self.running: dict[int, subprocess.Popen[str]] = {}
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
        """In here SIGINT and SIGTERM ask every worker to save and stop; who asks twice will not wait, and they are killed.
        Python hears signals in the main thread alone."""

        def ask(number: int, frame: FrameType | None) -> None:
            again, self.asked = self.asked, number
            for process in list(self.running.values()):
                if again:
                    process.kill()
                else:
                    process.terminate()

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
        process: subprocess.Popen[str] | None = None
        while not self.asked:
            try:
                i = self.orders.get_nowait()
            except queue.Empty:
                break
            outcome = Outcome(self.jobs[i], "failed")
            for _ in range(TRIES):
                if process is not None and process.poll() is not None:
                    _dismiss(process)
                    process = None
                process = process or self._spawn()
                self.running[i] = process
                if self.asked:  # between the question above and this line
                    process.terminate()
                outcome, died = self._do(process, i)
                del self.running[i]
                if not died or self.asked:
                    break
            self.ended.put((i, outcome))
        if process is not None:
            _dismiss(process)

    def _spawn(self) -> subprocess.Popen[str]:
        # its own session: a terminal's Ctrl-C reaches this process alone, which then asks the workers
        return subprocess.Popen(
            [sys.executable, "-m", "manyheads.sweep.worker"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env=self.environment, start_new_session=True,
        )  # fmt: skip

    def _do(self, process: subprocess.Popen[str], i: int) -> tuple[Outcome, bool]:
        """Hand over one run; what became of it, and whether the worker died over it."""
        job = self.jobs[i]
        order = {"folder": str(job.path), "device": self.device, "root": None if self.root is None else str(self.root)}
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(json.dumps(order) + "\n")
            process.stdin.flush()
            line = process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if self.asked and not line:
            return Outcome(job, "stopped"), True
        if not line:
            code = process.wait()
            how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"
            return Outcome(job, "failed", f"its process {how}; see {job.path / 'log.txt'}"), True
        answer: dict[str, Any] = json.loads(line)
        if answer["fate"] == "stopped":  # somebody stopped the worker itself; it leaves after its answer
            process.wait()
        return Outcome(job, answer["fate"], answer["message"]), False


def _dismiss(process: subprocess.Popen[str]) -> None:
    """Let a worker go: without input it ends, if it has not already."""
    assert process.stdin is not None
    assert process.stdout is not None
    with suppress(BrokenPipeError):
        process.stdin.close()
    process.wait()
    process.stdout.close()
