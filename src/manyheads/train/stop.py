"""Being asked to stop: SIGTERM, as schedulers send it, and SIGINT. The step is finished and saved, then training ends;
how it ended badly is written into the run's status."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from manyheads.spec.errors import UserError

if TYPE_CHECKING:
    from manyheads.runs import Run

    from .parallel import Ranks

ASKING = (signal.SIGTERM, signal.SIGINT)


class Stopped(Exception):
    """Training was asked to stop and has saved what it needs to go on. A command exits with `code`, 128 + the signal,
    as a shell would say it: 143 for SIGTERM, 130 for SIGINT."""

    def __init__(self, path: Path, step: int, number: int) -> None:
        self.path, self.step, self.code = path, step, 128 + number
        name = signal.Signals(number).name
        super().__init__(f"stopped at step {step} by {name}; the same command goes on from there: {path}")


class Asked:
    """Whether a signal came. A second SIGINT does what it always does: it interrupts."""

    def __init__(self) -> None:
        self.number = 0

    def hear(self, number: int, frame: FrameType | None) -> None:
        """Note the signal; the loop looks at it between steps."""
        if self.number == number == signal.SIGINT:
            raise KeyboardInterrupt
        self.number = number


@contextmanager
def listening() -> Iterator[Asked]:
    """In here signals are noted instead of killing the process. Python allows that in the main thread alone."""
    asked = Asked()
    if threading.current_thread() is not threading.main_thread():
        yield asked
        return
    before = {number: signal.signal(number, asked.hear) for number in ASKING}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def held(run: Run, ranks: Ranks) -> Iterator[None]:
    """The run folder for these processes alone; how training ended badly is written into its status."""
    if not ranks.first:
        yield
        return
    with run.locked():
        try:
            yield
        except Stopped:
            raise
        except BaseException as error:
            state = "stopped" if isinstance(error, KeyboardInterrupt) else "failed"
            step = (run.status or {}).get("step")
            with suppress(UserError):  # a full disk, perhaps the very reason
                if run.result is None:
                    run.write_status(state=state, step=getattr(error, "step", step), message=str(error))
            raise
