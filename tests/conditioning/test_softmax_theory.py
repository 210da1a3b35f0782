"""The prediction for softmax attention at initialisation, against attention drawn at random."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from numpy.typing import NDArray

from manyheads.conditioning.theory import (
    attention_kappa,
    gaussian_edge,
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
    inner = 64 * np.array([6, 8, 12, 18])
    assert attention_kappa(197, inner, 768) == pytest.approx([17.1, 10.8, 7.1, 5.4], rel=0.01)
    assert attention_kappa(197, inner, 768) == pytest.approx([18.1, 11.6, 7.5, 5.6], rel=0.08)  # measured
    raw = raw_attention_kappa(197, inner[1:], 768, logit_std(768, 0.02))
    assert raw == pytest.approx([215, 146, 117], rel=0.08)  # measured
    assert value_kappa(197, 768, 768) == pytest.approx(4.89, rel=0.01)
    assert token_kappa(197, 768) == pytest.approx(3.05, rel=0.01)
    assert logit_std(768, 0.02) == pytest.approx(0.307, abs=0.001)


@pytest.mark.parametrize("heads", [8, 12, 18])
def test_prediction_is_near_attention_drawn_at_random(heads: int) -> None:
    outputs, values = attention(197, 768, heads, 64, 0.02)
    raw, centred = kappas(outputs)
    assert attention_kappa(197, 64 * heads, 768) == pytest.approx(centred, rel=0.1)
    assert raw_attention_kappa(197, 64 * heads, 768, logit_std(768, 0.02)) == pytest.approx(raw, rel=0.1)
    assert value_kappa(197, 64 * heads, 768) == pytest.approx(kappas(values)[0], rel=0.08)


@pytest.mark.parametrize(("tokens", "width"), [(197, 768), (100, 768), (65, 192)])
@pytest.mark.parametrize("s", [0.15, 0.307, 0.628])
def test_energy_of_the_mean(s: float, tokens: int, width: int) -> None:
    outputs, _ = attention(tokens, width, 6, 64, float(np.sqrt(s / width)))
    measured = tokens * np.square(outputs.mean(0)).sum() / np.square(outputs).sum()
    assert mean_energy(s, tokens / width) == pytest.approx(measured, abs=0.03)
    assert mean_energy(s) == pytest.approx(np.exp(-(s**2)))


def test_the_floor_is_kappa_of_the_tokens_and_not_1() -> None:
    far = attention_kappa(197, 64 * 10**6, 768)
    assert far == pytest.approx(float(token_kappa(196, 768)), rel=1e-3)
    assert value_kappa(197, 64 * 10**6, 768) == pytest.approx(float(token_kappa(197, 768)), rel=1e-3)
    assert token_kappa(197, 768) == pytest.approx(float(gaussian_edge(197, 768)), rel=1e-9)
    inner = 64 * np.arange(4, 200)
    assert (np.diff(attention_kappa(197, inner, 768)) < 0).all()
    assert (attention_kappa(197, inner, 768) > token_kappa(196, 768)).all()


def test_no_prediction_where_tokens_are_not_the_smallest_size() -> None:
    found = attention_kappa(197, [64, 128, 192, 196, 256], 768)
    assert np.isnan(found).tolist() == [True, True, True, True, False]
    assert np.isnan(attention_kappa(197, 768, 192))
    assert np.isnan(raw_attention_kappa(197, 128, 768, 0.3))


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
    one = product_edges(100, 400)
    assert [float(edge) for edge in one] == pytest.approx([(1 - 0.5) ** 2, (1 + 0.5) ** 2], rel=1e-6)
