"""Exact samples of kappa for Gaussian blocks, without forming one: the bidiagonal chi model."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def sample_kappa(tokens: int, inner: int, samples: int, seed: int = 0) -> Array:
    """kappa of `samples` Gaussian blocks of tokens x inner, drawn exactly.

    A Gaussian n x p block (n >= p) has the singular values of a p x p bidiagonal matrix whose diagonal is chi_n,
    chi_(n-1), ... and whose other diagonal is chi_(p-1), ..., chi_1, all independent (Dumitriu and Edelman, J. Math.
    Phys. 43, 2002): 2p numbers in place of np. The extreme values are found by bisection, all samples at once."""
    n, p = max(tokens, inner), min(tokens, inner)
    draw = np.random.default_rng(seed)
    main = draw.chisquare(np.arange(n, n - p, -1), (samples, p)).T  # squared entries, one row per step of the count
    side = draw.chisquare(np.arange(p - 1, 0, -1), (samples, p - 1)).T
    above = main.sum(0) + side.sum(0)  # the trace of the Gram matrix bounds every eigenvalue
    largest = _eigenvalue(main, side, above, p - 1)
    return np.asarray(np.exp((largest - _eigenvalue(main, side, above, 0)) / 2))


def _eigenvalue(main: Array, side: Array, above: Array, index: int) -> Array:
    """log of eigenvalue number `index`, ascending, of each bidiagonal's Gram matrix, by bisection on log lambda."""
    high = np.log(above)
    low = high - 64.0  # e^-64 of the trace: kappa up to e^32
    for _ in range(34):
        middle = (low + high) / 2
        over = _below(main, side, np.exp(middle)) > index
        low, high = np.where(over, low, middle), np.where(over, middle, high)
    return np.asarray((low + high) / 2)


def _below(main: Array, side: Array, shift: Array) -> Array:
    """How many eigenvalues lie below `shift`: negative pivots of the stationary qd transform, relatively accurate
    (Fernando and Parlett, Numer. Math. 67, 1994)."""
    count = np.zeros_like(shift)
    rest = -shift
    for step in range(len(main)):
        pivot = main[step] + rest
        pivot = np.where(np.abs(pivot) < 1e-280, -1e-280, pivot)
        count += pivot < 0
        if step < len(side):
            rest = side[step] * (rest / pivot) - shift
    return count
