"""How often each rule is wrong where the truth is known, over many simulated experiments, and how often it sees what is
there.

A rule may err in 5 % of the experiments in which what it says is just not so: with a difference as large as the margin,
with no difference, with numbers that have nothing to do with each other. `POWER` has how often it sees a difference of
three standard deviations of a seed with three seeds; run this file to print all rates."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import pytest

from manyheads.experiments.designs import growth, partial_correlation
from manyheads.experiments.sensitivity import guesses
from manyheads.experiments.statistics import Effect, Values, contrast, effect, pooled_scatter
from manyheads.experiments.verdict import chances, holm, judge
from manyheads.spec.comparison import Comparison

Draw = random.Random
Rule = Callable[[Draw], bool]
QUICK, MANY = 300, 2000
ARMS = 9


def runs(draw: Draw, mean: float, seeds: int = 3, shared: list[float] | None = None) -> dict[int, float]:
    """One arm: its mean, what a seed does to all arms, and scatter of standard deviation 1."""
    shared = shared or [0.0] * seeds
    return {seed: mean + shared[seed] + draw.gauss(0, 1) for seed in range(seeds)}


def table(draw: Draw, means: list[float], seeds: int = 3) -> list[dict[int, float]]:
    """Several arms on the same seeds."""
    shared = [draw.gauss(0, 3) for _ in range(seeds)]
    return [runs(draw, mean, seeds, shared) for mean in means]


def says(word: str, expect: str, found: Effect, margin: float = 0.0, **fields: object) -> bool:
    """Whether the verdict on an effect is `word`."""
    pair = Comparison("lean", "original", expect, margin, **fields)  # type: ignore[arg-type]
    return judge(pair, found, metric="loss", better="up", scale="small").word == word


def of_two(word: str, expect: str, difference: float, margin: float = 0.0) -> Rule:
    """A rule on two paired arms that differ by so much."""

    def rule(draw: Draw) -> bool:
        ours, theirs = table(draw, [difference, 0.0])
        return says(word, expect, effect(ours, theirs), margin)

    return rule


def of_other_seeds(draw: Draw) -> bool:
    """Two arms that share no seed."""
    theirs = {seed + 9: value for seed, value in runs(draw, 0.0).items()}
    return says("holds", "better", effect(runs(draw, 0.0), theirs))


def of_pooled(difference: float) -> Rule:
    """Two arms of nine, with the scatter of all."""

    def rule(draw: Draw) -> bool:
        arms: list[Values] = [*table(draw, [difference] + [float(i) for i in range(ARMS - 2)] + [0.0])]
        return says("holds", "better", effect(arms[0], arms[-1], scatter=pooled_scatter(arms)))

    return rule


def of_gains(difference: float) -> Rule:
    """Two gains that differ by so much."""

    def rule(draw: Draw) -> bool:
        weights = (1.0, -1.0, -1.0, 1.0)
        arms = table(draw, [5.0 + difference, 0.0, 6.0, 1.0])
        return says("holds", "better", contrast(list(zip(weights, arms, strict=True))))

    return rule


def of_designs(link: float) -> Rule:
    """Fourteen designs whose kappa and loss both follow parameters and depth, and are linked by so much beyond them."""

    def rule(draw: Draw) -> bool:
        params = [draw.uniform(0, 1) for _ in range(14)]
        depth = [float(draw.choice((2, 4, 8, 12))) for _ in range(14)]
        hidden = [draw.gauss(0, 1) for _ in range(14)]
        kappa = [2 * p - 0.1 * d + 0.3 * h for p, d, h in zip(params, depth, hidden, strict=True)]
        loss = [
            -2 * p - 0.1 * d + 0.3 * (link * h + (1 - link) * draw.gauss(0, 1))
            for p, d, h in zip(params, depth, hidden, strict=True)
        ]
        found = partial_correlation(kappa, loss, {"params": params, "depth": depth}, permutations=199)
        assert found is not None
        return found.chance < 0.05

    return rule


def of_growth(exponential: bool) -> Rule:
    """Heads needed over five sizes, five seeds, 5 % of scatter."""

    def rule(draw: Draw) -> bool:
        def cost(size: int) -> float:
            return (math.exp(0.7 * size) if exponential else size**4.0) * math.exp(draw.gauss(0, 0.05))

        found = growth({size: {seed: cost(size) for seed in range(5)} for size in (4, 5, 6, 7, 8)})
        assert found is not None
        return found.low > 0

    return rule


def of_family(draw: Draw) -> bool:
    """Whether any of eight comparisons of equal arms is called different by Holm's rule."""
    base, *others = table(draw, [0.0] * ARMS)
    pair = Comparison("lean", "original", "open")
    least = [chances(pair, effect(arm, base), "up").least for arm in others]
    return any(value < level for value, level in zip(least, holm(least), strict=True))


def of_guess(draw: Draw) -> bool:
    """Whether an arm at chance passes for one that has learnt; 10 classes, 1,000 held-out samples."""
    values = {seed: sum(draw.random() < 0.1 for _ in range(1000)) / 1000 for seed in range(3)}
    return not guesses(values, 0.1, "up")


WRONG: dict[str, Rule] = {
    "better, where equal": of_two("holds", "better", 0.0),
    "better by a margin, where just that": of_two("holds", "better", 2.0, 2.0),
    "not better, where just the margin": of_two("does not hold", "better", 2.0, 2.0),
    "no loss, where the loss is the margin": of_two("holds", "no_loss", -2.0, 2.0),
    "loss, where the loss is the margin": of_two("does not hold", "no_loss", -2.0, 2.0),
    "equal, where the margin apart": of_two("holds", "equal", 2.0, 2.0),
    "unequal, where the margin apart": of_two("does not hold", "equal", 2.0, 2.0),
    "different, where the margin apart": of_two("holds", "differ", 2.0, 2.0),
    "more, where equal": of_two("holds", "more", 0.0),
    "less, where equal": of_two("holds", "less", 0.0),
    "worse or better, where equal": lambda draw: not of_two("within noise", "open", 0.0)(draw),
    "better, other seeds": of_other_seeds,
    "better, pooled scatter": of_pooled(0.0),
    "a gain beyond another, where equal": of_gains(0.0),
    "a trend, where there is none": of_designs(0.0),
    "an exponential, where a power": of_growth(False),
    "one of eight, where all are equal": of_family,
    "learnt, where at chance": of_guess,
}
# fmt: off
POWER: dict[str, tuple[Rule, float]] = {  # what is there, and the least share in which it is seen
    "better by 3": (of_two("holds", "better", 3.0), 0.4),
    "better by 3, pooled scatter": (of_pooled(3.0), 0.9),
    "no loss, margin 3": (of_two("holds", "no_loss", 0.0, 3.0), 0.4),
    "a trend": (of_designs(0.9), 0.3),
    "an exponential": (of_growth(True), 0.9),
}
# fmt: on


def rate(rule: Rule, trials: int, name: str) -> float:
    """How often a rule says so, over simulated experiments."""
    draw = Draw(name)
    return sum(rule(draw) for _ in range(trials)) / trials


def lower(share: float, trials: int) -> float:
    """The lower end of the share's 95 % interval (Wilson)."""
    z = 1.96
    middle = share + z * z / (2 * trials)
    half = z * math.sqrt(share * (1 - share) / trials + z * z / (4 * trials * trials))
    return (middle - half) / (1 + z * z / trials)


@pytest.mark.parametrize("name", WRONG)
def test_a_rule_errs_in_one_experiment_of_twenty_at_most(name: str) -> None:
    assert lower(rate(WRONG[name], QUICK, name), QUICK) <= 0.05


@pytest.mark.parametrize("name", POWER)
def test_a_rule_sees_what_is_there(name: str) -> None:
    rule, least = POWER[name]
    assert rate(rule, QUICK, name) >= least


@pytest.mark.slow
@pytest.mark.parametrize("name", WRONG)
def test_a_rule_errs_in_one_experiment_of_twenty_over_two_thousand(name: str) -> None:
    assert lower(rate(WRONG[name], MANY, f"many {name}"), MANY) <= 0.05


if __name__ == "__main__":
    for what, given in WRONG.items():
        print(f"{rate(given, MANY, f'many {what}'):6.1%}  {what}")
    for what, (given, _) in POWER.items():
        print(f"{rate(given, MANY, f'many {what}'):6.1%}  {what} (seen)")
