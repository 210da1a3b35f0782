"""Intervals are Student's, checked against published tables, SciPy and made-up data with a known answer."""

from __future__ import annotations

import math
import random

import pytest
from scipy import stats

from manyheads.experiments.statistics import (
    Choice,
    Scatter,
    choose,
    contrast,
    effect,
    mean,
    pooled_scatter,
    spread,
    student,
)
from manyheads.spec.experiment import Best


@pytest.mark.parametrize(("freedom", "t"), [(1, 12.706), (2, 4.303), (4, 2.776), (9, 2.262), (30, 2.042)])
def test_the_quantile_is_the_one_in_the_tables(freedom: float, t: float) -> None:
    assert student(0.95, freedom) == pytest.approx(t, abs=5e-4)


@pytest.mark.parametrize("level", [0.5, 0.9, 0.95, 0.999])
@pytest.mark.parametrize("freedom", [1.0, 1.7, 2.0, 3.3, 10.0, 250.0])
def test_the_quantile_agrees_with_scipy(level: float, freedom: float) -> None:
    assert student(level, freedom) == pytest.approx(float(stats.t.ppf((1 + level) / 2, freedom)), rel=1e-9)


def test_spread_is_that_of_a_sample() -> None:
    assert spread([1.0, 3.0]) == pytest.approx(math.sqrt(2))
    assert spread([5.0]) == 0.0
    assert mean([1.0, 2.0, 6.0]) == 3.0


def test_seeds_that_both_arms_share_are_paired() -> None:
    arm, against = {0: 0.61, 1: 0.72, 2: 0.83}, {0: 0.60, 1: 0.70, 2: 0.80}
    found = effect(arm, against)
    expected = stats.ttest_rel(list(arm.values()), list(against.values())).confidence_interval(0.95)
    assert found.paired
    assert found.seeds == 3
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high))
    apart = effect(arm, {seed + 9: value for seed, value in against.items()})
    assert not apart.paired
    assert apart.high - apart.low > 5 * (found.high - found.low)  # what a seed does to both arms cancels only in pairs


def test_other_seeds_give_welchs_interval() -> None:
    arm, against = {0: 0.5, 1: 0.7, 2: 0.6}, {5: 0.2, 6: 0.9, 7: 0.4, 8: 0.5}
    expected = stats.ttest_ind(list(arm.values()), list(against.values()), equal_var=False).confidence_interval(0.95)
    found = effect(arm, against)
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high))


def test_one_seed_has_no_interval() -> None:
    found = effect({0: 0.9}, {0: 0.1})
    assert found.low == -math.inf
    assert found.high == math.inf


def test_the_difference_of_two_differences_is_paired_too() -> None:
    seeds = range(4)
    deep, flat, long_deep, long_flat = (
        {s: base + 0.3 * s + noise * (-1) ** s for s in seeds}
        for base, noise in ((2.0, 0.01), (1.0, 0.0), (1.2, 0.0), (1.0, 0.0))
    )
    found = contrast([(1, deep), (-1, flat), (-1, long_deep), (1, long_flat)])
    assert found.difference == pytest.approx(0.8)
    assert found.high - found.low < 0.1  # what a seed does to all arms cancels


def test_scatter_of_all_arms_is_the_residual_of_a_two_way_table() -> None:
    draw = random.Random(3)
    arms = [{s: 5.0 * a + 2.0 * s + draw.gauss(0, 0.1) for s in range(3)} for a in range(9)]
    scatter = pooled_scatter(arms)
    assert scatter is not None
    assert scatter.freedom == 16
    assert scatter.deviation == pytest.approx(0.1, rel=0.4)
    found = effect(arms[0], arms[1], scatter=scatter)
    assert found.pooled
    assert found.error == pytest.approx(scatter.deviation * math.sqrt(2 / 3))
    assert found.high - found.difference == pytest.approx(2.12 * found.error, rel=1e-3)
    assert pooled_scatter([{0: 1.0}, {0: 2.0}]) is None
    assert not effect({0: 1.0, 1: 2.0}, {5: 1.0, 6: 2.0}, scatter=scatter).pooled  # other seeds: no table


def test_arms_that_scatter_clearly_more_than_all_are_judged_by_their_own_scatter() -> None:
    still = {seed: float(seed) for seed in range(3)}
    loud, louder = ({0: by, 1: 1.0 - by, 2: 2.0} for by in (1.0, 9.0))
    for arm, pooled, freedom in ((loud, True, 16.0), (louder, False, 2.0)):
        found = effect(arm, still, scatter=Scatter(1.0, 16.0))
        assert (found.pooled, found.freedom) == (pooled, freedom)
        ratio = stats.f.sf(effect(arm, still).error ** 2 / (2 / 3), 2, 16)
        assert (ratio < 0.05) is not pooled
        assert found.error == pytest.approx(math.sqrt(2 / 3) if pooled else effect(arm, still).error)


def test_the_smallest_visible_difference_is_seen_in_four_of_five_experiments() -> None:
    draw, seen, trials = random.Random(11), 0, 2000
    for _ in range(trials):
        scatter = Scatter(1.0, 16.0)
        size = effect({0: 0.0, 1: 0.0, 2: 0.0}, {0: 0.0, 1: 0.0, 2: 0.0}, scatter=scatter).visible
        arm = {s: size + draw.gauss(0, 1) for s in range(3)}
        found = effect(arm, {s: draw.gauss(0, 1) for s in range(3)}, scatter=scatter)
        seen += found.low > 0
    assert seen / trials == pytest.approx(0.8, abs=0.04)


def test_the_best_rate_is_chosen_on_a_seed_that_then_does_not_count() -> None:
    best = Best("lean", ("lean_x1", "lean_x2", "lean_x4"))
    by = {"lean_x1": {0: 0.5, 1: 0.9, 2: 0.9}, "lean_x2": {0: 0.7, 1: 0.6, 2: 0.65}, "lean_x4": {}}
    assert choose(best, by, by, "up") == Choice("lean_x2", {1: 0.6, 2: 0.65}, at_edge=False)
    assert choose(best, by, by, "down") == Choice("lean_x1", {1: 0.9, 2: 0.9}, at_edge=True)
    reported = {"lean_x2": {0: 0.1, 1: 0.2}}
    assert choose(best, by, reported, "up").values == {1: 0.2}
    assert choose(best, {"lean_x1": {0: 1.0}, "lean_x2": {1: 1.0}}, {}, "up").arm == ""
    assert choose(best, {}, {}, "up").arm == ""


@pytest.mark.parametrize("seeds", [2, 3, 5])
def test_the_interval_covers_the_truth_as_often_as_it_says(seeds: int) -> None:
    chance = random.Random(7)
    trials, truth, covered = 2000, 0.3, 0
    for _ in range(trials):
        shared = [chance.gauss(0, 2) for _ in range(seeds)]
        arm = {i: x + truth + chance.gauss(0, 1) for i, x in enumerate(shared)}
        against = {i: x + chance.gauss(0, 1) for i, x in enumerate(shared)}
        found = effect(arm, against)
        covered += found.low <= truth <= found.high
    assert covered / trials == pytest.approx(0.95, abs=0.02)
