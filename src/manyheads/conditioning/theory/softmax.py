"""Prediction of kappa for softmax attention at initialisation, where the heads are far from independent Gaussian
matrices.

To first order in the logits every head is its token mean plus a product of Gaussian matrices,
    A_h = 1 vbar^T + (1 / (tokens sqrt(head_dim))) C q_h (k_h^T C v_h),     C removes the token mean.
The mean is one large singular value, which dominates raw kappa. The rest, the bulk, is a product of the tokens, the
query weights and one head_dim x head_dim matrix k_h^T C v_h for each head. That matrix is a product too, of sizes
head_dim, width, tokens - 1, width, head_dim, and its spectrum is the wider, the larger head_dim is beside tokens. Heads
side by side count as one product whose inside sizes are heads times as large. All heads read the same tokens, so with
ever more heads kappa approaches that of the tokens, not 1.

The extreme values of a finite matrix lie inside the edges of the limit, on average by the Tracy-Widom mean.

This is derived for this project and compared with draws (`docs/theory.md`). It is within 10 % in the range that
`attention_kappa_holds` states, and not outside. It does not cover trained models."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..gaussian_constants import TW_MEAN
from .gaussian import Array, Numbers


def logit_std(width: Numbers, weight_std: Numbers) -> Array:
    """Standard deviation s of the logits q k^T / sqrt(head_dim) for normalised tokens and weights of `weight_std`."""
    return np.asarray(np.asarray(width, float) * np.asarray(weight_std, float) ** 2)


def mean_energy(logit_std: Numbers, ratio: Numbers = 0.0) -> Array:
    """Fraction of the energy of the heads' output in its token mean, 1 / (e^(s^2) + s^2 ratio), ratio = tokens / width.

    Independent keys and values give e^(-s^2). Both are computed from the same tokens, which adds the other term."""
    square = np.square(np.asarray(logit_std, float))
    return np.asarray(1 / (np.exp(square) + square * np.asarray(ratio, float)))


def product_edges(*sizes: Numbers) -> tuple[Array, Array]:
    """Smallest and largest eigenvalue of the Gram matrix of a product of Gaussian matrices, over the mean eigenvalue.

    `sizes` are the first matrix's rows, then every matrix's columns. The eigenvalues lie between two extrema of
    prod(1 + y / size) / y: its maximum between minus the two smallest sizes, and its minimum over y > 0. Two equal
    smallest sizes make a hard edge: 0."""
    (low, _), (high, _) = _edges(*sizes)
    return low, high


def expected_edges(*sizes: Numbers) -> tuple[Array, Array]:
    """The edges of `product_edges`, moved inwards to where the extreme eigenvalues of a finite matrix are on average.

    An eigenvalue near an edge z(y) is off it by the Tracy-Widom law at the scale (z'' z^2 / 2)^(1/3), which for two
    sizes is that of Johnstone (2001). The log of the smallest is moved, not its value, so that it stays positive."""
    (low, below), (high, above) = _edges(*sizes)
    return np.asarray(low * np.exp(-TW_MEAN * below)), np.asarray(high * np.exp(TW_MEAN * above))


def attention_kappa(tokens: Numbers, inner: Numbers, width: Numbers, heads: Numbers) -> Array:
    """kappa of the concatenated heads with the token mean removed, for near-uniform attention over independent tokens:
    `heads` heads side by side of `inner` columns together.

    It is NaN, no prediction, where tokens - 1 is not the smallest size, as with one head: the first order has a hard
    edge there, and the measured value comes from higher orders. See `attention_kappa_holds`."""
    low, high = _bulk(tokens, inner, width, heads)
    return np.asarray(np.sqrt(high / low))


def raw_attention_kappa(tokens: Numbers, inner: Numbers, width: Numbers, heads: Numbers, logit_std: Numbers) -> Array:
    """kappa of the concatenated heads with their token mean: the mean's singular value over the smallest of the
    bulk. It is within 20 % where `attention_kappa_holds`."""
    low, high = _bulk(tokens, inner, width, heads)
    share = mean_energy(logit_std, np.asarray(tokens, float) / np.asarray(width, float))
    mean = np.asarray(tokens, float) * share / (1 - share)  # over the mean eigenvalue of the bulk
    return np.asarray(np.sqrt(np.maximum(mean, high) / low))


def attention_kappa_holds(
    tokens: Numbers, inner: Numbers, width: Numbers, heads: Numbers, logit_std: Numbers
) -> NDArray[np.bool_]:
    """Whether `attention_kappa` is within 10 % of the geometric mean over draws: 33 tokens or more, width of 3.5 times
    the tokens or more, inner of three times, five heads or more of at most `tokens` columns each, and logits of a
    standard deviation of at most 0.31.

    Outside, the error grows with the logits and towards inner = tokens, where the prediction is high by up to 70 %,
    and with fewer heads or tokens, where it is low by up to 30 %."""
    n, columns, rank, count = (np.asarray(size, float) for size in (tokens, inner, width, heads))
    near = np.asarray(logit_std, float) <= 0.31
    return np.asarray((n >= 33) & (rank >= 3.5 * n) & (columns >= 3 * n) & (count >= 5) & (columns <= count * n) & near)


def value_kappa(tokens: Numbers, inner: Numbers, width: Numbers) -> Array:
    """kappa of the concatenated values, tokens times one Gaussian matrix."""
    low, high = expected_edges(tokens, width, inner)
    return np.asarray(np.sqrt(high / np.where(low > 0, low, np.nan)))


def token_kappa(tokens: Numbers, width: Numbers) -> Array:
    """kappa of independent tokens, which near-uniform attention approaches with ever more heads."""
    low, high = expected_edges(tokens, width)
    return np.asarray(np.sqrt(high / np.where(low > 0, low, np.nan)))


def _bulk(tokens: Numbers, inner: Numbers, width: Numbers, heads: Numbers) -> tuple[Array, Array]:
    rows, columns, rank, count = (np.asarray(size, float) for size in (tokens, inner, width, heads))
    rows = rows - 1
    # the tokens stand in k^T C v twice; the product takes them as independent
    low, high = expected_edges(rows, rank, columns, columns, count * rows, count * rank, count * rank)
    smallest = (rows < rank) & (rows < columns) & (rows > 0) & (count > 1)
    return np.where(smallest, low, np.nan), np.where(smallest, high, np.nan)


def _edges(*sizes: Numbers) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
    """Lower and upper edge of a product's spectrum, each with its Tracy-Widom scale relative to it."""
    dims = np.sort(np.stack(np.broadcast_arrays(*(np.asarray(size, float) for size in sizes))), axis=0)
    zero = np.zeros_like(dims[0])
    soft = dims[1] > dims[0]
    low, below = _edge(dims, _stationary(dims, np.asarray(-dims[1]), np.asarray(-dims[0])))
    high, above = _edge(dims, _stationary(dims, zero, np.asarray(4 * dims[-1])))
    return (np.where(soft, low, 0.0), np.where(soft, below, 0.0)), (high, above)


def _edge(dims: Array, y: Array) -> tuple[Array, Array]:
    """z(y) = prod(1 + y / size) / y in the smallest size, and (z'' z^2 / 2)^(1/3) / z where z' = 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        value = dims[0] * np.prod(1 + y / dims, axis=0) / np.where(y == 0, np.nan, y)
        bend = 1 / np.square(y) - np.sum(1 / np.square(dims + y), axis=0)  # z'' / z
        return np.asarray(value), np.asarray(np.cbrt(np.abs(bend) / 2))


def _stationary(dims: Array, low: Array, high: Array) -> Array:
    """The only root of sum y / (size + y) = 1 between `low` and `high`, where that sum grows, by bisection."""
    for _ in range(60):
        middle = (low + high) / 2
        with np.errstate(divide="ignore", invalid="ignore"):
            over = np.sum(middle / (dims + middle), axis=0) > 1
        low, high = np.where(over, low, middle), np.where(over, middle, high)
    return np.asarray((low + high) / 2)
