"""Prediction of kappa for softmax attention at initialisation, where the heads are far from independent Gaussian
matrices.

To first order in the logits every head is its token mean plus a product of Gaussian matrices,
    A_h = 1 vbar^T + (1 / (tokens sqrt(head_dim))) C q_h (k_h^T C v_h),     C removes the token mean.
The mean is one large singular value, which dominates raw kappa. The rest, the bulk, is a product of matrices whose
sizes are tokens, width and inner (twice). All heads read the same tokens, so with ever more heads kappa approaches that
of the tokens, not 1.

This is derived for this project and checked against samples (`docs/theory.md`): it is within 10 % for near-uniform
attention with tokens well below width and inner. It does not cover trained models."""

from __future__ import annotations

import numpy as np

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
    dims = np.sort(np.stack(np.broadcast_arrays(*(np.asarray(size, float) for size in sizes))), axis=0)
    zero = np.zeros_like(dims[0])
    low = _value(dims, _stationary(dims, np.asarray(-dims[1]), np.asarray(-dims[0])))
    high = _value(dims, _stationary(dims, zero, np.asarray(4 * dims[-1])))
    return np.asarray(np.where(dims[1] > dims[0], low, 0.0)), high


def attention_kappa(tokens: Numbers, inner: Numbers, width: Numbers) -> Array:
    """kappa of the concatenated heads with the token mean removed, for near-uniform attention over independent tokens.

    It is NaN, no prediction, where tokens - 1 is not the smallest size: the first order has a hard edge there, and the
    measured value comes from higher orders."""
    low, high = _bulk(tokens, inner, width)
    return np.asarray(np.sqrt(high / low))


def raw_attention_kappa(tokens: Numbers, inner: Numbers, width: Numbers, logit_std: Numbers) -> Array:
    """kappa of the concatenated heads with their token mean: the mean's singular value over the smallest of the
    bulk."""
    low, high = _bulk(tokens, inner, width)
    share = mean_energy(logit_std, np.asarray(tokens, float) / np.asarray(width, float))
    mean = np.asarray(tokens, float) * share / (1 - share)  # over the mean eigenvalue of the bulk
    return np.asarray(np.sqrt(np.maximum(mean, high) / low))


def value_kappa(tokens: Numbers, inner: Numbers, width: Numbers) -> Array:
    """kappa of the concatenated values, tokens times one Gaussian matrix."""
    low, high = product_edges(tokens, width, inner)
    return np.asarray(np.sqrt(high / np.where(low > 0, low, np.nan)))


def token_kappa(tokens: Numbers, width: Numbers) -> Array:
    """kappa of independent tokens, which near-uniform attention approaches with ever more heads."""
    low, high = product_edges(tokens, width)
    return np.asarray(np.sqrt(high / np.where(low > 0, low, np.nan)))


def _bulk(tokens: Numbers, inner: Numbers, width: Numbers) -> tuple[Array, Array]:
    rows = np.asarray(tokens, float) - 1
    low, high = product_edges(rows, width, inner, inner)
    smallest = (rows < np.asarray(width)) & (rows < np.asarray(inner)) & (rows > 0)
    return np.where(smallest, low, np.nan), np.where(smallest, high, np.nan)


def _value(dims: Array, y: Array) -> Array:
    return np.asarray(dims[0] * np.prod(1 + y / dims, axis=0) / np.where(y == 0, np.nan, y))


def _stationary(dims: Array, low: Array, high: Array) -> Array:
    """The only root of sum y / (size + y) = 1 between `low` and `high`, where that sum grows, by bisection."""
    for _ in range(60):
        middle = (low + high) / 2
        with np.errstate(divide="ignore", invalid="ignore"):
            over = np.sum(middle / (dims + middle), axis=0) > 1
        low, high = np.where(over, low, middle), np.where(over, middle, high)
    return np.asarray((low + high) / 2)
