"""A worker process: the program, `python -m manyheads.sweep.worker`, and `Worker`, the handle of the process that
started it.

The program trains the run folders it is given, one after another. It reads one JSON object a line from its standard
input, {"folder": ..., "device": ..., "root": ..., "on_device": ...}, and answers each with one line on its standard
output, {"fate": "done" | "failed" | "stopped" | "busy", "message": ...}. What a run prints goes to log.txt in its folder. A
run in progress saves and stops when the input ends, because the parent closed it or died, at SIGTERM, and at SIGUSR1 and
SIGUSR2, by which schedulers announce the end of a job's time."""

from __future__ import annotations

import json
import os
import queue
import re
import select
import signal
import subprocess
import sys
import threading
import traceback
from contextlib import suppress
from pathlib import Path
from typing import Any

LOG = "log.txt"
TRIES = 3  # of a run whose workers die and leave no new checkpoint
CHECKPOINT = re.compile(r"step-(\d{8,18})")


def thread_settings(threads: int) -> dict[str, str]:
    """The environment variables that give a process so many threads on the CPU."""
    return {name: str(threads) for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS")}


class Worker:
    """A worker process as its parent sees it. It saves and stops when this process closes its input or dies."""

    def __init__(self, threads: int, beside: int = 1) -> None:
        """It computes with `threads` threads; `beside` workers share the cores when they compile."""
        environment = os.environ | thread_settings(threads)
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
        """Whether the process has ended."""
        return self.process.poll() is not None

    def give(self, folder: Path | str, device: str | None, root: Path | str | None, on_device: int | None) -> None:
        """Order it to train a run folder, with its data below `root`. At most `on_device` processes share the device
        meanwhile, this one included; None where nobody knows."""
        where = {"device": device, "root": None if root is None else str(root)}
        order = {"folder": str(folder)} | where | {"on_device": on_device}
        with suppress(BrokenPipeError):  # the process is dead, and there will be no answer
            self._orders.write(json.dumps(order) + "\n")
            self._orders.flush()

    def answered(self, seconds: float) -> bool:
        """Wait so long for an answer or the end of the process; whether there was one of the two."""
        return bool(select.select([self._answers], [], [], seconds)[0])

    def answer(self) -> dict[str, str] | None:
        """What became of the run; None where the process died without an answer."""
        line = self._answers.readline()
        if not line:
            self.process.wait()
            return None
        answer: dict[str, str] = json.loads(line)
        if answer["fate"] == "stopped":  # somebody stopped the worker itself, which ends after its answer
            self.process.wait()
        return answer

    def death(self) -> str:
        """How the process ended, in words."""
        code = self.process.wait()
        return f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"

    def stop(self) -> None:
        """Ask it to save and stop."""
        self.process.terminate()

    def kill(self) -> None:
        """End it at once."""
        self.process.kill()

    def dismiss(self) -> None:
        """Close its input, upon which the process ends, and wait until it has."""
        with suppress(BrokenPipeError):
            self._orders.close()
        self.process.wait()
        self._answers.close()


class Deaths:
    """The deaths of the workers of one run. Whoever kills them, the run is tried again while each of its tries leaves a
    new checkpoint: it then comes to its end. A run whose workers die `TRIES` times without a new one is given up, since
    it may be what kills them, by needing more memory than there is."""

    def __init__(self, folder: Path | str) -> None:
        self.folder = Path(folder)
        self.furthest, self.deaths = self._newest(), 0

    def again(self) -> bool:
        """Count a death; whether the run is tried once more."""
        newest = self._newest()
        self.deaths = 1 if newest > self.furthest else self.deaths + 1
        self.furthest = max(self.furthest, newest)
        return self.deaths < TRIES

    def message(self, death: str) -> str:
        """Why the run was given up, where its last worker ended by this `death`."""
        memory = "; the system kills a process that needs more memory than there is" if "SIGKILL" in death else ""
        return f"its process {death}, {TRIES} times without a new checkpoint{memory}; see {self.folder / LOG}"

    def _newest(self) -> int:
        return newest_checkpoint(self.folder)


def newest_checkpoint(folder: Path) -> int:
    """The step of the newest checkpoint of a run, -1 where there is none."""
    names = (path.name for path in (folder / "checkpoint").glob("step-*"))
    return max((int(match[1]) for name in names if (match := CHECKPOINT.fullmatch(name))), default=-1)


def main() -> None:
    """Obey orders until the input ends."""
    for number in (signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, lambda *_: signal.raise_signal(signal.SIGTERM))
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    orders: queue.Queue[dict[str, Any] | None] = queue.Queue()
    busy = threading.Event()

    def read() -> None:
        for line in sys.stdin:
            orders.put(json.loads(line))
        orders.put(None)
        if busy.is_set():  # nobody waits for this run any more: it stops as if it was asked to
            os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=read, daemon=True).start()
    while (order := orders.get()) is not None:
        busy.set()
        answer = obey(order)
        busy.clear()
        try:
            print(json.dumps(answer), file=answers)
        except BrokenPipeError:
            return
        if answer["fate"] == "stopped":
            return


def obey(order: dict[str, Any]) -> dict[str, str]:
    """Train one run folder; from here on, what this process prints goes to the log in it."""
    log = os.open(Path(order["folder"]) / LOG, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.close(log)
    from manyheads.runs import Busy, Run
    from manyheads.spec.errors import UserError
    from manyheads.train.early_end import Stopped
    from manyheads.train.loop import train

    root = order.get("root")
    try:
        train(
            Run.open(order["folder"]),
            device=order.get("device"),
            progress="lines",
            root=Path(root) if root else None,
            on_device=order["on_device"],
        )
        return {"fate": "done", "message": ""}
    except (Stopped, KeyboardInterrupt) as stop:
        return {"fate": "stopped", "message": str(stop)}
    except Busy as error:  # another process was faster
        return {"fate": "busy", "message": str(error)}
    except UserError as error:
        print(error, file=sys.stderr, flush=True)
        return {"fate": "failed", "message": str(error)}
    except Exception as error:  # a defect of ours or of a library: the traceback is in the log, and other runs continue
        traceback.print_exc()
        sys.stderr.flush()
        return {"fate": "failed", "message": f"{type(error).__name__}: {error}"}


if __name__ == "__main__":
    main()
