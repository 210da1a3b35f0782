"""The closed forms of rank per head, each against samples and the values on record."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from manyheads.conditioning.theory import (
    best_rank_one,
    harmonics,
    heads_for_degree,
    heads_high_accuracy,
    heads_high_dimension,
    majority_vote,
    one_head,
    plateau,
    rank_coverage,
    rank_one_overlaps,
    sign_coefficient,
    splitting_floor,
)

Array = NDArray[np.float64]


def unit(rows: int, dim: int, seed: int) -> Array:
    """Random unit rows."""
    x = np.random.default_rng(seed).standard_normal((rows, dim))
    return np.asarray(x / np.linalg.norm(x, axis=1, keepdims=True))


def test_plateaus() -> None:
    assert [plateau(d) for d in (4, 8, 16, 32, 64)] == pytest.approx([0.1397, 0.1612, 0.1716, 0.1767, 0.1792], abs=5e-5)
    high = [plateau(math.inf, degree) for degree in (1, 3, 5, 7, 9)]
    assert high == pytest.approx([0.1817, 0.1286, 0.1048, 0.0906, 0.0809], abs=5e-5)
    assert plateau(math.inf) == pytest.approx((1 - 2 / math.pi) / 2)
    assert plateau(10**6, 5) == pytest.approx(plateau(math.inf, 5), abs=1e-5)
    assert plateau(16, 2) == plateau(16, 1)
    assert plateau(5, 399) == pytest.approx(0.0, abs=0.002)  # the sign has no other energy


def test_degree_one_plateau_is_the_best_linear_read_out() -> None:
    x, w = unit(200_000, 8, 0), unit(200_000, 8, 1)
    inside = np.sum(x * w, axis=1)
    slope = np.mean(np.abs(inside)) / np.mean(inside**2)
    assert np.mean((np.sign(inside) - slope * inside) ** 2) / 2 == pytest.approx(plateau(8), abs=0.002)


def test_harmonics_and_coefficients() -> None:
    assert [harmonics(3, degree) for degree in range(5)] == pytest.approx([1, 3, 5, 7, 9])
    assert harmonics(2, 7) == pytest.approx(2)
    assert sign_coefficient(3, 1) == pytest.approx(0.5)
    assert sign_coefficient(2, 3) == pytest.approx(-2 / (3 * math.pi))
    assert sign_coefficient(9, 4) == 0


@pytest.mark.parametrize("hard", [True, False])
@pytest.mark.parametrize(("rank", "dim"), [(8, 16), (4, 16), (16, 64)])
def test_one_head_of_lower_rank(rank: int, dim: int, hard: bool) -> None:
    w, y = unit(200_000, dim, 2), unit(200_000, dim, 3)
    sign, score = np.sign(np.sum(w * y, 1)), np.sum(w[:, :rank] * y[:, :rank], 1)
    guess = np.sign(score)
    if not hard:  # E[sign | projections]: what is not seen has known length and unknown direction, nearly normal
        unseen = np.prod([1 - np.sum(x[:, :rank] ** 2, 1) for x in (w, y)], axis=0) / (dim - rank)
        guess = np.vectorize(math.erf)(score / np.sqrt(2 * unseen))
    best = np.mean(sign * guess) ** 2 / np.mean(guess**2)
    assert one_head(rank / dim, hard=hard) == pytest.approx((1 - best) / 2, abs=0.012)


def test_one_head_check_values() -> None:
    assert one_head(0.5, hard=True) == pytest.approx(0.375)
    assert one_head(0.5) == pytest.approx(1 / 3)
    assert one_head([0, 1]) == pytest.approx([0.5, 0])
    falls = 1 / np.arange(1, 257)
    assert one_head(rank_coverage(falls, 64)) == pytest.approx(0.218, abs=0.001)  # score variances 1/i
    assert one_head(rank_coverage(falls**2, 64)) == pytest.approx(0.038, abs=0.001)


def test_rank_coverage() -> None:
    assert rank_coverage(np.ones(64), 16) == 0.25
    assert rank_coverage([1, 4, 2, 1], 1) == 0.5
    assert rank_coverage([3, 1], 5) == 1.0
    assert rank_coverage([0, 0], 1) == 1.0


@pytest.mark.parametrize("rank", [1, 4, 16])
def test_a_score_of_two_tokens_has_the_square_of_their_variance(rank: int) -> None:
    """The sign of a rank-r score agrees with the whole one's as often as their correlation sqrt(coverage) says."""
    variances = 1 / np.arange(1, 65) ** 0.5
    draw = np.random.default_rng(rank)
    w, y = draw.standard_normal((2, 100_000, 64)) * np.sqrt(variances)
    parts = w * y
    whole, part = parts.sum(1), parts[:, :rank].sum(1)
    assert np.corrcoef(whole, part)[0, 1] ** 2 == pytest.approx(rank_coverage(variances**2, rank), abs=0.01)
    assert rank_coverage(variances, rank) < 0.75 * rank_coverage(variances**2, rank)


def test_splitting_floor() -> None:
    assert splitting_floor([1, 2, 4, 10**6]) == pytest.approx([0, 1 / 6, 0.1783, 0.1817], abs=1e-4)
    draw = np.random.default_rng(3)
    a, b = draw.standard_normal((2, 400_000))  # two heads: scores of two disjoint halves, a sum of any two functions
    cells = np.linspace(0.02, 0.98, 25)
    groups = [np.digitize(x, np.quantile(x, cells)) for x in (a, b)]
    sign = np.sign(a + b)
    fit = sum(np.bincount(g, sign)[g] / np.bincount(g)[g] for g in groups)
    assert np.mean((sign - fit) ** 2) / 2 == pytest.approx(1 / 6, abs=0.003)


@pytest.mark.parametrize(("dim", "heads", "wrong"), [(64, 513, 0.161), (64, 8193, 0.044), (16, 65, 0.211)])
def test_majority_vote(dim: int, heads: int, wrong: float) -> None:
    assert majority_vote(dim, heads) / 2 == pytest.approx(wrong, abs=0.002)
    w, y, q = unit(1500, dim, 4), unit(1500, dim, 5), unit(heads, dim, 6)
    votes = np.sign(np.sum(np.sign(w @ q.T) * np.sign(y @ q.T), axis=1))
    assert np.mean(votes != np.sign(np.sum(w * y, 1))) == pytest.approx(wrong, abs=0.03)


@pytest.mark.parametrize("dim", [2, 3, 8, 16])
def test_overlaps_of_rank_one_heads(dim: int) -> None:
    queries, keys = unit(4, dim, 7), unit(4, dim, 8)
    same, right = rank_one_overlaps(queries, keys)
    w, y = unit(200_000, dim, 9), unit(200_000, dim, 10)
    choice = np.sign(y @ queries.T) * np.sign(w @ keys.T)
    assert np.mean(choice == np.sign(np.sum(w * y, 1))[:, None], axis=0) == pytest.approx(right, abs=0.005)
    assert (choice[:, :, None] == choice[:, None]).mean(0) == pytest.approx(same, abs=0.005)


def test_overlap_in_the_plane_has_a_closed_form() -> None:
    queries, keys = unit(20, 2, 11), unit(20, 2, 12)
    angle = np.arccos(np.sum(queries * keys, 1))
    folded = np.minimum(angle, np.pi - angle)
    exact = 0.5 + np.sign(np.pi / 2 - angle) * (0.25 - (folded / np.pi) ** 2)
    assert rank_one_overlaps(queries, keys)[1] == pytest.approx(exact, abs=1e-4)


def test_rank_one_heads_come_down_to_the_plateau_and_stay() -> None:
    queries = unit(1024, 8, 13)
    signs = np.where(np.arange(1024) % 2, 1.0, -1.0)[:, None]
    errors = [best_rank_one(queries[:heads], (queries * signs)[:heads]) for heads in (4, 16, 64, 1024)]
    assert (np.diff(errors) < 0).all()
    assert errors[-1] > plateau(8, 3)
    assert errors[-1] == pytest.approx(plateau(8), abs=0.03)
    assert heads_for_degree(8, 3) == 120


def test_theorem_2_grows_as_it_says() -> None:
    assert heads_high_accuracy(128, 8) / heads_high_accuracy(64, 8) > 1e15
    assert heads_high_accuracy(64, 32) < heads_high_accuracy(64, 8)
    assert heads_high_dimension(10**6, 4, 0.1) > heads_high_dimension(10**5, 4, 0.1)
    assert heads_high_dimension(10**6, 4, 0.05) > heads_high_dimension(10**6, 4, 0.1)
