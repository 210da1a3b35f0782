"""What is said of all designs of a section together: trends over designs, and how a cost grows with a size."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from manyheads.arch.controls import depths, heads, inners
from manyheads.arch.count import params
from manyheads.experiments.designs import Correlation, growth, needed, partial_correlation
from manyheads.experiments.statistics import Effect, mean
from manyheads.experiments.verdict import ALPHA, SEEDS, Verdict, Word, chances, seeds
from manyheads.spec.comparison import Comparison, Growth, Trend

from .read_runs import ArmRuns, Section

CORRELATION, GROWTH = "rank correlation", "growth"  # metrics


@dataclass(frozen=True)
class DesignCase:
    """A statement about all designs, before its verdict: its comparison, its effect (None where there is nothing to
    compare), the probability that decides it, and the sentences of its verdict."""

    pair: Comparison
    effect: Effect | None
    chance: float
    holds: bool
    decided: bool
    primary: bool
    found: str
    reason: str

    def judge(self, level: float, among: int) -> Verdict:
        """The verdict where errors are allowed with probability `level`."""
        if not self.decided:
            return Verdict("not testable at this scale", self.found, self.reason)
        word: Word = "within noise" if self.chance >= level else "holds" if self.holds else "does not hold"
        corrected = "" if word != "within noise" or self.chance >= ALPHA else f" Clear alone, not among {among} (Holm)."
        return Verdict(word, self.found, self.reason + corrected)


def trends(section: Section) -> Iterator[DesignCase]:
    """Each trend that the experiment expects, by a partial rank correlation over designs."""
    for trend in section.experiment.trends if section.experiment else ():
        pair = Comparison(trend.y, trend.x, trend.expect, claim=trend.claim, metric=CORRELATION, primary=trend.primary)
        rows = []
        for arm in section.planned:
            x, y = (arm.values(name) or _shape(arm, name) for name in (trend.x, trend.y))
            shared = sorted(x.keys() & y.keys())
            if shared:
                fixed = tuple(_number(arm, name) for name in trend.held)
                rows.append((mean([x[s] for s in shared]), mean([y[s] for s in shared]), fixed, len(shared)))
        yield _trend(section, trend, pair, rows)


def _trend(
    section: Section, trend: Trend, pair: Comparison, rows: list[tuple[float, float, tuple[float, ...], int]]
) -> DesignCase:
    held = tuple((name, tuple(row[2][i] for row in rows)) for i, name in enumerate(trend.held))
    found = _correlation(tuple(row[0] for row in rows), tuple(row[1] for row in rows), held)
    head = f"{trend.y} with {trend.x} over {len(rows)} designs"
    fewest = min((row[3] for row in rows), default=0)
    if found is None:
        nothing = "Too few designs, or one of the two does not vary."
        return DesignCase(pair, None, 1.0, False, False, trend.primary, f"{head}: nothing to compare.", nothing)
    effect = Effect(
        difference=found.value, low=found.low, high=found.high, seeds=fewest, paired=False, error=0.0, freedom=math.inf
    )
    fixed = f", {' and '.join(found.held)} held fixed" if found.held else ""
    said = (
        f"{head}{fixed}: rank correlation {found.value:+.2f} (95 % interval {found.low:+.2f} to {found.high:+.2f}, "
        f"p {found.chance:.3f})."
    )
    reason = (
        f"Expected: {trend.y} is {trend.expect} where {trend.x} is more. {len(rows)} designs show a correlation of "
        f"{found.visible:.2f} in 4 of 5 cases."
    )
    few = fewest < SEEDS or section.scale == "smoke"
    if few:
        reason = (
            f"{seeds(fewest)}: a verdict takes {SEEDS} or more." if fewest < SEEDS else "A smoke run decides nothing."
        )
    holds = (found.value > 0) == (trend.expect == "more")
    return DesignCase(pair, effect, found.chance, holds, not few, trend.primary, said, reason)


@lru_cache(maxsize=1024)
def _correlation(
    x: tuple[float, ...], y: tuple[float, ...], held: tuple[tuple[str, tuple[float, ...]], ...]
) -> Correlation | None:
    """Cached: thousands of permutations, asked for by several parts of a page."""
    return partial_correlation(x, y, dict(held))


def _shape(arm: ArmRuns, name: str) -> dict[int, float]:
    """A number of the architecture, the same for every seed."""
    known = name in ("heads", "depth", "inner", "params")
    return {run.seed: _number(arm, name) for run in arm.done} if known else {}


def _number(arm: ArmRuns, name: str) -> float:
    numbers = {
        "heads": heads(arm.arch)[0],
        "depth": sum(depths(arm.arch)),
        "inner": inners(arm.arch)[0],
        "params": params(arm.arch).total,
    }
    return float(numbers[name])


def growths(section: Section) -> Iterator[DesignCase]:
    """Each growth that the experiment expects, by the fit of two lines over sizes."""
    settings = section.experiment.settings if section.experiment else {}
    for one in settings[section.scale].growths if section.scale in settings else ():
        yield _growth(section, one)


def _growth(section: Section, one: Growth) -> DesignCase:
    pair = Comparison(one.name, "a power of the size", "more", claim=one.claim, metric=GROWTH, primary=one.primary)
    costs = {size: costs_of(section, one, names) for size, names in one.sizes.items()}
    effect = growth(costs)
    short = [str(size) for size, values in costs.items() if not values]
    if effect is None:
        lacking = f"size {', '.join(short)}" if short else "some size"
        why = f"No seed reaches {one.share:.0%} of a constant guess's error at {lacking}."
        return DesignCase(pair, None, 1.0, False, False, one.primary, f"{one.name}: nothing to compare.", why)
    means = ", ".join(f"{size}: {mean(list(values.values())):.3g}" for size, values in costs.items())
    chance = chances(pair, effect, "up")
    found = (
        f"{one.cost} for {one.share:.0%} of a constant guess's error, by size: {means}. An exponential fits "
        f"{math.exp(min(50.0, effect.difference)):.3g} times as closely as a power ({seeds(effect.seeds)})."
    )
    few = effect.seeds < SEEDS or section.scale == "smoke"
    reason = "Expected: an exponential fits better than a power."
    if few:
        reason = (
            f"{seeds(effect.seeds)}: a verdict takes {SEEDS} or more."
            if effect.seeds < SEEDS
            else "A smoke run decides nothing."
        )
    return DesignCase(pair, effect, chance.least, chance.yes < chance.no, not few, one.primary, found, reason)


def costs_of(section: Section, one: Growth, names: tuple[str, ...]) -> dict[int, float]:
    """The cost by seed at which the arms of one size reach the share of a constant guess's error."""
    metric, _ = section.headline
    arms = [arm for name in names for arm in section.arms if arm.name == name]
    shared = set.intersection(*(set(arm.values(metric)) for arm in arms)) if arms else set()
    out = {}
    for seed in sorted(shared):
        guess = next((run.measured.trivial.get(metric) for arm in arms for run in arm.done if run.seed == seed), None)
        if guess is None:
            continue
        errors = [arm.values(metric)[seed] for arm in arms]
        cost = needed([_number(arm, one.cost) for arm in arms], errors, one.share * guess)
        if cost is not None:
            out[seed] = cost
    return out
