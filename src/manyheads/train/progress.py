"""What people see of a run: a bar on a terminal, plain lines elsewhere, nothing when asked; TensorBoard beside it."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, Protocol

from manyheads.spec.errors import UserError

from .budget import Budget

Style = Literal["auto", "bar", "lines", "none"]
QUIET_FOR = 5.0  # seconds between two plain lines


class Watch(Protocol):
    """Somebody who looks on. A caller may bring its own."""

    def say(self, text: str) -> None:
        """A sentence about the run."""

    def move(self, step: int, progress: float, rate: float, numbers: Mapping[str, float]) -> None:
        """How far it is, in samples a second how fast, and the latest numbers."""

    def record(self, step: int, numbers: Mapping[str, float]) -> None:
        """Numbers for a curve."""

    def close(self) -> None:
        """It is over."""


class Nobody:
    """Nobody looks on."""

    def say(self, text: str) -> None:
        """Not heard."""

    def move(self, step: int, progress: float, rate: float, numbers: Mapping[str, float]) -> None:
        """Not seen."""

    def record(self, step: int, numbers: Mapping[str, float]) -> None:
        """Not kept."""

    def close(self) -> None:
        """Nothing to close."""


class Lines(Nobody):
    """Plain lines on stderr, one every few seconds, for logs and pipes."""

    def __init__(self, name: str, budget: Budget, unit: str) -> None:
        self.name, self.budget, self.unit = name, budget, unit
        self._last = -QUIET_FOR

    def say(self, text: str) -> None:
        """A line of its own."""
        print(f"{self.name}: {text}", file=sys.stderr, flush=True)

    def move(self, step: int, progress: float, rate: float, numbers: Mapping[str, float]) -> None:
        """A line with everything, seldom."""
        now = time.monotonic()
        if now - self._last >= QUIET_FOR or progress >= 1.0:
            self._last = now
            total = f"/{self.budget.steps}" if self.budget.steps is not None else ""
            self.say(f"step {step}{total}  {100 * progress:.0f} %  {rate:,.0f} {self.unit}/s  {told(numbers)}")


class Bar(Nobody):
    """A progress bar with rate, numbers and the time left."""

    def __init__(self, name: str, budget: Budget, unit: str) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

        self.unit = unit
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TaskProgressColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[told]}"),
            console=Console(stderr=True),
        )
        self._task = self._bar.add_task(name, total=1.0, told="")
        self._bar.start()

    def say(self, text: str) -> None:
        """A line above the bar."""
        self._bar.console.print(text, highlight=False, markup=False)

    def move(self, step: int, progress: float, rate: float, numbers: Mapping[str, float]) -> None:
        """Move the bar."""
        self._bar.update(self._task, completed=progress, told=f"{rate:,.0f} {self.unit}/s  {told(numbers)}")

    def close(self) -> None:
        """Leave the bar where it is."""
        self._bar.stop()


class Board:
    """TensorBoard events beside another watch."""

    def __init__(self, inner: Watch, folder: Path) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise UserError(
                "TensorBoard events were asked for, and it is not installed; pip install tensorboard"
            ) from None
        self.inner, self._writer = inner, SummaryWriter(str(folder))
        self.say, self.move = inner.say, inner.move

    def record(self, step: int, numbers: Mapping[str, float]) -> None:
        """One point of every curve."""
        for name, value in numbers.items():
            self._writer.add_scalar(name, value, step)

    def close(self) -> None:
        """Close the events, too."""
        self._writer.close()
        self.inner.close()


def told(numbers: Mapping[str, float]) -> str:
    """Numbers for a narrow place."""
    return "  ".join(f"{name} {value:.4g}" for name, value in numbers.items())


def watch(style: Style | Watch, name: str, budget: Budget, unit: str, events: Path | None = None) -> Watch:
    """The watch of a style; `auto` is a bar on a terminal and lines elsewhere. `events` is a folder for TensorBoard."""
    kinds: dict[Any, Any] = {"bar": Bar, "lines": Lines, "auto": Bar if sys.stderr.isatty() else Lines}
    if style == "none":
        chosen: Watch = Nobody()
    elif isinstance(style, str):
        if style not in kinds:
            raise UserError(f"progress={style!r} is not known; write auto, bar, lines or none")
        chosen = kinds[style](name, budget, unit)
    else:
        chosen = style
    return chosen if events is None else Board(chosen, events)
