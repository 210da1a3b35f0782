"""Correlations over designs and growth over sizes, on made-up data with known answers."""

from __future__ import annotations

import math
import random

import pytest
from scipy import stats

from manyheads.experiments.designs import growth, needed, partial_correlation, ranks, spearman


def test_rank_correlation_is_scipys() -> None:
    a, b = [3.0, 1.0, 4.0, 1.0, 5.0, 9.0, 2.0], [2.0, 7.0, 1.0, 8.0, 2.0, 8.0, 1.0]
    assert spearman(a, b) == pytest.approx(float(stats.spearmanr(a, b).statistic))
    assert spearman(a, [1.0] * 7) == 0.0
    found = partial_correlation(a, b, {}, permutations=1999)
    assert found is not None
    assert found.value == pytest.approx(spearman(a, b))
    exact = stats.permutation_test((a,), lambda x: spearman(x, b), permutation_type="pairings", n_resamples=5040)
    assert found.chance == pytest.approx(float(exact.pvalue), abs=0.05)


def test_what_is_held_fixed_is_taken_out_of_both() -> None:
    draw = random.Random(2)
    size = [float(i) for i in range(14)]
    x, y = ([v + draw.gauss(0, 0.5) for v in size] for _ in range(2))
    plain, held = (partial_correlation(x, y, given) for given in ({}, {"params": size}))
    assert plain is not None
    assert held is not None
    assert plain.value > 0.9  # both follow the size
    assert abs(held.value) < 0.6
    assert held.held == ("params",)
    expected = _residual_correlation(ranks(x), ranks(y), ranks(size))
    assert held.value == pytest.approx(expected)


def _residual_correlation(x: list[float], y: list[float], z: list[float]) -> float:
    xy, xz, yz = (stats.pearsonr(*pair).statistic for pair in ((x, y), (x, z), (y, z)))
    return float((xy - xz * yz) / math.sqrt((1 - xz**2) * (1 - yz**2)))


def test_the_interval_of_a_correlation_stays_within_one() -> None:
    for n in (4, 5, 14):
        found = partial_correlation(range(n), [v**2 for v in range(n)], {})
        assert found is not None
        assert -1 <= found.low <= found.value == pytest.approx(1.0)
        assert found.high <= 1
    assert partial_correlation([1, 2, 3], [1, 2, 3], {}) is None
    assert partial_correlation([1, 2, 3, 4, 5], [2, 2, 2, 2, 2], {}) is None


def test_the_cost_of_a_target_is_interpolated_in_its_logarithm() -> None:
    assert needed([1, 2, 4], [0.9, 0.6, 0.4], 0.5) == pytest.approx(math.sqrt(8))
    assert needed([1, 2], [0.1, 0.05], 0.5) == 1
    assert needed([4, 8], [0.1, 0.05], 0.5) is None  # fewer than 4 would do: nobody knows how many
    assert needed([1, 2], [0.9, 0.8], 0.5) is None


def test_growth_tells_an_exponential_from_a_power() -> None:
    draw, sizes, seeds = random.Random(5), (4, 5, 6, 7, 8), range(5)

    def noisy(cost: float) -> float:
        return cost * math.exp(draw.gauss(0, 0.02))

    exponential = growth({d: {s: noisy(math.exp(0.9 * d)) for s in seeds} for d in sizes})
    power = growth({d: {s: noisy(d**5.0) for s in seeds} for d in sizes})
    assert exponential is not None
    assert power is not None
    assert exponential.low > 0
    assert power.high < 0
    assert growth({4: {0: 1.0}, 5: {1: 2.0}}) is None
