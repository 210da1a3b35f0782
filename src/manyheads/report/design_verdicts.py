"""What is said of all designs of a section together: trends over designs, and how a cost grows with a size."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

from manyheads.arch.controls import depths, heads, inners
from manyheads.arch.count import params
from manyheads.experiments.designs import Correlation, growth, growth_chances, needed, partial_correlation, slope
from manyheads.experiments.statistics import Effect, contrast, mean
from manyheads.experiments.verdict import ALPHA, SEEDS, Verdict, Word, chances, seeds, visible
from manyheads.spec.comparison import Comparison, Growth, Slope, Trend

from .comparable import unlike
from .read_runs import ArmRuns, Section

CORRELATION, GROWTH, SLOPE = "rank correlation", "growth", "slope"  # metrics


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
    obstacle: str = ""

    def judge(self, level: float, among: int) -> Verdict:
        """The verdict where errors are allowed with probability `level`."""
        if self.obstacle:
            return Verdict("not testable in this setting", self.found, self.obstacle)
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


def slopes(section: Section) -> Iterator[DesignCase]:
    """Each slope that the experiment expects, seed by seed."""
    for one in section.experiment.slopes if section.experiment else ():
        yield _slope(section, one)


def _slope(section: Section, one: Slope) -> DesignCase:
    pair = Comparison(one.y, one.x, one.expect, claim=one.claim, metric=SLOPE, primary=one.primary)
    arms = [arm for arm in section.planned if arm.name in one.arms and arm.values(one.y)]
    head = f"{one.y} over log {one.x} through {len(arms)} designs, each {one.within} with a height of its own"
    places = {arm.name: math.log(_number(arm, one.x)) for arm in arms}
    groups: dict[float, list[str]] = {}
    for arm in arms:
        groups.setdefault(_number(arm, one.within), []).append(arm.name)
    middle = {name: mean([places[other] for other in names]) for names in groups.values() for name in names}
    square = math.fsum((places[name] - middle[name]) ** 2 for name in places)
    if len(arms) < len(one.arms) or not square:
        lacking = ", ".join(name for name in one.arms if name not in places) or "designs that differ"
        return DesignCase(
            pair, None, 1.0, False, False, one.primary, f"{head}: nothing to compare.", f"No finished run of {lacking}."
        )
    effect = contrast([((places[arm.name] - middle[arm.name]) / square, arm.values(one.y)) for arm in arms])
    chance = chances(pair, effect, "up")
    found = f"{head}: slope {effect.difference:+.3g}"
    if math.isfinite(effect.low):
        found += f" (95 % interval {effect.low:+.3g} to {effect.high:+.3g}, {seeds(effect.seeds)})"
    few = effect.seeds < SEEDS or section.scale == "smoke"
    reason = f"Expected: the slope is {one.expect} than 0. {visible(effect, one.y)}".rstrip()
    if few:
        smoke = "A smoke run decides nothing."
        reason = f"{seeds(effect.seeds)}: a verdict takes {SEEDS} or more." if effect.seeds < SEEDS else smoke
    obstacle = "" if few else unlike(section, arms, one.y)
    return DesignCase(
        pair,
        effect,
        chance.least,
        chance.yes < chance.no,
        not few and not obstacle,
        one.primary,
        f"{found}.",
        reason,
        obstacle,
    )


def growths(section: Section) -> Iterator[DesignCase]:
    """Each growth that the experiment expects, by the fit of two lines over sizes."""
    settings = section.experiment.settings if section.experiment else {}
    for one in settings[section.scale].growths if section.scale in settings else ():
        yield _growth(section, one)


def _growth(section: Section, one: Growth) -> DesignCase:
    pair = Comparison(
        one.name, "a power of the size", "more", one.margin, claim=one.claim, metric=GROWTH, primary=one.primary
    )
    costs = {size: costs_of(section, one, names) for size, names in one.sizes.items()}
    known = {size: {seed: cost for seed, cost in values.items() if cost is not None} for size, values in costs.items()}
    closer, steeper = growth(known), slope(known)
    means = ", ".join(f"{size}: {mean([*values.values()]):.3g}" for size, values in known.items() if values)
    found = f"{one.cost} for {one.share:.0%} of a constant guess's error, by size: {means or 'none'}."
    finished = len(set.intersection(*(set(values) for values in costs.values())))
    few = finished < SEEDS or section.scale == "smoke"
    reason = (
        f"Expected: they grow, and an exponential fits over {math.exp(one.margin):.3g} times as closely as a power. Growth "
        f"by less than a factor of {one.least:g} counts as none."
    )
    if few:
        smoke = "A smoke run decides nothing."
        reason = f"{seeds(finished)} at every size: a verdict takes {SEEDS} or more." if finished < SEEDS else smoke
    obstacle = "" if few else _unreached(one, costs) or _not_enough(section, one)
    if closer is None or steeper is None:
        found = f"{one.name}: nothing to compare. {found}"
        return DesignCase(pair, None, 1.0, False, False, one.primary, found, reason, obstacle)
    chance = growth_chances(closer, steeper, one.margin, one.least)
    found += (
        f" From one size to the next they grow by a factor of {math.exp(steeper.difference):.3g} (95 % interval "
        f"{math.exp(steeper.low):.3g} to {math.exp(min(50.0, steeper.high)):.3g}). An exponential fits "
        f"{math.exp(min(50.0, closer.difference)):.3g} times as closely as a power ({seeds(closer.seeds)})."
    )
    decided = not few and not obstacle
    return DesignCase(pair, closer, chance.least, chance.yes < chance.no, decided, one.primary, found, reason, obstacle)


def _unreached(one: Growth, costs: Mapping[int, Mapping[int, float | None]]) -> str:
    """The sizes at which some seeds lie outside of the costs that were tried: the others are a choice that favours
    one answer."""
    outside = {size: sum(cost is None for cost in values.values()) for size, values in costs.items()}
    named = ", ".join(f"{size} ({count} of {len(costs[size])} seeds)" for size, count in outside.items() if count)
    if not named:
        return ""
    return f"At size {named} the {one.cost} that are needed lie outside of those that were tried: try more of them."


def _not_enough(section: Section, one: Growth) -> str:
    """The arm that should reach the share of a constant guess's error and does not; empty where all do."""
    metric, _ = section.headline
    arms = {arm.name: arm for arm in section.planned}
    for name in one.enough.values():
        errors = arms[name].values(metric) if name in arms else {}
        guesses = {run.seed: run.measured.trivial.get(metric) for run in arms[name].done} if errors else {}
        reached = [error <= one.share * guess for seed, error in errors.items() if (guess := guesses.get(seed))]
        if not reached or not all(reached):
            return f"{name} was not shown to reach {one.share:.0%} of a constant guess's error, as it has to."
    return ""


def costs_of(section: Section, one: Growth, names: tuple[str, ...]) -> dict[int, float | None]:
    """The cost by seed at which the arms of one size reach the share of a constant guess's error, None where that is
    outside of the costs that they have."""
    metric, _ = section.headline
    arms = [arm for name in names for arm in section.planned if arm.name == name]
    shared = set.intersection(*(set(arm.values(metric)) for arm in arms)) if arms else set()
    out = {}
    for seed in sorted(shared) if len(arms) == len(names) else ():
        guess = next((run.measured.trivial.get(metric) for arm in arms for run in arm.done if run.seed == seed), None)
        if guess is None:
            continue
        errors = [arm.values(metric)[seed] for arm in arms]
        out[seed] = needed([_number(arm, one.cost) for arm in arms], errors, one.share * guess)
    return out
