"""The progress of a run for people: a bar on a terminal, plain lines elsewhere, or nothing; also TensorBoard events."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

from manyheads.spec.errors import UserError

if TYPE_CHECKING:
    from rich.progress import Progress, ProgressColumn

    from .budget import TrainingBudget

Style = Literal["auto", "bar", "lines", "none"]
LINE_EVERY = 5.0  # seconds between two plain lines


class Watch(Protocol):
    """Whoever is told of the progress of a run. A caller of `train` may bring its own."""

    def say(self, text: str) -> None:
        """Show a sentence about the run."""

    def move(self, step: int, progress: float, rate: float, numbers: Mapping[str, float]) -> None:
        """Show how far the run is, its units (images, tokens) a second, and the latest numbers."""

    def record(self, step: int, numbers: Mapping[str, float]) -> None:
        """Take one point of each of several curves."""

    def close(self) -> None:
        """The run is over."""


class Silent:
    """Shows nothing."""

    def say(self, text: str) -> None:
        """Ignored."""

    def move(self, step: int, progress: float, rate: float, numbers: Mapping[str, float]) -> None:
        """Ignored."""

    def record(self, step: int, numbers: Mapping[str, float]) -> None:
        """Ignored."""

    def close(self) -> None:
        """Ignored."""


class LogLines(Silent):
    """Plain lines on stderr, one every few seconds, for log files and pipes."""

    def __init__(self, name: str, budget: TrainingBudget, unit: str) -> None:
        self.name, self.budget, self.unit = name, budget, unit
        self._last = -LINE_EVERY

    def say(self, text: str) -> None:
        """Print a line."""
        print(f"{self.name}: {text}", file=sys.stderr, flush=True)

    def move(self, step: int, progress: float, rate: float, numbers: Mapping[str, float]) -> None:
        """Print a line with everything, if the last one is some seconds old."""
        now = time.monotonic()
        if now - self._last >= LINE_EVERY or progress >= 1.0:
            self._last = now
            total = f"/{self.budget.steps}" if self.budget.steps is not None else ""
            self.say(f"step {step}{total}  {100 * progress:.0f} %  {rate:,.0f} {self.unit}/s  {listed(numbers)}")


def bars(*, elapsed: bool = False, transient: bool = False) -> Progress:
    """Progress bars on stderr for training and sweeps. Each task has a field `text`, which is shown behind its bar."""
    from rich import progress as p
    from rich.console import Console

    columns: list[ProgressColumn] = [p.TextColumn("{task.description}"), p.BarColumn(), p.TaskProgressColumn()]
    columns += [p.TimeElapsedColumn()] if elapsed else []
    columns += [p.TimeRemainingColumn(), p.TextColumn("{task.fields[text]}")]
    return p.Progress(*columns, console=Console(stderr=True), transient=transient)


class Bar(Silent):
    """A progress bar with rate, numbers and the time left."""

    def __init__(self, name: str, budget: TrainingBudget, unit: str) -> None:
        self.unit = unit
        self._bar = bars()
        self._task = self._bar.add_task(name, total=1.0, text="")
        self._bar.start()

    def say(self, text: str) -> None:
        """Print a line above the bar."""
        self._bar.console.print(text, highlight=False, markup=False)

    def move(self, step: int, progress: float, rate: float, numbers: Mapping[str, float]) -> None:
        """Move the bar."""
        self._bar.update(self._task, completed=progress, text=f"{rate:,.0f} {self.unit}/s  {listed(numbers)}")

    def close(self) -> None:
        """Leave the bar where it is."""
        self._bar.stop()


class TensorBoard:
    """Writes TensorBoard events, and passes everything else on to another watch."""

    def __init__(self, other: Watch, folder: Path) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise UserError(
                "TensorBoard events were asked for, and it is not installed; pip install tensorboard"
            ) from None
        self.other, self._writer = other, SummaryWriter(str(folder))
        self.say, self.move = other.say, other.move

    def record(self, step: int, numbers: Mapping[str, float]) -> None:
        """Write one point of every curve."""
        for name, value in numbers.items():
            self._writer.add_scalar(name, value, step)

    def close(self) -> None:
        """Close the events and the other watch."""
        self._writer.close()
        self.other.close()


def listed(numbers: Mapping[str, float]) -> str:
    """Numbers with their names, short enough for one line."""
    return "  ".join(f"{name} {value:.4g}" for name, value in numbers.items())


def watch(style: Style | Watch, name: str, budget: TrainingBudget, unit: str, events: Path | None = None) -> Watch:
    """The watch of a style; `auto` is a bar on a terminal and lines elsewhere. TensorBoard events go to `events`."""
    kinds: dict[Any, Any] = {"bar": Bar, "lines": LogLines, "auto": Bar if sys.stderr.isatty() else LogLines}
    if style == "none":
        chosen: Watch = Silent()
    elif isinstance(style, str):
        if style not in kinds:
            raise UserError(f"progress={style!r} is not known; write auto, bar, lines or none")
        chosen = kinds[style](name, budget, unit)
    else:
        chosen = style
    return chosen if events is None else TensorBoard(chosen, events)
