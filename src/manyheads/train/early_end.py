"""How a run ends before its budget is spent: a signal asks it to stop, training diverges, or an error occurs.

On SIGTERM, as schedulers send it, and on SIGINT the step is finished and saved before training ends. Where a run ends
badly, its status has the reason."""

from __future__ import annotations

import math
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from manyheads.runs import Run
from manyheads.spec.errors import UserError

if TYPE_CHECKING:
    from .parallel import Ranks

ASKING = (signal.SIGTERM, signal.SIGINT)


class Stopped(Exception):
    """Training was asked to stop and has saved a checkpoint. A command exits with `code`, which is 128 + the signal as
    in a shell: 143 for SIGTERM, 130 for SIGINT."""

    def __init__(self, path: Path, step: int, number: int) -> None:
        self.path, self.step, self.code = path, step, 128 + number
        name = signal.Signals(number).name
        super().__init__(f"stopped at step {step} by {name}; the same command resumes from there: {path}")


class Diverged(UserError):
    """The loss is not a finite number any more, or far above that of a guess."""

    def __init__(self, step: int, loss: float, limit: float, lr: float) -> None:
        self.step, self.loss = step, loss
        why = (
            f"above {limit:g}, many times that of a constant guess"
            if math.isfinite(loss)
            else "not a number to train on"
        )
        super().__init__(
            f"the loss of step {step} is {loss:g}, {why} (learning rate {lr:.3g}); write a lower lr, a longer "
            "warm-up or a smaller clip"
        )


class StopRequest:
    """The signal that asked this process to stop, 0 before one came. A second SIGINT interrupts at once, as usual."""

    def __init__(self) -> None:
        self.number = 0

    def hear(self, number: int, frame: FrameType | None) -> None:
        """Remember the signal; the loop looks at it between steps."""
        if self.number == number == signal.SIGINT:
            raise KeyboardInterrupt
        self.number = number


@contextmanager
def listening() -> Iterator[StopRequest]:
    """Inside, SIGTERM and SIGINT are remembered and do not end the process. Outside the main thread nothing changes,
    since Python handles signals there only."""
    request = StopRequest()
    if threading.current_thread() is not threading.main_thread():
        yield request
        return
    before = {number: signal.signal(number, request.hear) for number in ASKING}
    try:
        yield request
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def exclusive(run: Run, ranks: Ranks) -> Iterator[None]:
    """Lock the run folder for these processes; when training ends badly, write the reason into the run's status."""
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
            with suppress(UserError):  # a full disk may be the very reason
                if run.result is None:
                    step = error.step if isinstance(error, Diverged) else (run.status or {}).get("step")
                    diverged = {"diverged": True} if isinstance(error, Diverged) else {}
                    run.write_status(state=state, step=step, message=str(error), **diverged)
            raise
