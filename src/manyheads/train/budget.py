"""What a run may spend and what it has spent: steps or seconds, when something is due, and how the batch grows.

A recipe's basis (steps, samples, tokens, epochs, FLOPs or seconds) becomes a `TrainingBudget`. With `Recipe.ramp` the
batch grows over the first part of the run, as in Crammed BERT: data is dealt in parts of `Recipe.rows` samples,
numbered through the whole run, and a step takes more and more of them; the mean of their gradients makes one update."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch

from manyheads.arch.count import training_flops
from manyheads.spec.arch import Arch
from manyheads.spec.errors import UserError
from manyheads.spec.recipe import Basis, Recipe
from manyheads.spec.task import Task


@dataclass(frozen=True)
class TrainingBudget:
    """What a run may spend: `steps`, or `seconds` of training where `steps` is None. Where the batch grows and samples
    are counted, `parts_before` holds the number of parts of a batch made before each step, and last the number made in
    the whole run."""

    steps: int | None
    seconds: float | None = None
    parts_before: tuple[int, ...] | None = None

    def progress(self, step: int, elapsed: float) -> float:
        """The share of the budget, from 0 to 1, that is spent after `step` steps that took `elapsed` seconds."""
        if self.parts_before is not None:
            return self.parts_before[min(step, len(self.parts_before) - 1)] / self.parts_before[-1]
        if self.steps is not None:
            return min(1.0, step / self.steps)
        assert self.seconds is not None
        return min(1.0, elapsed / self.seconds)

    def midpoint(self, step: int, elapsed: float) -> float:
        """The progress in the middle of step number `step`, which is about to be made. The schedule is read there, so
        that neither a warm-up from 0 nor a decay to 0 has a step with learning rate 0."""
        if self.parts_before is not None:
            return (self.progress(step, elapsed) + self.progress(step + 1, elapsed)) / 2
        return (step + 0.5) / self.steps if self.steps is not None else self.progress(step, elapsed)

    def parts(self, recipe: Recipe, step: int, elapsed: float) -> int:
        """The number of parts of the batch that step number `step` takes."""
        if self.parts_before is not None:
            return self.parts_before[step + 1] - self.parts_before[step]
        return ramp_parts(recipe, self.progress(step, elapsed))

    def samples(self, recipe: Recipe) -> int | None:
        """Samples of the whole run; None on the `seconds` basis, where nobody knows."""
        if self.steps is None:
            return None
        if not recipe.ramp:
            return self.steps * recipe.batch
        return recipe.rows * sum(self.parts(recipe, step, 0.0) for step in range(self.steps))

    def spent(self, step: int, elapsed: float) -> bool:
        """Whether nothing is left."""
        return self.progress(step, elapsed) >= 1.0

    def due(self, every: float, step: int, before: float, after: float) -> bool:
        """Whether something that is done `every` so often (see `Recipe`) is due after the `step`th step; `before` and
        `after` are the elapsed seconds around that step."""
        if every == 0:
            return False
        if every >= 1:
            return step % int(every) == 0
        if self.parts_before is not None:
            here, last = (math.floor(self.progress(at, after) / every + 1e-9) for at in (step, step - 1))
            return here > last
        if self.steps is not None:  # the nearest whole number of steps; rounding errors must not shift it
            return step % max(1, round(every * self.steps)) == 0
        return math.floor(self.progress(step, after) / every) > math.floor(self.progress(step, before) / every)


def budget(recipe: Recipe, arch: Arch, *, unit: str, per_sample: int, samples: int | None) -> TrainingBudget:
    """The budget of `recipe` for `arch`, on a task with `per_sample` units in a sample and `samples` samples in an
    epoch."""
    basis = recipe.basis
    if basis.kind == "seconds":
        return TrainingBudget(None, basis.amount)
    count = max(1, round(basis.amount / per_step(basis, recipe.dealt, arch, unit, per_sample, samples)))
    if recipe.ramp and basis.kind != "steps":
        parts = ramp_schedule(recipe, count)
        return TrainingBudget(len(parts) - 1, parts_before=parts)
    return TrainingBudget(count)


def per_step(basis: Basis, batch: int, arch: Arch, unit: str, per_sample: int, samples: int | None) -> float:
    """How much of a countable basis one step of `batch` samples spends."""
    match basis.kind:
        case "steps":
            return 1.0
        case "samples":
            return float(batch)
        case "tokens":
            if unit != "tokens":
                raise UserError(f"the basis is tokens, and this task counts {unit}; write samples")
            return float(batch * per_sample)
        case "flops":
            return float(batch * training_flops(arch))
        case "epochs":
            if samples is None:
                raise UserError("the basis is epochs, and this task's data never ends; write steps or samples")
            return batch / samples
        case "seconds":
            raise AssertionError("time is measured, not counted")


def check_ramp(recipe: Recipe, task: Task) -> None:
    """Refuse a growing batch for a task that replays a fixed number of batches, since these have no one size."""
    if recipe.ramp and task.repeats:
        raise UserError(
            f"recipe.ramp is {recipe.ramp} and the task replays {task.repeats} batches, which have no one size where "
            "the batch grows; write ramp=0, or replay=0"
        )


def ramp_parts(recipe: Recipe, progress: float) -> int:
    """The number of parts that a step beginning at `progress` takes: 1 at first, one more after each equal share of the
    ramp, and all of them at its end. For 64 parts of 128 and a ramp of 0.6 that is Crammed BERT's
    min(128 (floor(t / 0.6 x 64) + 1), 8192)."""
    if not recipe.ramp:
        return recipe.accumulate
    return min(recipe.accumulate, int(progress / recipe.ramp * recipe.accumulate) + 1)


def ramp_schedule(recipe: Recipe, total: int) -> tuple[int, ...]:
    """The number of parts made before each step of a run of `total` parts, and last `total`. Progress is the share of
    parts made, just as on the `seconds` basis it is the share of time; the last step takes what is left."""
    parts = [0]
    while parts[-1] < total:
        parts.append(min(total, parts[-1] + ramp_parts(recipe, parts[-1] / total)))
    return tuple(parts)


class Clock:
    """Seconds of training. Evaluations, probes and checkpoints stop the clock; a resumed run continues from `elapsed`.
    A GPU works asynchronously, so the clock waits for it where that matters."""

    def __init__(self, device: torch.device, elapsed: float = 0.0) -> None:
        self.device, self.counted = device, elapsed
        self._since = time.monotonic()
        self._event: torch.cuda.Event | None = None

    def read(self) -> float:
        """Seconds so far."""
        return self.counted + time.monotonic() - self._since

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """Count no time inside; what the device still has to do is counted before."""
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
