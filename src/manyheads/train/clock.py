"""Seconds of training: evaluations, probes and checkpoints stop the clock, and a resumed run goes on counting."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import torch


class Clock:
    """A stop watch that knows that a GPU works behind the program's back."""

    def __init__(self, device: torch.device, elapsed: float = 0.0) -> None:
        self.device, self.counted = device, elapsed
        self._since = time.monotonic()
        self._event: torch.cuda.Event | None = None

    def read(self) -> float:
        """Seconds so far."""
        return self.counted + time.monotonic() - self._since

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """In here no time passes; what the device still has to do counts before."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        self.counted = self.read()
        try:
            yield
        finally:
            if self.device.type == "cuda":
                torch.cuda.synchronize(self.device)
            self._since = time.monotonic()

    def pace(self) -> None:
        """Wait for the step before the last one: a program that runs far ahead of its GPU reads the wrong time."""
        if self.device.type == "cuda":
            before, self._event = self._event, torch.cuda.Event()
            self._event.record()
            if before is not None:
                before.synchronize()
