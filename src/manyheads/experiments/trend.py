"""A relation between two numbers over the designs of an experiment: does the one go up with the other?

Each seed gives one rank correlation over all arms; their mean over seeds with Student's interval is the effect, so that
the rule of `verdict` judges it as any other."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from .statistics import LEVEL, Effect, mean, spread, student

LEAST = 4  # arms: three points are in order by chance one time in three
Values = Mapping[str, Mapping[int, float]]  # by arm, then by seed


@dataclass(frozen=True)
class Trend:
    """Over the arms of an experiment, `y` is expected to be `more` or `less` where `x` is more: both name a score, a
    number that the probe writes, or a number of the architecture (heads, depth, inner, params)."""

    x: str
    y: str
    expect: Literal["more", "less"]
    claim: str = ""


def trend(x: Values, y: Values, level: float = LEVEL) -> Effect:
    """The mean over seeds of Spearman's rank correlation between `x` and `y`, and its interval. Seeds with fewer than
    `LEAST` arms in both are left out."""
    seeds = sorted({seed for values in x.values() for seed in values})
    found = []
    for seed in seeds:
        both = [(x[arm][seed], y[arm][seed]) for arm in x if seed in x[arm] and seed in y.get(arm, {})]
        if len(both) >= LEAST:
            found.append(spearman([a for a, _ in both], [b for _, b in both]))
    if not found:
        return Effect(math.nan, -math.inf, math.inf, 0, False, False, level)
    n, middle = len(found), mean(found)
    half = student(level, n - 1.0) * spread(found) / math.sqrt(n) if n > 1 else math.inf
    return Effect(middle, middle - half, middle + half, n, False, min(found) > 0 or max(found) < 0, level)


def spearman(a: Sequence[float], b: Sequence[float]) -> float:
    """Correlation of ranks, equal values sharing their mean rank; 0 where one side does not vary."""
    first, second = ranks(a), ranks(b)
    x, y = ([value - mean(side) for value in side] for side in (first, second))
    below = math.sqrt(math.fsum(value * value for value in x) * math.fsum(value * value for value in y))
    return math.fsum(p * q for p, q in zip(x, y, strict=True)) / below if below else 0.0


def ranks(values: Sequence[float]) -> list[float]:
    """1 for the smallest; equal values have the mean of their ranks."""
    return [
        sum(other < value for other in values) + (sum(other == value for other in values) + 1) / 2 for value in values
    ]
