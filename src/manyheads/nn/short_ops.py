"""Attention over few tokens as a differentiable function; torch.compile sees each launch as one opaque operator."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from . import short_kernels as kernels
from .launch import like, operator, rows, tile


def short(q: Tensor, k: Tensor, v: Tensor, scale: float | None = None) -> Tensor:
    """softmax(q k^T scale) v, all of batch x heads x tokens x head_dim; scale defaults to 1/sqrt(head_dim)."""
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    found: Tensor = _Short.apply(rows(q), rows(k), rows(v), scale)
    return found.transpose(1, 2)


class _Short(torch.autograd.Function):
    """Its value lies token by token, as that of `nystrom_ops.many` and for its reason."""

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, scale: float) -> Tensor:
        ctx.save_for_backward(q, k, v)
        ctx.scale = scale
        return _short(q, k, v, scale)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, ...]:
        return *_short_back(*ctx.saved_tensors, rows(dy), ctx.scale), None


@operator("short(Tensor q, Tensor k, Tensor v, float scale) -> Tensor", lambda q, k, v, scale: like(q).transpose(1, 2))
def _short(q: Tensor, k: Tensor, v: Tensor, scale: float) -> Tensor:
    (batch, heads, tokens, dim), y = q.shape, like(q)
    kernels._short_forward[(batch * heads,)](
        q,
        k,
        v,
        y,
        *q.stride()[:3],
        *k.stride()[:3],
        *v.stride()[:3],
        *y.stride()[:3],
        heads,
        tokens,
        dim,
        scale,
        **_launch(q),
    )
    return y.transpose(1, 2)


@operator(
    "short_back(Tensor q, Tensor k, Tensor v, Tensor dy, float scale) -> (Tensor, Tensor, Tensor)",
    lambda q, k, v, dy, scale: (like(q), like(q), like(q)),
)
def _short_back(q: Tensor, k: Tensor, v: Tensor, dy: Tensor, scale: float) -> tuple[Tensor, Tensor, Tensor]:
    (batch, heads, tokens, dim), dy, dq, dk, dv = q.shape, dy.transpose(1, 2), like(q), like(q), like(q)
    kernels._short_backward[(batch * heads,)](
        q,
        k,
        v,
        dy,
        dq,
        dk,
        dv,
        *q.stride()[:3],
        *k.stride()[:3],
        *v.stride()[:3],
        *dy.stride()[:3],
        *dq.stride()[:3],
        heads,
        tokens,
        dim,
        scale,
        **_launch(q),
    )
    return dq, dk, dv


def _launch(q: Tensor) -> dict[str, Any]:
    """Tiles, warps, and how products of float32 are made: of single TF32 ones where PyTorch's own may be, else of
    three."""
    tokens, dim = tile(q.shape[2]), tile(q.shape[3])
    exact = torch.backends.cuda.matmul.fp32_precision != "tf32"  # type: ignore[attr-defined]
    warps = 1 if tokens * dim <= 256 else 2 if tokens * dim <= 1024 else 4
    return {"N": tokens, "D": dim, "DOT": "tf32x3" if exact else "tf32", "num_warps": warps}
