"""A basis becomes a budget: how many steps, how far a run has come, when something is due."""

from __future__ import annotations

import math
from dataclasses import dataclass

from manyheads.arch.count import training_flops
from manyheads.spec.arch import Arch
from manyheads.spec.errors import UserError
from manyheads.spec.recipe import Basis, Recipe

from . import ramp


@dataclass(frozen=True)
class Budget:
    """What a run may spend: `steps`, or where that is None `seconds` of training. Where the batch grows and samples are
    counted, `made` are the parts of batches made before each step, and in the end."""

    steps: int | None
    seconds: float | None = None
    made: tuple[int, ...] | None = None

    def progress(self, step: int, elapsed: float) -> float:
        """How much is spent after `step` steps that took `elapsed` seconds, from 0 to 1."""
        if self.made is not None:
            return self.made[min(step, len(self.made) - 1)] / self.made[-1]
        if self.steps is not None:
            return min(1.0, step / self.steps)
        assert self.seconds is not None
        return min(1.0, elapsed / self.seconds)

    def now(self, step: int, elapsed: float) -> float:
        """The progress that step number `step`, about to be made, stands at: its middle, so that neither a warm-up from
        0 nor a decay to 0 makes a step that changes nothing."""
        if self.made is not None:
            return (self.progress(step, elapsed) + self.progress(step + 1, elapsed)) / 2
        return (step + 0.5) / self.steps if self.steps is not None else self.progress(step, elapsed)

    def parts(self, recipe: Recipe, step: int, elapsed: float) -> int:
        """Parts of the batch that step number `step` takes."""
        if self.made is not None:
            return self.made[step + 1] - self.made[step]
        return ramp.parts(recipe, self.progress(step, elapsed))

    def samples(self, recipe: Recipe) -> int | None:
        """Samples of the whole run; None where the clock decides."""
        if self.steps is None:
            return None
        if not recipe.ramp:
            return self.steps * recipe.batch
        return recipe.rows * sum(self.parts(recipe, step, 0.0) for step in range(self.steps))

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
        if self.made is not None:
            here, last = (math.floor(self.progress(at, after) / every + 1e-9) for at in (step, step - 1))
            return here > last
        if self.steps is not None:  # the nearest whole number of steps; rounding errors must not shift it
            return step % max(1, round(every * self.steps)) == 0
        return math.floor(self.progress(step, after) / every) > math.floor(self.progress(step, before) / every)


def budget(recipe: Recipe, arch: Arch, *, unit: str, per_sample: int, samples: int | None) -> Budget:
    """The budget of `recipe` for `arch` on a task whose sample is `per_sample` units, of which an epoch has
    `samples`."""
    basis = recipe.basis
    if basis.kind == "seconds":
        return Budget(None, basis.amount)
    count = max(1, round(basis.amount / per_step(basis, recipe.dealt, arch, unit, per_sample, samples)))
    if recipe.ramp and basis.kind != "steps":
        made = ramp.made(recipe, count)
        return Budget(len(made) - 1, made=made)
    return Budget(count)


def per_step(basis: Basis, batch: int, arch: Arch, unit: str, per_sample: int, samples: int | None) -> float:
    """How much of a basis that can be counted one step of `batch` samples spends."""
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
