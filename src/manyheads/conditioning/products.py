"""Extreme eigenvectors of many Gram matrices by matrix products alone: no loop over the batch, no wait for the device.

`torch.linalg.eigvalsh` and `svdvals` walk a CUDA batch one matrix at a time. Products, a Cholesky factor and a
triangular inverse are batched, so the largest eigenvector of G is sought in G^(2^k) by k squarings, the smallest in the
same power of its inverse, and STEPS products of that power with a vector raise it further at little cost.

How far. A vector u = G^P e has a Rayleigh quotient below the largest eigenvalue by a relative error of at most about
W(p/e) / 2P for *any* spectrum of p values (W is Lambert's function; the worst is p - 1 equal values, log(p)/2P below
the largest). Isolated edges converge exponentially faster; flat spectra are what the number of squarings is for."""

from __future__ import annotations

import math

import torch
from jaxtyping import Bool, Float
from torch import Tensor

STEPS = 16  # products with a vector: each costs 1/p of a squaring, but moves as many bytes
TOLERANCE = 4e-5  # relative, on either eigenvalue; kappa has half of both
RESCALE = 3  # squarings between divisions by the trace: p^-8 is far above what float64 holds


def squarings(size: int) -> int:
    """Squarings after which any spectrum of `size` values has its edge to within TOLERANCE."""
    worst = max(1.0, math.log(size) - 1)
    worst = max(1.0, worst - math.log(worst) * (1 - 1 / worst))  # Lambert's W(size / e), a few percent high
    return max(1, math.ceil(math.log2(worst / (2 * TOLERANCE * STEPS))))


def extreme_vectors(
    gram: Float[Tensor, "batch size size"],
) -> tuple[Float[Tensor, "batch size"], Float[Tensor, "batch size"], Bool[Tensor, " batch"]]:
    """Unit eigenvectors of the largest and the smallest eigenvalue, and whether Cholesky found `gram` positive
    definite.

    Where it did not, the first is still right and the second is finite and means nothing."""
    eye = torch.eye(gram.shape[-1], dtype=gram.dtype, device=gram.device)
    scale = gram.diagonal(dim1=-2, dim2=-1).mean(-1)[:, None, None]
    gram = torch.where(scale > 0, gram / torch.where(scale > 0, scale, 1.0), eye)
    factor, info = torch.linalg.cholesky_ex(gram)
    definite = (info == 0) & (scale[:, 0, 0] > 0)
    factor = torch.where(definite[:, None, None], factor, eye)
    root = torch.linalg.solve_triangular(factor, eye.expand_as(factor), upper=False)
    largest, smallest = _top_vectors(torch.cat([gram, root.mT @ root])).chunk(2)
    return largest, smallest, definite


def _top_vectors(power: Float[Tensor, "batch size size"]) -> Float[Tensor, "batch size"]:
    """Eigenvector of the largest eigenvalue of each positive definite matrix."""
    for step in range(squarings(power.shape[-1])):
        if step % RESCALE == 0:
            power = power / power.diagonal(dim1=-2, dim2=-1).sum(-1)[:, None, None]
        power = power @ power
    power = power / power.diagonal(dim1=-2, dim2=-1).sum(-1)[:, None, None]
    diagonal = power.diagonal(dim1=-2, dim2=-1)
    start = diagonal.argmax(-1)  # the column that holds most of the edge: no random start, the same numbers twice
    vector = power.gather(-1, start[:, None, None].expand(-1, power.shape[-1], 1))
    for _ in range(STEPS - 1):
        vector = power @ (vector / torch.linalg.vector_norm(vector, dim=-2, keepdim=True))
    unit: Tensor = vector / torch.linalg.vector_norm(vector, dim=-2, keepdim=True)
    return unit.squeeze(-1)
