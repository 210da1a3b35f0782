"""The prediction for softmax attention at initialisation, against attention drawn at random."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from numpy.typing import NDArray

from manyheads.conditioning.theory import (
    attention_kappa,
    attention_kappa_holds,
    expected_edges,
    gaussian_log_kappa,
    logit_std,
    mean_energy,
    product_edges,
    raw_attention_kappa,
    token_kappa,
    value_kappa,
)

Array = NDArray[np.float64]


def attention(tokens: int, width: int, heads: int, head_dim: int, std: float, seed: int = 0) -> tuple[Array, Array]:
    """Concatenated head outputs and values of softmax attention over independent normalised tokens."""
    draw = np.random.default_rng(seed)
    x = draw.standard_normal((tokens, width))
    x = (x - x.mean(1, keepdims=True)) / x.std(1, keepdims=True)
    outputs, values = [], []
    for _ in range(heads):
        q, k, v = (x @ (std * draw.standard_normal((width, head_dim))) for _ in range(3))
        weights = np.exp(q @ k.T / np.sqrt(head_dim))
        outputs.append(weights / weights.sum(1, keepdims=True) @ v)
        values.append(v)
    return np.concatenate(outputs, 1), np.concatenate(values, 1)


def kappas(matrix: Array) -> tuple[float, float]:
    """Raw and centred kappa."""
    raw = np.linalg.svd(matrix, compute_uv=False)
    rest = np.linalg.svd(matrix - matrix.mean(0), compute_uv=False)
    return float(raw[0] / raw[-1]), float(rest[0] / rest[min(matrix.shape[0] - 1, matrix.shape[1]) - 1])


def test_check_values_at_197_tokens() -> None:
    heads = np.array([6, 8, 12, 18])
    assert attention_kappa(197, 64 * heads, 768, heads) == pytest.approx([20.5, 12.5, 7.89, 5.83], rel=0.01)
    assert attention_kappa(197, 64 * heads, 768, heads) == pytest.approx([18.8, 11.4, 7.43, 5.52], rel=0.1)  # measured
    raw = raw_attention_kappa(197, 64 * heads[1:], 768, heads[1:], logit_std(768, 0.02))
    assert raw == pytest.approx([209, 144, 118], rel=0.08)  # measured
    assert value_kappa(197, 768, 768) == pytest.approx(4.75, rel=0.01)
    assert token_kappa(197, 768) == pytest.approx(2.99, rel=0.01)
    assert logit_std(768, 0.02) == pytest.approx(0.307, abs=0.001)


@pytest.mark.parametrize("heads", [10, 12, 18])
def test_prediction_is_near_attention_drawn_at_random(heads: int) -> None:
    outputs, values = attention(197, 768, heads, 64, 0.02)
    raw, centred = kappas(outputs)
    assert attention_kappa(197, 64 * heads, 768, heads) == pytest.approx(centred, rel=0.1)
    assert raw_attention_kappa(197, 64 * heads, 768, heads, logit_std(768, 0.02)) == pytest.approx(raw, rel=0.15)
    assert value_kappa(197, 64 * heads, 768) == pytest.approx(kappas(values)[0], rel=0.08)


def drawn(tokens: int, width: int, heads: int, head_dim: int, logits: float, draws: int = 12) -> float:
    """Centred kappa, the geometric mean over draws with seeds 0, 1, ..."""
    std = float(np.sqrt(logits / width))
    logs = [np.log(kappas(attention(tokens, width, heads, head_dim, std, seed)[0])[1]) for seed in range(draws)]
    return float(np.exp(np.mean(logs)))


SHAPES = [(50, 200, 5, 40), (50, 200, 20, 20), (33, 132, 5, 24), (40, 160, 5, 40), (64, 224, 6, 60), (60, 600, 30, 10)]


@pytest.mark.parametrize("logits", [0.05, 0.3])
@pytest.mark.parametrize(("tokens", "width", "heads", "head_dim"), SHAPES)
def test_where_it_says_that_it_holds_the_prediction_is_within_a_tenth(
    tokens: int, width: int, heads: int, head_dim: int, logits: float
) -> None:
    predicted = attention_kappa(tokens, heads * head_dim, width, heads)
    assert attention_kappa_holds(tokens, heads * head_dim, width, heads, logits)
    assert predicted == pytest.approx(drawn(tokens, width, heads, head_dim, logits), rel=0.1)


@pytest.mark.slow
def test_the_stated_range_holds_over_random_shapes() -> None:
    draw = np.random.default_rng(0)
    for _ in range(60):
        tokens = int(draw.integers(33, 150))
        width, heads = int(tokens * draw.uniform(3.6, 8)), int(draw.integers(5, 25))
        head_dim = int(draw.integers(-(-3 * tokens // heads), max(tokens, -(-3 * tokens // heads)) + 1))
        logits = float(draw.uniform(0.02, 0.31))
        assert attention_kappa_holds(tokens, heads * head_dim, width, heads, logits)
        found = drawn(tokens, width, heads, head_dim, logits, draws=4)
        predicted = attention_kappa(tokens, heads * head_dim, width, heads)
        assert predicted == pytest.approx(found, rel=0.12), (tokens, width, heads, head_dim, logits)  # 4 draws: 2 %


@pytest.mark.parametrize(
    ("tokens", "inner", "width", "heads", "logits"),
    [(17, 192, 192, 6, 0.1), (100, 400, 400, 2, 0.1), (197, 256, 768, 8, 0.1), (197, 768, 384, 12, 0.1),
     (50, 400, 200, 5, 0.1), (197, 768, 768, 12, 0.6)],
)  # fmt: skip
def test_outside_of_its_range_it_says_so(tokens: int, inner: int, width: int, heads: int, logits: float) -> None:
    assert not attention_kappa_holds(tokens, inner, width, heads, logits)


def test_at_one_inner_width_larger_heads_are_worse_conditioned() -> None:
    heads = np.array([2, 4, 8, 16])
    predicted = attention_kappa(50, 400, 400, heads)
    assert (np.diff(predicted) < 0).all()
    measured = [drawn(50, 400, count, 400 // count, 0.1, draws=4) for count in (2, 4, 8, 16)]
    assert (np.diff(measured) < 0).all()


@pytest.mark.parametrize(("tokens", "width"), [(197, 768), (100, 768), (65, 192)])
@pytest.mark.parametrize("s", [0.15, 0.307, 0.628])
def test_energy_of_the_mean(s: float, tokens: int, width: int) -> None:
    outputs, _ = attention(tokens, width, 6, 64, float(np.sqrt(s / width)))
    measured = tokens * np.square(outputs.mean(0)).sum() / np.square(outputs).sum()
    assert mean_energy(s, tokens / width) == pytest.approx(measured, abs=0.03)
    assert mean_energy(s) == pytest.approx(np.exp(-(s**2)))


def test_the_floor_is_kappa_of_the_tokens_and_not_1() -> None:
    far = attention_kappa(197, 64 * 10**6, 768, 10**6)
    assert far == pytest.approx(float(token_kappa(196, 768)), rel=1e-3)
    assert value_kappa(197, 64 * 10**6, 768) == pytest.approx(float(token_kappa(197, 768)), rel=1e-3)
    heads = np.arange(4, 200)
    assert (np.diff(attention_kappa(197, 64 * heads, 768, heads)) < 0).all()
    assert (attention_kappa(197, 64 * heads, 768, heads) > token_kappa(196, 768)).all()


@pytest.mark.parametrize(("tokens", "width"), [(197, 768), (197, 256), (65, 192), (17, 64)])
def test_tokens_alone_have_the_expectation_of_a_gaussian_matrix(tokens: int, width: int) -> None:
    assert token_kappa(tokens, width) == pytest.approx(np.exp(gaussian_log_kappa(tokens, width).mean), rel=0.02)


def test_no_prediction_where_tokens_are_not_the_smallest_size() -> None:
    found = attention_kappa(197, [64, 128, 192, 196, 256], 768, 4)
    assert np.isnan(found).tolist() == [True, True, True, True, False]
    assert np.isnan(attention_kappa(197, 768, 192, 12))
    assert np.isnan(attention_kappa(197, 768, 768, 1))  # one head: k^T v has no more rows than the tokens
    assert np.isnan(raw_attention_kappa(197, 128, 768, 2, 0.3))


def test_edges_of_a_product_of_gaussian_matrices() -> None:
    draw = np.random.default_rng(0)
    sizes = (150, 600, 450, 700)
    product = np.eye(150)
    for rows, columns in pairwise(sizes):
        product = product @ draw.standard_normal((rows, columns)) / np.sqrt(columns)
    values = np.square(np.linalg.svd(product, compute_uv=False))
    low, high = product_edges(*sizes)
    assert low == pytest.approx(values[-1] / values.mean(), rel=0.2)  # a soft edge: samples stay inside
    assert high == pytest.approx(values[0] / values.mean(), rel=0.1)
    assert product_edges(100, 100)[0] == 0
    inside = expected_edges(*sizes)
    assert low < inside[0] < inside[1] < high
    one = product_edges(100, 400)
    assert [float(edge) for edge in one] == pytest.approx([(1 - 0.5) ** 2, (1 + 0.5) ** 2], rel=1e-6)
