"""Extreme singular values of an attention's Jacobian, from products with it and with its transpose alone."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from manyheads.nn.launch import without_kernels

STEPS, TOLERANCE = 100, 1e-3


@dataclass(frozen=True)
class Jacobian:
    """Extreme singular values of the derivative of an attention's output by its tokens, on one sample.

    `converged` says whether both are within a relative `TOLERANCE` of singular values. Where it is false, `sigma_min`
    is an upper bound, which further steps lower, and `kappa` a lower bound. All three are NaN where the derivative is."""

    sigma_max: float
    sigma_min: float
    kappa: float
    steps: int
    converged: bool


def extremes(f: Callable[[Tensor], Tensor], x: Tensor, *, steps: int = STEPS, tolerance: float = TOLERANCE) -> Jacobian:
    """Extreme singular values of the derivative of `f` at `x`, by Golub-Kahan bidiagonalisation with full
    reorthogonalisation.

    J V_k = U_k B_k with B_k upper bidiagonal: the singular values of B_k lie between the extremes of J's and approach
    these first. The SVD B_k = P S Q^T bounds the error of s_i by |beta_k P_ki|. The first vector is drawn from a
    generator of its own, so the global random state is unaffected."""
    flat = x.detach().flatten()
    with sdpa_kernel(SDPBackend.MATH), without_kernels():  # fused attention has no forward derivative
        y, transposed = torch.func.vjp(lambda t: f(t.view_as(x)).flatten(), flat)[:2]

        def push(t: Tensor) -> Tensor:
            out: Tensor = torch.func.jvp(lambda s: f(s.view_as(x)).flatten(), (flat,), (t,))[1]
            return out

        def pull(t: Tensor) -> Tensor:
            out: Tensor = transposed(t)[0]
            return out

        most = min(flat.numel(), y.numel())
        if (
            y.numel() < flat.numel()
        ):  # start on the smaller side: the larger side's null space would give a singular value of 0
            push, pull = pull, push
        generator = torch.Generator().manual_seed(0)
        start = torch.randn(most, generator=generator, dtype=torch.float64).to(flat)
        right, left = [start / start.norm()], [torch.zeros((), dtype=flat.dtype, device=flat.device)]
        alphas: list[float] = []
        betas: list[float] = [0.0]
        extreme = Jacobian(0.0, 0.0, float("inf"), 0, True)
        for step in range(1, min(steps, most) + 1):
            u = _apart(push(right[-1]) - betas[-1] * left[-1], left[1:])
            alphas.append(u.norm().item())
            if alphas[-1] > 0:
                u = u / alphas[-1]
            left.append(u)
            v = _apart(pull(u) - alphas[-1] * right[-1], right)
            betas.append(v.norm().item())
            extreme = _read(alphas, betas, step, tolerance, last=step == most)
            if extreme.converged or alphas[-1] == 0 or betas[-1] == 0 or math.isnan(extreme.sigma_max):
                break
            right.append(v / betas[-1])
    return extreme


def _apart(vector: Tensor, basis: list[Tensor]) -> Tensor:
    """`vector` without its parts along `basis`, which are removed twice: rounding leaves some of them the first
    time."""
    if not basis:
        return vector
    rows = torch.stack(basis)
    for _ in range(2):
        vector = vector - rows.mT @ (rows @ vector)
    return vector


def _read(alphas: list[float], betas: list[float], step: int, tolerance: float, *, last: bool) -> Jacobian:
    if not math.isfinite(alphas[-1] + betas[-1]):
        return Jacobian(math.nan, math.nan, math.nan, step, False)
    bidiagonal = torch.diag(torch.tensor(alphas, dtype=torch.float64))
    if step > 1:
        bidiagonal += torch.diag(torch.tensor(betas[1:-1], dtype=torch.float64), 1)
    p, s, _ = torch.linalg.svd(bidiagonal)
    error = betas[-1] * p[-1].abs()
    done = last or bool(error[0] <= tolerance * s[0] and error[-1] <= tolerance * s[-1])
    high, low = s[0].item(), s[-1].item()
    return Jacobian(high, low, high / low if low > 0 else float("inf"), step, done)
