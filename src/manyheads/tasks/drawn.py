"""Work whose samples are drawn, not read: fresh at every step, as a function of seed and step, on the device itself."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Protocol

import torch
from torch import Generator, Tensor, nn

from manyheads.data.randomness import key

NUMBERS = 2**22  # drawn at a time: a step of a small model takes no longer than the few launches of a draw
ROWS = 256  # samples of an evaluation step
Sample = tuple[Tensor, Tensor]  # inputs, and what is wanted of them


class DrawnTask(Protocol):
    """What the record of a drawn task states."""

    @property
    def held(self) -> int:
        """Samples held out."""

    @property
    def repeats(self) -> int:
        """Batches in an epoch that repeats; 0: no sample ever comes again."""

    @property
    def given(self) -> tuple[int, int]:
        """Tokens and coordinates of one sample's input."""


class Drawing(Protocol):
    """How samples of a drawn task are made and judged. Rows are independent of each other."""

    @property
    def task(self) -> DrawnTask:
        """The record."""

    def draw(self, generator: Generator, rows: int) -> tuple[Tensor, Tensor]:
        """Inputs and what is wanted of them."""

    def error(self, output: Tensor, inputs: Tensor, wanted: Tensor, /) -> Tensor:
        """The loss of each row."""

    def judge(self, output: Tensor, inputs: Tensor, wanted: Tensor, /) -> dict[str, Tensor]:
        """Further scores of each row."""

    def trivial(self) -> dict[str, float]:
        """What simple guesses score; `loss` is that of a constant."""


class DrawnWork:
    """A drawn task on a device. Training samples are drawn a block of steps at a time, so that a small model does not
    wait for many small launches; every process draws the whole batch and takes its rows.

    Held-out samples are drawn on the CPU, the same for every seed and device. `seen` is the loss on the first training
    samples: where data repeats, what the training loss comes to; where it does not, the held-out loss but for
    chance."""

    unit, better, waited = "tokens", ("loss", "down"), 0.0

    def __init__(self, drawing: Drawing, device: torch.device, seed: int, batch: int) -> None:
        self.drawing, self.task, self.device, self.seed, self.rows = drawing, drawing.task, device, seed, batch
        tokens, dim = self.task.given
        self.per_sample = tokens
        self.samples = self.task.repeats * batch or None
        self.together = max(1, min(64, NUMBERS // (batch * tokens * dim)))  # steps of a block
        self.block: tuple[int, Sample] | None = None
        self.kept: list[Sample] = []

    @property
    def held_out(self) -> int:
        """Samples held out."""
        return self.task.held

    def batch(self, step: int, rows: range) -> Sample:
        """Rows of a step."""
        number, inside = divmod(step % self.task.repeats if self.task.repeats else step, self.together)
        if self.block is None or self.block[0] != number:
            self.block = number, self._drawn(self.device, self.together * self.rows, "train", self.seed, number)
        chosen = slice(inside * self.rows + rows.start, inside * self.rows + rows.stop)
        inputs, wanted = self.block[1]
        return inputs[chosen], wanted[chosen]

    def _drawn(self, device: torch.device, rows: int, *place: int | str) -> Sample:
        return self.drawing.draw(Generator(device).manual_seed(key(*place)), rows)

    def loss(self, model: nn.Module, *batch: Tensor) -> Tensor:
        """The mean over the rows."""
        inputs, wanted = batch
        return self.drawing.error(model(inputs).float(), inputs, wanted).mean()

    def tally(self, model: nn.Module, share: tuple[int, int] = (0, 1)) -> dict[str, Tensor]:
        """Sums over part share[0] of share[1] of the held-out samples, and of the first training samples (`seen`)."""
        sums: dict[str, Tensor] = {}
        nothing = torch.zeros((), dtype=torch.float64, device=self.device)

        def add(name: str, values: Tensor) -> None:
            sums[name] = sums.get(name, nothing) + values.double().sum()

        for counted, sample in self._held(*share):
            output = model(sample[0]).float()
            scores = {"loss": self.drawing.error(output, *sample)} | self.drawing.judge(output, *sample)
            for name, values in scores.items():
                add(name, values[:counted])
            add("rows", torch.ones(counted, device=self.device))
        for counted, sample in self._seen(*share):
            add("seen", self.drawing.error(model(sample[0]).float(), *sample)[:counted])
            add("seen_rows", torch.ones(counted, device=self.device))
        return sums

    def _held(self, part: int, parts: int) -> Iterator[tuple[int, Sample]]:
        """This part's held-out samples, and how many of each lot count: as many lots for each part."""
        self._keep()
        steps = len(self.kept)
        for number in range(part, parts * math.ceil(steps / parts), parts):
            left = self.task.held - number * ROWS
            yield max(0, min(ROWS, left)), self.kept[min(number, steps - 1)]

    def _keep(self) -> None:
        if not self.kept:
            cpu = torch.device("cpu")
            lots = (self._drawn(cpu, ROWS, "held", number) for number in range(math.ceil(self.task.held / ROWS)))
            self.kept = [(inputs.to(self.device), wanted.to(self.device)) for inputs, wanted in lots]

    def _seen(self, part: int, parts: int) -> Iterator[tuple[int, Sample]]:
        steps = math.ceil(self.task.held / self.rows)
        steps = min(steps, self.task.repeats) if self.task.repeats else steps
        for step in range(part, parts * math.ceil(steps / parts), parts):
            yield self.rows if step < steps else 0, self.batch(step, range(self.rows))

    def score(self, tally: dict[str, Tensor]) -> dict[str, float]:
        """Means over the rows, and `skill`: how much of the best simple guess's error is gone."""
        found = {
            name: float(tally[name] / tally["rows"]) for name in tally if name not in ("rows", "seen", "seen_rows")
        }
        simple = self.trivial()
        found["skill"] = 1 - found["loss"] / simple.get("linear", simple["loss"])
        return found | {"seen": float(tally["seen"] / tally["seen_rows"])}

    def probe_batch(self, size: int) -> Tensor:
        """Inputs of the first held-out samples."""
        self._keep()
        return torch.cat([lot[0] for lot in self.kept[: math.ceil(size / ROWS)]])[:size]

    def trivial(self) -> dict[str, float]:
        """What simple guesses score."""
        return self.drawing.trivial()
