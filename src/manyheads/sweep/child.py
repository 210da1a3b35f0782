"""A worker process as its parent sees it: orders in, answers out, and whether it died over one. See `worker`."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path


def settings(threads: int) -> dict[str, str]:
    """The environment of a process of so many threads on the CPU."""
    return {name: str(threads) for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS")}


class Child:
    """One process of `manyheads.sweep.worker`. It saves and stops when this process closes its input or dies."""

    def __init__(self, threads: int, beside: int = 1) -> None:
        """`threads` are those of its computations; where it compiles, `beside` of its kind share the cores."""
        environment = os.environ | settings(threads)
        environment.setdefault("TORCHINDUCTOR_COMPILE_THREADS", str(max(threads, (os.cpu_count() or 1) // beside)))
        # its own session: a terminal's Ctrl-C reaches the parent alone, which then asks its workers
        self.process = subprocess.Popen(
            [sys.executable, "-m", "manyheads.sweep.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
            start_new_session=True,
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self._orders, self._answers = self.process.stdin, self.process.stdout

    @property
    def dead(self) -> bool:
        """Whether the process is over."""
        return self.process.poll() is not None

    def give(self, folder: Path | str, device: str | None, root: Path | str | None) -> None:
        """Have it train a run folder."""
        order = {"folder": str(folder), "device": device, "root": None if root is None else str(root)}
        with suppress(BrokenPipeError):  # dead: there will be no answer
            self._orders.write(json.dumps(order) + "\n")
            self._orders.flush()

    def answered(self, seconds: float) -> bool:
        """Wait so long for an answer, or for its death."""
        return bool(select.select([self._answers], [], [], seconds)[0])

    def answer(self) -> dict[str, str] | None:
        """What became of the run; None where the process died without an answer."""
        line = self._answers.readline()
        if not line:
            self.process.wait()
            return None
        answer: dict[str, str] = json.loads(line)
        if answer["fate"] == "stopped":  # somebody stopped the worker itself; it leaves after its answer
            self.process.wait()
        return answer

    def death(self) -> str:
        """How it died, in words."""
        code = self.process.wait()
        return f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"

    def stop(self) -> None:
        """Ask it to save and stop."""
        self.process.terminate()

    def kill(self) -> None:
        """End it at once."""
        self.process.kill()

    def dismiss(self) -> None:
        """Let it go: without input it ends, if it has not already."""
        with suppress(BrokenPipeError):
            self._orders.close()
        self.process.wait()
        self._answers.close()
