"""What a few seeds allow one to say: mean and spread, the difference between two arms or two differences with its
confidence interval, and the best of several arms. Correlations and growth are in `designs`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from manyheads.spec.experiment import Best

LEVEL = 0.95
ALIKE = 0.05  # a scatter that is larger than that of all arms with less chance than this is not the same
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
    """A difference between means over seeds, and the interval that holds the true one with probability `level` if seeds
    scatter normally. `paired`: the same seeds on both sides, so that what a seed does to both cancels. `error` is the
    standard error of the difference and `freedom` its degrees of freedom; 0 where one seed is all there is, and the
    interval is then infinite. `pooled`: the scatter is that of all arms of the section."""

    difference: float
    low: float
    high: float
    seeds: int
    paired: bool
    error: float
    freedom: float
    pooled: bool = False
    level: float = LEVEL

    def above(self, bound: float) -> float:
        """The two-sided probability of a difference at least this far above `bound`, if the true one were `bound`; 1
        where it is not above."""
        return self._chance(self.difference - bound)

    def below(self, bound: float) -> float:
        """The same for a difference below `bound`."""
        return self._chance(bound - self.difference)

    def _chance(self, distance: float) -> float:
        if self.freedom <= 0 or distance <= 0:
            return 1.0
        return 1.0 - _inside(distance / self.error, self.freedom) if self.error else 0.0

    @property
    def visible(self) -> float:
        """The smallest true difference that this many seeds with this scatter show in four of five experiments."""
        if self.freedom <= 0:
            return math.inf
        return (student(self.level, self.freedom) + student(0.6, self.freedom)) * self.error


@dataclass(frozen=True)
class Scatter:
    """How much one run scatters around what its arm and its seed make of it, from all arms of a section."""

    deviation: float
    freedom: float


def pooled_scatter(arms: Sequence[Values]) -> Scatter | None:
    """What is left of the values of all arms at the seeds that they share, without the means of arms and of seeds. None
    with fewer than two arms or shared seeds."""
    arms = [arm for arm in arms if arm]
    seeds = sorted(set.intersection(*(set(arm) for arm in arms))) if arms else []
    if len(arms) < 2 or len(seeds) < 2:
        return None
    by_seed = {seed: mean([arm[seed] for arm in arms]) for seed in seeds}
    total = mean(list(by_seed.values()))
    rest = [arm[seed] - mean([arm[s] for s in seeds]) - by_seed[seed] + total for arm in arms for seed in seeds]
    freedom = (len(arms) - 1) * (len(seeds) - 1)
    return Scatter(math.sqrt(math.fsum(value * value for value in rest) / freedom), float(freedom))


def effect(arm: Values, against: Values, level: float = LEVEL, scatter: Scatter | None = None) -> Effect:
    """How `arm` differs from `against`, values by seed. Over the seeds they share where there are two of them
    (Student's t on the differences), and by Welch's interval, which pairs nothing, where there are not."""
    return contrast([(1.0, arm), (-1.0, against)], level, scatter)


def contrast(terms: Sequence[tuple[float, Values]], level: float = LEVEL, scatter: Scatter | None = None) -> Effect:
    """A weighted sum of the means of several arms, such as the difference of two differences. With `scatter`, that of all
    arms takes the place of theirs, unless theirs is clearly larger."""
    shared = sorted(set.intersection(*(set(values) for _, values in terms)))
    paired = len(shared) > 1 or all(len(values) == len(shared) for _, values in terms)
    if paired:
        n = len(shared)
        sums = [math.fsum(weight * values[seed] for weight, values in terms) for seed in shared]
        difference, error, freedom = mean(sums), spread(sums) / math.sqrt(n), n - 1.0
        if scatter is not None and n > 1:
            pooled = scatter.deviation * math.sqrt(math.fsum(weight * weight for weight, _ in terms) / n)
            if _larger(error, freedom, pooled, scatter.freedom) < ALIKE:
                scatter = None  # these arms do not scatter as all do
            else:
                error, freedom = pooled, scatter.freedom
    else:
        n = min(len(values) for _, values in terms)
        difference = math.fsum(weight * mean(list(values.values())) for weight, values in terms)
        parts = [(weight * spread(list(values.values()))) ** 2 / len(values) for weight, values in terms]
        error = math.sqrt(math.fsum(parts))
        sizes = [len(values) for _, values in terms]
        bottom = math.fsum(part**2 / (size - 1) for part, size in zip(parts, sizes, strict=True) if part)
        freedom = math.fsum(parts) ** 2 / bottom if n > 1 and bottom else n - 1.0
        scatter = None
    half = student(level, freedom) * error if freedom > 0 else math.inf
    return Effect(
        difference=difference,
        low=difference - half,
        high=difference + half,
        seeds=n,
        paired=paired,
        error=error,
        freedom=freedom,
        pooled=scatter is not None and n > 1,
        level=level,
    )


def _larger(error: float, freedom: float, other: float, other_freedom: float) -> float:
    """The probability of an estimate `error` that exceeds `other` as far, if both were of the same number (F test)."""
    if error <= other:
        return 1.0
    share = freedom * error**2
    return 1.0 - _beta(share / (share + other_freedom * other**2), freedom / 2, other_freedom / 2)


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
    """Mass of Student's distribution between -t and t: 1 - I_x(freedom/2, 1/2) with x = freedom / (freedom + t^2); of
    infinite freedom, the normal distribution's."""
    if math.isinf(freedom):
        return math.erf(t / math.sqrt(2))
    return 1.0 - _beta(freedom / (freedom + t * t), freedom / 2, 0.5)


def _beta(x: float, a: float, b: float) -> float:
    """The regularised incomplete beta function I_x(a, b), by its continued fraction (DLMF 8.17.22)."""
    if x <= 0.0 or x >= 1.0:
        return min(1.0, max(0.0, x))
    if x > (a + 1) / (a + b + 2):  # where the fraction would converge slowly
        return 1.0 - _beta(1.0 - x, b, a)
    front = math.exp(math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)) / a
    value = 1.0  # from the innermost term outwards
    for m in range(40 + int(5 * math.sqrt(max(a, b))), 0, -1):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m - 1) * (a + b + m - 1) * x / ((a + 2 * m - 2) * (a + 2 * m - 1))
        value = 1.0 + odd / (1.0 + even / value)
    return front / value


@dataclass(frozen=True)
class Choice:
    """The arm that stands for a design, and its values at the seeds that did not choose it. `at_edge`: it is the first
    or the last of three or more settings, so that a better one may lie outside."""

    arm: str
    values: dict[int, float]
    at_edge: bool


def choose(
    best: Best, chosen_by: Mapping[str, Values], values: Mapping[str, Values], better: Literal["up", "down"]
) -> Choice:
    """The arm of `best` that does best in `chosen_by` at the lowest seed that all its finished arms have, and its
    `values` at the other seeds: a seed that chose says nothing about the choice. No arm where none has finished, or no
    seed is shared. The settings are ordered as `best` lists them."""
    finished = {arm: chosen_by[arm] for arm in best.arms if chosen_by.get(arm)}
    shared = set.intersection(*(set(seeds) for seeds in finished.values())) if finished else set()
    if not shared:
        return Choice("", {}, False)
    seed = min(shared)
    pick = max if better == "up" else min
    arm = pick(finished, key=lambda name: finished[name][seed])  # of equals the first
    at_edge = len(best.arms) > 2 and arm in (best.arms[0], best.arms[-1])
    return Choice(arm, {other: value for other, value in values.get(arm, {}).items() if other != seed}, at_edge)
