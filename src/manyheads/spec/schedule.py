"""The learning rate as a pure function of progress, from 0 at the first step to 1 when the budget is spent."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from manyheads.spec.field_checks import check_types

from .errors import UserError

Kind = Literal["constant", "cosine", "linear", "one_cycle", "triangle"]
Curve = Literal["flat", "line", "wave"]

# kind -> how it rises during the warm-up, how it falls after it
CURVES: dict[Kind, tuple[Curve, Curve]] = {
    "constant": ("line", "flat"),
    "cosine": ("line", "wave"),
    "linear": ("line", "line"),
    "one_cycle": ("wave", "wave"),
    "triangle": ("line", "line"),  # the name that wall-clock recipes use for two straight lines
}


@dataclass(frozen=True)
class Schedule:
    """The learning rate rises from `start` to 1 over the first `warmup` of a run, then falls to `end`. `warmup` is a
    fraction of the run; `start` and `end` are fractions of the recipe's learning rate.

    `beta1 = (high, low)` moves AdamW's first beta against the learning rate, as PyTorch's OneCycleLR does by
    default."""

    kind: Kind = "cosine"
    warmup: float = 0.0
    start: float = 0.0
    end: float = 0.0
    beta1: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        if isinstance(self.beta1, list):
            object.__setattr__(self, "beta1", tuple(self.beta1))
        check_types(self, "recipe.schedule")
        for name in ("warmup", "start", "end"):
            value = float(getattr(self, name))
            object.__setattr__(self, name, value)
            if not 0.0 <= value <= 1.0:
                raise UserError(f"schedule.{name} is {value}; write a fraction from 0 to 1, such as 20/300")
        if self.beta1 is not None:
            object.__setattr__(self, "beta1", tuple(map(float, self.beta1)))
            if not all(0.0 <= beta < 1.0 for beta in self.beta1):
                raise UserError(f"schedule.beta1 is {self.beta1}; write its highest and lowest value, as [0.95, 0.85]")


def factor(schedule: Schedule, progress: float) -> float:
    """The fraction of the recipe's learning rate at `progress`, which is clipped to 0 to 1."""
    return _at(schedule, progress, schedule.start, 1.0, schedule.end)


def beta1(schedule: Schedule, progress: float) -> float | None:
    """AdamW's first beta at `progress`, lowest where the learning rate is highest; None where it is constant."""
    if schedule.beta1 is None:
        return None
    high, low = schedule.beta1
    return _at(schedule, progress, high, low, high)


def _at(schedule: Schedule, progress: float, start: float, peak: float, end: float) -> float:
    """A value at `progress` that moves from `start` to `peak` during the warm-up and to `end` after it."""
    t = min(1.0, max(0.0, progress))
    rise, fall = CURVES[schedule.kind]
    if t < schedule.warmup:
        return _between(rise, start, peak, t / schedule.warmup)
    rest = 1.0 - schedule.warmup
    return _between(fall, peak, end, (t - schedule.warmup) / rest if rest else 0.0)


def _between(curve: Curve, first: float, last: float, t: float) -> float:
    """From `first` at t = 0 to `last` at t = 1."""
    if curve == "flat":
        return first
    share = t if curve == "line" else (1.0 - math.cos(math.pi * t)) / 2.0
    return first + (last - first) * share
