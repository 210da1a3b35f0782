"""The iterated pseudo-inverse of Nyström attention, batched, in at least float32."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable


def autocast_off(device: str) -> AbstractContextManager[object]:
    """A context without autocast; the meta device has none to begin with."""
    return nullcontext() if device == "meta" else torch.autocast(device, enabled=False)


def pseudo_inverse(matrix: Float[Tensor, "*batch n n"], iterations: int) -> Float[Tensor, "*batch n n"]:
    """Z <- Z (13 - A (15 - A (7 - A))) / 4 with A = matrix Z, from matrix^T over its largest column sum.

    `matrix` is a softmax (rows sum to 1), for which that start converges. The sum is each matrix's own: the published
    code takes the largest of the whole batch, and a sample's output there depends on its neighbours. Small singular
    values s need about 2 log(1/s) / log(3.25) iterations. A is always formed anew from the matrix: iterating A itself
    would save half the products and diverges in float32 after some 15 iterations."""
    flat = matrix.reshape(-1, *matrix.shape[-2:])
    start = flat.mT / flat.sum(dim=1).amax(dim=-1)[:, None, None]
    return _Iterated.apply(flat, start, iterations).reshape(matrix.shape)


class _Iterated(torch.autograd.Function):
    """The iteration of `pseudo_inverse`, its backward pass by hand: half as many operations as recorded ones."""

    @staticmethod
    def forward(ctx: Any, matrix: Tensor, z: Tensor, iterations: int) -> Tensor:
        kept = [matrix]
        for _ in range(iterations):
            a = torch.bmm(matrix, z)
            b = torch.baddbmm(a, a, a, beta=7, alpha=-1)
            c = torch.baddbmm(a, a, b, beta=15, alpha=-1)
            kept += (z, a, b, c)
            z = torch.baddbmm(z, z, c, beta=13 / 4, alpha=-1 / 4)
        ctx.save_for_backward(*kept)
        return z

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dz: Tensor) -> tuple[Tensor, Tensor, None]:
        matrix, *kept = ctx.saved_tensors
        dmatrix = torch.zeros_like(matrix)
        with autocast_off(matrix.device.type):  # the one that calls backward may be under autocast
            for at in range(len(kept) - 4, -1, -4):
                z, a, b, c = kept[at : at + 4]
                dc = torch.baddbmm(z, z.mT, dz, beta=0, alpha=-1 / 4)
                db = torch.baddbmm(a, a.mT, dc, beta=0, alpha=-1)
                da = torch.baddbmm(dc, dc, b.mT, beta=15, alpha=-1).add_(db, alpha=7).baddbmm_(db, a.mT, alpha=-1)
                da.baddbmm_(a.mT, db, alpha=-1)
                dz = torch.baddbmm(dz, dz, c.mT, beta=13 / 4, alpha=-1 / 4).baddbmm_(matrix.mT, da)
                dmatrix.baddbmm_(da, z.mT)
        return dmatrix, dz, None
