"""What a few seeds allow one to say: mean and spread, the difference between two arms with its confidence interval, a
rank correlation over all arms, and the best of several arms."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from manyheads.spec.experiment import Best

LEVEL = 0.95
LEAST = 4  # arms of a rank correlation: three are in order by chance one time in three
Values = Mapping[int, float]  # by seed


def mean(values: Sequence[float]) -> float:
    """Arithmetic mean."""
    return math.fsum(values) / len(values)


def spread(values: Sequence[float]) -> float:
    """Standard deviation of a sample (n - 1); 0 for a single value."""
    if len(values) < 2:
        return 0.0
    middle = mean(values)
    return math.sqrt(math.fsum((value - middle) ** 2 for value in values) / (len(values) - 1))


@dataclass(frozen=True)
class Effect:
    """The difference between the means of two arms, and the interval that holds the true one with probability `level`
    if seeds scatter normally. `paired`: the same seeds on both sides, so that what a seed does to both cancels.
    `apart`: every seed of one arm is above every seed of the other. The interval is infinite where one seed is all
    there is."""

    difference: float
    low: float
    high: float
    seeds: int
    paired: bool
    apart: bool
    level: float = LEVEL


def effect(arm: Mapping[int, float], against: Mapping[int, float], level: float = LEVEL) -> Effect:
    """How `arm` differs from `against`, values by seed. Over the seeds they share where there are two of them
    (Student's t on the differences), and by Welch's interval, which pairs nothing, where there are not."""
    shared = sorted(arm.keys() & against.keys())
    paired = len(shared) > 1 or len(arm) == len(against) == len(shared)
    ours = [arm[seed] for seed in shared] if paired else list(arm.values())
    theirs = [against[seed] for seed in shared] if paired else list(against.values())
    apart = min(ours) > max(theirs) or max(ours) < min(theirs)
    difference = mean(ours) - mean(theirs)
    if paired:
        n = len(shared)
        error = spread([a - b for a, b in zip(ours, theirs, strict=True)]) / math.sqrt(n)
        freedom = n - 1.0
    else:
        n = min(len(ours), len(theirs))
        parts = [spread(values) ** 2 / len(values) for values in (ours, theirs)]
        error = math.sqrt(sum(parts))
        bottom = sum(part**2 / (len(values) - 1) for part, values in zip(parts, (ours, theirs), strict=True) if part)
        freedom = sum(parts) ** 2 / bottom if n > 1 and bottom else n - 1.0
    half = student(level, freedom) * error if freedom > 0 else math.inf
    return Effect(difference, difference - half, difference + half, n, paired, apart, level)


@lru_cache(maxsize=4096)  # a page asks for the same few again and again
def student(level: float, freedom: float) -> float:
    """The t for which Student's distribution has `level` of its mass between -t and t."""
    low, high = 0.0, 1.0
    while _inside(high, freedom) < level:
        low, high = high, 2 * high
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if _inside(middle, freedom) < level else (low, middle)
    return (low + high) / 2


def _inside(t: float, freedom: float) -> float:
    """Mass of Student's distribution between -t and t: 1 - I_x(freedom/2, 1/2) with x = freedom / (freedom + t^2)."""
    return 1.0 - _beta(freedom / (freedom + t * t), freedom / 2, 0.5)


def _beta(x: float, a: float, b: float) -> float:
    """The regularised incomplete beta function I_x(a, b), by its continued fraction (DLMF 8.17.22)."""
    if x <= 0.0 or x >= 1.0:
        return min(1.0, max(0.0, x))
    if x > (a + 1) / (a + b + 2):  # where the fraction would converge slowly
        return 1.0 - _beta(1.0 - x, b, a)
    front = math.exp(math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)) / a
    value = 1.0  # from the innermost term outwards
    for m in range(200, 0, -1):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m - 1) * (a + b + m - 1) * x / ((a + 2 * m - 2) * (a + 2 * m - 1))
        value = 1.0 + odd / (1.0 + even / value)
    return front / value


def trend(x: Mapping[str, Values], y: Mapping[str, Values], level: float = LEVEL) -> Effect:
    """The mean over seeds of Spearman's rank correlation between `x` and `y`, and its interval. Seeds with fewer than
    `LEAST` arms in both are left out."""
    seeds = sorted({seed for values in x.values() for seed in values})
    correlations = []
    for seed in seeds:
        both = [(x[arm][seed], y[arm][seed]) for arm in x if seed in x[arm] and seed in y.get(arm, {})]
        if len(both) >= LEAST:
            correlations.append(spearman([a for a, _ in both], [b for _, b in both]))
    if not correlations:
        return Effect(math.nan, -math.inf, math.inf, 0, False, False, level)
    n, middle = len(correlations), mean(correlations)
    half = student(level, n - 1.0) * spread(correlations) / math.sqrt(n) if n > 1 else math.inf
    return Effect(middle, middle - half, middle + half, n, False, min(correlations) > 0 or max(correlations) < 0, level)


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


def choose(best: Best, values: Mapping[str, Values], better: Literal["up", "down"]) -> tuple[str, dict[int, float]]:
    """The arm that is best at the lowest seed that all finished arms have, and its values at the other seeds: a seed
    that chose says nothing about the choice. Nothing where no arm has finished, or no seed is shared."""
    finished = {arm: values[arm] for arm in best.arms if values.get(arm)}
    shared = set.intersection(*(set(seeds) for seeds in finished.values())) if finished else set()
    if not shared:
        return "", {}
    seed = min(shared)
    pick = max if better == "up" else min
    arm = pick(finished, key=lambda name: finished[name][seed])  # of equals the first
    return arm, {other: value for other, value in finished[arm].items() if other != seed}
