"""A worker process, `python -m manyheads.sweep.worker`: trains the run folders it is told to, one after another.

It reads one JSON object a line from its standard input, {"folder": ..., "device": ..., "root": ...}, and answers each
with one line on its standard output, {"fate": "done" | "failed" | "stopped", "message": ...}. What a run prints goes to
log.txt in its folder. When the input ends, because the parent closed it or died, a run in progress saves and stops; so
it does at SIGTERM, and at SIGUSR1 and SIGUSR2, by which schedulers tell that a job's time is up."""

from __future__ import annotations

import json
import os
import queue
import signal
import sys
import threading
import traceback
from pathlib import Path
from typing import Any

LOG = "log.txt"


def main() -> None:
    """Serve until the input ends."""
    for number in (signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, lambda *_: signal.raise_signal(signal.SIGTERM))
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    orders: queue.Queue[dict[str, Any] | None] = queue.Queue()
    busy = threading.Event()

    def read() -> None:
        for line in sys.stdin:
            orders.put(json.loads(line))
        orders.put(None)
        if busy.is_set():  # nobody waits for this run any more: it stops as if asked to
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
    """Train one run folder, its words in its own log."""
    log = os.open(Path(order["folder"]) / LOG, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.close(log)
    from manyheads.runs import Run
    from manyheads.spec.errors import UserError
    from manyheads.train.early_end import Stopped
    from manyheads.train.loop import train

    root = order.get("root")
    try:
        train(
            Run.open(order["folder"]), device=order.get("device"), progress="lines", root=Path(root) if root else None
        )
        return {"fate": "done", "message": ""}
    except (Stopped, KeyboardInterrupt) as stop:
        return {"fate": "stopped", "message": str(stop)}
    except UserError as error:
        print(error, file=sys.stderr, flush=True)
        return {"fate": "failed", "message": str(error)}
    except Exception as error:  # a defect of ours or of a library: the other runs go on, the log has the traceback
        traceback.print_exc()
        sys.stderr.flush()
        return {"fate": "failed", "message": f"{type(error).__name__}: {error}"}


if __name__ == "__main__":
    main()
