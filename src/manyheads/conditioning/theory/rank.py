"""What heads of a given rank can and cannot compute: closed forms around the second paper (2407.16153), for its
smallest task.

The task: two orthonormal tokens x_1, x_2 and a query y uniform on the sphere of `dim` dimensions; the target is the
token nearer to y. With w = x_1 - x_2 it is (x_1 + x_2)/2 + sgn(w y) w/2, so the question is how well functions of
projections on `rank` dimensions approximate a sign. Errors are mean squared distances: 0 is perfect, 1/2 is guessing
the midpoint.

Formulas marked [derived] are this project's own, checked against samples in the tests; [paper] are the paper's.
"""

from __future__ import annotations

import math

import numpy as np

from .gaussian import Array, Numbers

DEGREES = 99  # odd harmonics up to here; the overlap's terms fall at least as fast as degree^-3


def sign_coefficient(dim: int, degree: int) -> float:
    """Funk-Hecke coefficient of sgn on the sphere in `dim` dimensions: sgn(x y) = sum over odd degrees of coefficient x
    harmonics x P_degree(x y). Zero for even degrees."""
    if degree % 2 == 0:
        return 0.0
    half, order = (degree - 1) // 2, degree + (dim - 3) / 2
    log = (
        math.lgamma(dim / 2)
        - math.log(math.pi) / 2
        - (degree - 1) * math.log(2)
        - math.lgamma(degree + (dim - 1) / 2)
        + math.lgamma(degree)
        + math.lgamma(order + 1)
        - math.lgamma(half + 1)
        - math.lgamma(order - half + 1)
    )
    return math.exp(log) if half % 2 == 0 else -math.exp(log)


def harmonics(dim: int, degree: int) -> float:
    """Independent spherical harmonics of `degree` in `dim` dimensions."""
    if degree == 0:
        return 1.0
    log = math.lgamma(degree + dim - 2) - math.lgamma(degree) - math.lgamma(dim - 1)
    return (2 * degree + dim - 2) / degree * math.exp(log)


def plateau(dim: int | float, degree: int = 1) -> float:
    """Error when every harmonic of the sign up to `degree` is fitted and none above it [derived].

    Rank-1 heads stay at the plateau of degree 1 until there are about dim^3 / 6 of them: 0.1397 at dim 4, and
    (1 - 2/pi)/2 = 0.1817 at `dim=math.inf`."""
    odd = range(1, degree + 1, 2)
    if math.isinf(dim):  # the series of (2/pi) asin(1)
        fitted = math.fsum(2 / math.pi * math.comb(j - 1, (j - 1) // 2) / 2.0 ** (j - 1) / j for j in odd)
    else:
        fitted = math.fsum(sign_coefficient(int(dim), j) ** 2 * harmonics(int(dim), j) for j in odd)
    return (1 - fitted) / 2


def heads_for_degree(dim: int, degree: int, rank: int = 1) -> float:
    """Heads of `rank` needed to fit a degree, by counting polynomials: C(dim + l - 1, l) / C(rank + l - 1, l), about
    dim^l / l! for rank 1. A heuristic, not a bound."""
    return math.comb(dim + degree - 1, degree) / math.comb(rank + degree - 1, degree)


def one_head(coverage: Numbers, *, hard: bool = False) -> Array:
    """Error of one head whose rank covers a share of the score's variance: rank / dim for isotropic tokens [derived].

    The best soft head has (1 - (2/pi) asin f) / 2; one that takes the larger score has (1 - ((2/pi) asin sqrt f)^2) /
    2. With `rank_coverage` for f it is the retrieval floor of anisotropic tokens, up to 20 % low where variances fall
    as 1/i^2."""
    share = np.asarray(coverage, float)
    overlap = (2 / np.pi * np.arcsin(np.sqrt(share))) ** 2 if hard else 2 / np.pi * np.arcsin(share)
    return np.asarray((1 - overlap) / 2)


def rank_coverage(variances: Numbers, rank: int) -> float:
    """Share of the total in the `rank` largest of `variances`. Where spectra decay it is near 1 at a head_dim far below
    the width.

    The variances are those of the score in each direction: v^2 where query and key are both tokens of variance v
    (self-attention), v where one of them is isotropic."""
    ordered = np.sort(np.asarray(variances, float))[::-1]
    total = ordered.sum()
    return float(ordered[:rank].sum() / total) if total > 0 else 1.0


def splitting_floor(heads: Numbers) -> Array:
    """Error of `heads` heads on disjoint subspaces of dim / heads each, with any additive read-out [derived]: 0 for
    one head, 1/6 for two, 0.1817 in the limit of many."""
    count = np.asarray(heads, float)
    return np.asarray((1 - 2 * count / np.pi * np.arcsin(1 / count)) / 2)


def majority_vote(dim: Numbers, heads: Numbers) -> Array:
    """Error when rank-1 heads with q = k vote and a second layer counts the votes [derived].

    The vote is wrong with probability (1/pi) atan((pi/2) sqrt(dim / heads)), and a wrong vote costs 2. The heads needed
    grow as dim, where a single layer needs dim^3 / 6."""
    ratio = np.asarray(dim, float) / np.asarray(heads, float)
    return np.asarray(2 / np.pi * np.arctan(np.pi / 2 * np.sqrt(ratio)))


def rank_one_overlaps(queries: Array, keys: Array) -> tuple[Array, Array]:
    """C and b for hard rank-1 heads with unit rows q_h and k_h: C_gh is the chance that two heads choose the same
    token, 1/2 + (2/pi^2) asin(q_g q_h) asin(k_g k_h), and b_h the chance that a head chooses the right one [paper]."""
    dim = queries.shape[1]
    same = 0.5 + 2 / np.pi**2 * np.arcsin(_cosines(queries, queries)) * np.arcsin(_cosines(keys, keys))
    cosine = np.clip(np.sum(queries * keys, axis=1), -1.0, 1.0)
    before, now, total = np.ones_like(cosine), cosine.copy(), np.zeros_like(cosine)
    for degree in range(1, DEGREES + 1):  # `now` is P_degree(cosine) with P(1) = 1, by its three-term recurrence
        total += sign_coefficient(dim, degree) ** 3 * harmonics(dim, degree) * now
        before, now = now, ((2 * degree + dim - 2) * cosine * now - degree * before) / (degree + dim - 2)
    return same, 0.5 + total / 2


def best_rank_one(queries: Array, keys: Array) -> float:
    """Least error of a weighted sum of hard rank-1 heads, 1 - b^T C^-1 b [paper]."""
    same, right = rank_one_overlaps(queries, keys)
    weights = np.linalg.lstsq(same, right, rcond=1e-12)[0]
    return float(1 - right @ weights)


def heads_high_accuracy(dim: int | float, rank: int | float, *, constant: float = 1.0) -> float:
    """Theorem 2 of the paper, for an error below about 1 / dim: heads of `rank` needed,
    constant x 2^(dim - (rank + 1) log2(2 dim / rank)).

    UNVERIFIED: the exponent's form and the constant are quoted from memory; use the growth, not the value."""
    return constant * math.exp2(dim - (rank + 1) * math.log2(2 * dim / rank))


def heads_high_dimension(
    dim: int | float, rank: int | float, error: float, *, inside: float = 1.0, power: float = 1.0
) -> float:
    """Theorem 2 of the paper, for any error in high dimension: heads of `rank` needed,
    (dim / (2e (rank + inside / error)))^(power / error) / 2.

    UNVERIFIED: both constants are known to exist and are set to 1; use the growth, not the value."""
    return 0.5 * math.pow(dim / (2 * math.e * (rank + inside / error)), power / error)


def _cosines(a: Array, b: Array) -> Array:
    return np.clip(a @ b.T, -1.0, 1.0)
