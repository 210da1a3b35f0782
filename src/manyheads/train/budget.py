"""A basis becomes a budget: how many steps, how far a run has come, when something is due."""

from __future__ import annotations

import math
from dataclasses import dataclass

from manyheads.arch.errors import UserError
from manyheads.arch.flops import training_flops
from manyheads.arch.spec import Arch

from .recipe import Basis, Recipe


@dataclass(frozen=True)
class Budget:
    """What a run may spend: `steps`, or where that is None `seconds` of training."""

    steps: int | None
    seconds: float | None = None

    def progress(self, step: int, elapsed: float) -> float:
        """How much is spent after `step` steps that took `elapsed` seconds, from 0 to 1."""
        if self.steps is not None:
            return min(1.0, step / self.steps)
        assert self.seconds is not None
        return min(1.0, elapsed / self.seconds)

    def now(self, step: int, elapsed: float) -> float:
        """The progress that step number `step`, about to be made, stands at: its middle, so that neither a warm-up from 0
        nor a decay to 0 makes a step that changes nothing."""
        return (step + 0.5) / self.steps if self.steps is not None else self.progress(step, elapsed)

    def spent(self, step: int, elapsed: float) -> bool:
        """Whether nothing is left."""
        return self.progress(step, elapsed) >= 1.0

    def due(self, every: float, step: int, before: float, after: float) -> bool:
        """Whether a cadence falls on the step just made, the `step`th; `before` and `after` are the elapsed seconds
        around it. See `Recipe` for what `every` means."""
        if every == 0:
            return False
        if every >= 1:
            return step % int(every) == 0
        if self.steps is not None:  # the nearest whole number of steps; rounding errors must not shift it
            return step % max(1, round(every * self.steps)) == 0
        return math.floor(self.progress(step, after) / every) > math.floor(self.progress(step, before) / every)


def budget(recipe: Recipe, arch: Arch, *, unit: str, per_sample: int, samples: int | None) -> Budget:
    """The budget of `recipe` for `arch` on a task whose sample is `per_sample` units, of which an epoch has `samples`."""
    basis = recipe.basis
    if basis.kind == "seconds":
        return Budget(None, basis.amount)
    return Budget(max(1, round(basis.amount / per_step(basis, recipe.batch, arch, unit, per_sample, samples))))


def per_step(basis: Basis, batch: int, arch: Arch, unit: str, per_sample: int, samples: int | None) -> float:
    """How much of a basis that can be counted one step spends."""
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
