"""Ways to die: by kill -9 at a random moment, and at the n-th thing a run does to its folder."""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from pathlib import Path
from typing import Any

from manyheads.runs import RunSpec
from tests.train.tiny import spawn
from tests.train.workers import train_alone

KILLED = -signal.SIGKILL


def attempt(folder: Path, spec: RunSpec, seconds: float) -> int:
    """Train in a process of its own and kill it after so many seconds; its exit code, 0 where it was faster."""
    process = spawn(train_alone, str(folder), spec.to_dict())
    process.join(seconds)
    if process.is_alive():
        assert process.pid is not None
        os.kill(process.pid, signal.SIGKILL)
    process.join(180)
    assert process.exitcode in (0, KILLED)
    return process.exitcode


def killed_at(folder: Path, spec: RunSpec, event: int) -> int:
    """Train in a process that kills itself at the `event`th file operation in its folder; its exit code."""
    process = spawn(train_until, str(folder), spec.to_dict(), event)
    process.join(180)
    assert process.exitcode in (0, KILLED)
    return process.exitcode


def train_until(folder: str, spec: dict[str, Any], event: int) -> None:
    """Train, and at the `event`th file operation in the folder be gone, without a chance to tidy up."""
    left = event

    def look(name: str, arguments: tuple[Any, ...]) -> None:
        nonlocal left
        if name in ("open", "os.rename", "os.mkdir", "os.remove", "os.rmdir", "os.truncate") and any(
            isinstance(argument, str | os.PathLike) and folder in os.fspath(argument) for argument in arguments
        ):
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(look)
    train_alone(folder, spec)


def waits(seed: int, low: float, high: float) -> Any:
    """Endless random seconds."""
    random_numbers = random.Random(seed)
    while True:
        yield random_numbers.uniform(low, high)


def timed(folder: Path, spec: RunSpec) -> float:
    """Train undisturbed; the seconds from the process's start to its end."""
    began = time.monotonic()
    assert attempt(folder, spec, 180) == 0
    return time.monotonic() - began
