"""Work on samples that are drawn at random on the device, as a function of seed and step, instead of being read."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Protocol

import torch
from torch import Generator, Tensor, nn

from manyheads.data.randomness import key

NUMBERS = 2**22  # drawn at a time: the launches of one draw would take as long as a step of a small model
ROWS = 256  # samples of an evaluation step
Sample = tuple[Tensor, Tensor]  # inputs and answers


class DrawnTask(Protocol):
    """What the record of a drawn task states."""

    @property
    def held(self) -> int:
        """Samples held out."""

    @property
    def repeats(self) -> int:
        """Batches in an epoch; 0 where no sample comes twice."""

    @property
    def given(self) -> tuple[int, int]:
        """Tokens and coordinates of one sample's input."""


class Drawing(Protocol):
    """How the samples of a drawn task are drawn and judged, row by row."""

    @property
    def task(self) -> DrawnTask:
        """The record."""

    def draw(self, generator: Generator, rows: int) -> tuple[Tensor, Tensor]:
        """Inputs and answers."""

    def error(self, output: Tensor, inputs: Tensor, answers: Tensor, /) -> Tensor:
        """The loss of each row."""

    def judge(self, output: Tensor, inputs: Tensor, answers: Tensor, /) -> dict[str, Tensor]:
        """Further scores of each row."""

    def trivial(self) -> dict[str, float]:
        """The scores of simple guesses; `loss` is that of a constant."""


class DrawnWork:
    """A drawn task on a device. Training samples are drawn for a block of steps at a time, so that a small model does
    not wait for many small launches. Every process draws the whole batch and takes its rows.

    Held-out samples are drawn on the CPU and are the same for every seed and device. The score `seen` is the loss on
    the first training samples: the training loss where data repeats; elsewhere it differs from the held-out loss only
    by chance."""

    unit, better, waited = "tokens", ("loss", "down"), 0.0

    def __init__(self, drawing: Drawing, device: torch.device, seed: int, batch: int) -> None:
        self.drawing, self.task, self.device, self.seed, self.rows = drawing, drawing.task, device, seed, batch
        tokens, dim = self.task.given
        self.per_sample = tokens
        self.samples = self.task.repeats * batch or None
        self.together = max(1, min(64, NUMBERS // (batch * tokens * dim)))  # steps of a block
        self.block: tuple[int, Sample] | None = None
        self.held_samples: list[Sample] = []

    @property
    def held_out(self) -> int:
        """Number of held-out samples."""
        return self.task.held

    def batch(self, step: int, rows: range) -> Sample:
        """Inputs and answers of these rows of a step."""
        number, inside = divmod(step % self.task.repeats if self.task.repeats else step, self.together)
        if self.block is None or self.block[0] != number:
            self.block = number, self._sample(self.device, self.together * self.rows, "train", self.seed, number)
        part = slice(inside * self.rows + rows.start, inside * self.rows + rows.stop)
        inputs, answers = self.block[1]
        return inputs[part], answers[part]

    def _sample(self, device: torch.device, rows: int, *place: int | str) -> Sample:
        return self.drawing.draw(Generator(device).manual_seed(key(*place)), rows)

    def loss(self, model: nn.Module, *batch: Tensor) -> Tensor:
        """The mean over the rows."""
        inputs, answers = batch
        return self.drawing.error(model(inputs).float(), inputs, answers).mean()

    def tally(self, model: nn.Module, share: tuple[int, int] = (0, 1)) -> dict[str, Tensor]:
        """Sums over part share[0] of share[1] of the held-out samples, and of the first training samples (`seen`)."""
        sums: dict[str, Tensor] = {}
        nothing = torch.zeros((), dtype=torch.float64, device=self.device)

        def add(name: str, values: Tensor) -> None:
            sums[name] = sums.get(name, nothing) + values.double().sum()

        for count, sample in self._held_samples(*share):
            output = model(sample[0]).float()
            scores = {"loss": self.drawing.error(output, *sample)} | self.drawing.judge(output, *sample)
            for name, values in scores.items():
                add(name, values[:count])
            add("rows", torch.ones(count, device=self.device))
        for count, sample in self._first_samples(*share):
            add("seen", self.drawing.error(model(sample[0]).float(), *sample)[:count])
            add("seen_rows", torch.ones(count, device=self.device))
        return sums

    def _held_samples(self, part: int, parts: int) -> Iterator[tuple[int, Sample]]:
        """This part's batches of held-out samples, with how many of each count. Every part has as many batches."""
        self._draw_held()
        steps = len(self.held_samples)
        for number in range(part, parts * math.ceil(steps / parts), parts):
            left = self.task.held - number * ROWS
            yield max(0, min(ROWS, left)), self.held_samples[min(number, steps - 1)]

    def _draw_held(self) -> None:
        if not self.held_samples:
            cpu = torch.device("cpu")
            lots = (self._sample(cpu, ROWS, "held", number) for number in range(math.ceil(self.task.held / ROWS)))
            self.held_samples = [(inputs.to(self.device), answers.to(self.device)) for inputs, answers in lots]

    def _first_samples(self, part: int, parts: int) -> Iterator[tuple[int, Sample]]:
        steps = math.ceil(self.task.held / self.rows)
        steps = min(steps, self.task.repeats) if self.task.repeats else steps
        for step in range(part, parts * math.ceil(steps / parts), parts):
            yield self.rows if step < steps else 0, self.batch(step, range(self.rows))

    def score(self, tally: dict[str, Tensor]) -> dict[str, float]:
        """Means over the rows, and `skill`: the share of the best simple guess's error that the model avoids."""
        others = ("rows", "seen", "seen_rows")
        means = {name: float(tally[name] / tally["rows"]) for name in tally if name not in others}
        simple = self.trivial()
        means["skill"] = 1 - means["loss"] / simple.get("linear", simple["loss"])
        return means | {"seen": float(tally["seen"] / tally["seen_rows"])}

    def probe_batch(self, size: int) -> Tensor:
        """Inputs of the first held-out samples."""
        self._draw_held()
        return torch.cat([lot[0] for lot in self.held_samples[: math.ceil(size / ROWS)]])[:size]

    def trivial(self) -> dict[str, float]:
        """The scores of simple guesses."""
        return self.drawing.trivial()
