"""An axis: from values to places between 0 and 1, straight or logarithmic, and the round numbers along it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

APART = 0.075  # share of an axis that a number at a tick takes


@dataclass(frozen=True)
class Axis:
    """Values from `low` to `high`. A logarithmic one that was asked for is straight where values are not above 0."""

    low: float
    high: float
    log: bool = False

    @classmethod
    def over(cls, values: Sequence[float], *, log: bool = False, room: float = 0.0) -> Axis:
        """An axis that holds all values, with a share of its length as room at both ends."""
        log = log and min(values) > 0
        ends = [math.log10(value) if log else value for value in (min(values), max(values))]
        low, high = ends
        pad = (high - low) * room or (0.0 if high > low else abs(high) * 0.05 or 0.5)
        low, high = low - pad, high + pad
        return cls(10**low, 10**high, True) if log else cls(low, high)

    def share(self, value: float) -> float:
        """Where along the axis a value is, 0 to 1."""
        if self.log:
            return (math.log10(value) - math.log10(self.low)) / (math.log10(self.high) - math.log10(self.low))
        return (value - self.low) / (self.high - self.low)

    def ticks(self, *, whole: bool = False) -> list[float]:
        """Round values worth a mark; `whole` ones alone where halves mean nothing, as of layers and steps."""
        found = log_ticks(self.low, self.high) if self.log else ticks(self.low, self.high)
        return [value for value in found if value == round(value)] if whole else found

    def spaced(self, values: Sequence[float]) -> list[float]:
        """As many of the values, from the least up, as can be written beside each other."""
        kept: list[float] = []
        for value in sorted(set(values)):
            if not kept or self.share(value) - self.share(kept[-1]) >= APART:
                kept.append(value)
        return kept


def ticks(low: float, high: float, wanted: int = 5) -> list[float]:
    """Round numbers between `low` and `high`, about as many as wanted."""
    if not high > low:
        return [low]
    raw = (high - low) / wanted
    power = 10.0 ** math.floor(math.log10(raw))
    step = min((m * power for m in (1, 2, 2.5, 5, 10)), key=lambda step: abs(step - raw))
    first = math.ceil(low / step - 1e-9)
    return [round(i * step, 12) for i in range(first, math.floor(high / step + 1e-9) + 1)]


def log_ticks(low: float, high: float) -> list[float]:
    """1, 2 and 5 times powers of ten between `low` and `high`; powers alone where many, round numbers where few."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    few = len(powers) <= 4
    found = [m * 10.0**p for p in powers for m in ((1, 2, 5) if few else (1,)) if low <= m * 10.0**p <= high]
    step = max(1, math.ceil(len(found) / 7))
    return found[::step] if len(found) > 2 else ticks(low, high, 4)
