"""What is said of designs rather than of seeds: whether two numbers rise together over the designs of an experiment, and
whether a cost grows exponentially with a size.

The unit of a correlation is the design, at its mean over seeds: another seed of the same design is no further evidence
that designs with a lower kappa have a lower loss."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random

from .statistics import LEVEL, Effect, Values, contrast, mean, student
from .verdict import Chances

LEAST = 4  # designs beyond those that the held numbers take: three are in order by chance one time in three
PERMUTATIONS = 1999
RANKED = 1.06  # variance of Fisher's z of ranks, in that of values (Fieller, Hartley and Pearson 1957)
ROUNDING = 1e-9  # a residual below it is an error of rounding


@dataclass(frozen=True)
class Correlation:
    """A partial rank correlation over designs: `value`, its interval by Fisher's transformation, and `chance`, the
    two-sided probability of one as large where order is random (`partial_correlation`). `visible` is the smallest
    true correlation that this many designs show in four of five experiments."""

    value: float
    low: float
    high: float
    designs: int
    chance: float
    held: tuple[str, ...]
    visible: float


def partial_correlation(
    x: Sequence[float],
    y: Sequence[float],
    held: Mapping[str, Sequence[float]],
    permutations: int = PERMUTATIONS,
    seed: int = 0,
) -> Correlation | None:
    """Spearman's correlation of `x` and `y` over designs, the ranks of the `held` numbers taken out of both.

    Chance is by permutation (Freedman and Lane 1983): what the held numbers leave of the ranks of `y` is shuffled over
    the designs, added to what they explain, and correlated again. A held number that does not vary is left out, and
    None is returned where too few designs remain."""
    rows = {name: ranks(values) for name, values in held.items() if len(set(values)) > 1}
    free = len(x) - len(rows)
    if free < LEAST or len(set(x)) < 2 or len(set(y)) < 2:
        return None
    basis = _basis([[1.0] * len(x), *rows.values()])
    first, second = ranks(x), ranks(y)
    left, right = _residual(first, basis), _residual(second, basis)
    value = _cosine(left, right)
    explained = [a - b for a, b in zip(second, right, strict=True)]
    draw, extreme = Random(seed), 1
    for _ in range(permutations):
        draw.shuffle(right)
        again = _residual([a + b for a, b in zip(explained, right, strict=True)], basis)
        extreme += abs(_cosine(left, again)) >= abs(value) - ROUNDING
    error = math.sqrt(RANKED / (free - 3))
    middle = math.atanh(max(-1.0 + 1e-12, min(1.0 - 1e-12, value)))
    half = student(LEVEL, math.inf) * error
    return Correlation(
        value=value,
        low=math.tanh(middle - half),
        high=math.tanh(middle + half),
        designs=len(x),
        chance=extreme / (permutations + 1),
        held=tuple(rows),
        visible=math.tanh((student(LEVEL, math.inf) + student(0.6, math.inf)) * error),
    )


def _basis(columns: Sequence[Sequence[float]]) -> list[list[float]]:
    """Orthonormal columns that span the same space; those that others make up are left out."""
    basis: list[list[float]] = []
    for column in columns:
        rest = _residual(column, basis)
        length = math.sqrt(math.fsum(value * value for value in rest))
        if length > ROUNDING * len(column):
            basis.append([value / length for value in rest])
    return basis


def _residual(values: Sequence[float], basis: Sequence[Sequence[float]]) -> list[float]:
    rest = list(values)
    for column in basis:
        along = math.fsum(a * b for a, b in zip(rest, column, strict=True))
        rest = [a - along * b for a, b in zip(rest, column, strict=True)]
    return rest


def _cosine(a: Sequence[float], b: Sequence[float]) -> float:
    below = math.sqrt(math.fsum(v * v for v in a) * math.fsum(v * v for v in b))
    return math.fsum(p * q for p, q in zip(a, b, strict=True)) / below if below > ROUNDING else 0.0


def ranks(values: Sequence[float]) -> list[float]:
    """1 for the smallest; equal values have the mean of their ranks."""
    return [
        sum(other < value for other in values) + (sum(other == value for other in values) + 1) / 2 for value in values
    ]


def spearman(a: Sequence[float], b: Sequence[float]) -> float:
    """Correlation of ranks, equal values sharing their mean rank; 0 where one side does not vary."""
    first, second = ranks(a), ranks(b)
    return _cosine([value - mean(first) for value in first], [value - mean(second) for value in second])


def needed(costs: Sequence[float], errors: Sequence[float], target: float) -> float | None:
    """The cost at which the error falls to `target`, interpolated in the logarithm of the cost. None where it never
    falls that far, and where it is below from the start, so that less would do; but a cost of 1 is the least there is."""
    for at, error in enumerate(errors):
        if error > target:
            continue
        if at == 0:
            return 1.0 if costs[0] == 1 else None
        before, logs = errors[at - 1], [math.log(costs[at - 1]), math.log(costs[at])]
        return math.exp(logs[0] + (logs[1] - logs[0]) * (before - target) / (before - error))
    return None


def growth(costs: Mapping[int, Values]) -> Effect | None:
    """Whether costs by size and seed grow exponentially (above 0) or as a power of the size (below 0).

    log cost is a straight line over the size if growth is exponential, and over the logarithm of the size if it is a
    power; each seed compares the residuals of the two lines: half the logarithm of the ratio of their squares. None
    where no seed has a cost at every size."""
    sizes = [float(size) for size in costs]

    def closer(logs: Sequence[float]) -> float:
        power, exponential = (_misfit(logs, x) for x in ([math.log(size) for size in sizes], sizes))
        return 0.5 * math.log(max(power, ROUNDING) / max(exponential, ROUNDING))

    return _over_seeds(costs, closer)


def slope(costs: Mapping[int, Values]) -> Effect | None:
    """By how much the logarithm of a cost grows from one size to the next: the slope of a straight line, seed by seed.
    None where no seed has a cost at every size."""
    sizes = [float(size) for size in costs]
    distances = [size - mean(sizes) for size in sizes] if sizes else []
    square = math.fsum(distance * distance for distance in distances)
    return _over_seeds(costs, lambda logs: math.fsum(d * y for d, y in zip(distances, logs, strict=True)) / square)


def growth_chances(closer: Effect, steeper: Effect, margin: float, least: float) -> Chances:
    """How clear it is that a cost grows exponentially, by what `growth` and `slope` give. It does where it grows at all
    and an exponential fits closer by the margin; it does not where a power fits as close or closer, or where it grows
    by less than the factor `least`."""
    power = closer.below(margin)
    flat = steeper.below(math.log(least))
    return Chances(max(closer.above(margin), steeper.above(0.0)), min(1.0, 2 * min(power, flat)))


def _over_seeds(costs: Mapping[int, Values], number: Callable[[Sequence[float]], float]) -> Effect | None:
    """A number of the logarithms of all costs, at each seed that has a cost at every size."""
    seeds = sorted(set.intersection(*(set(values) for values in costs.values()))) if costs else []
    by_seed = {seed: number([math.log(values[seed]) for values in costs.values()]) for seed in seeds}
    return contrast([(1.0, by_seed)]) if by_seed else None


def _misfit(y: Sequence[float], x: Sequence[float]) -> float:
    """The sum of squares that a straight line in x leaves."""
    rest = _residual(y, _basis([[1.0] * len(x), x]))
    return math.fsum(value * value for value in rest)
