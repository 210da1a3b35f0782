"""Attention over few tokens: its Triton kernels, and the differentiable function that launches them.

One program has a whole head of one sample in registers, and torch.compile sees each launch as one operator. Fused
attention works in tiles of 64 or 128 queries; of 16 tokens a sample they are mostly empty. Names: g counts
batch x heads, N and D are `tokens` and `dim` (head_dim) rounded up to what a tile takes.
"""
# mypy: ignore-errors

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

from .launch import like, operator, rows, tile


@triton.jit
def _head(x, batch, head, xb, xh, xn, n, d, real):
    """The tokens of one head of one sample."""
    return tl.load(x + batch * xb + head * xh + n * xn + d, mask=real, other=0.0)


@triton.jit
def _weights(asks, keys, tokens, scale, N: tl.constexpr, DOT: tl.constexpr):
    """softmax(q k^T scale) in float32; columns beyond the tokens are 0."""
    x = tl.dot(asks, tl.trans(keys), input_precision=DOT) * scale
    x = tl.where((tl.arange(0, N) < tokens)[None, :], x, float("-inf"))
    p = tl.exp(x - tl.max(x, 1)[:, None])
    return p / tl.sum(p, 1)[:, None]


@triton.jit
def _short_forward(
    q,
    k,
    v,
    out,
    qb,
    qh,
    qn,
    kb,
    kh,
    kn,
    vb,
    vh,
    vn,
    ob,
    oh,
    on,
    heads,
    tokens,
    dim,
    scale,
    N: tl.constexpr,
    D: tl.constexpr,
    DOT: tl.constexpr,
):
    """softmax(q k^T scale) v."""
    g = tl.program_id(0)
    batch, head = (g // heads).to(tl.int64), g % heads
    n, d = tl.arange(0, N)[:, None], tl.arange(0, D)[None, :]
    real = (n < tokens) & (d < dim)
    asks = _head(q, batch, head, qb, qh, qn, n, d, real)
    keys = _head(k, batch, head, kb, kh, kn, n, d, real)
    values = _head(v, batch, head, vb, vh, vn, n, d, real)
    p = _weights(asks, keys, tokens, scale, N, DOT)
    y = tl.dot(p.to(values.dtype), values, input_precision=DOT)
    tl.store(out + batch * ob + head * oh + n * on + d, y.to(out.dtype.element_ty), mask=real)


@triton.jit
def _short_backward(
    q,
    k,
    v,
    dy,
    dq,
    dk,
    dv,
    qb,
    qh,
    qn,
    kb,
    kh,
    kn,
    vb,
    vh,
    vn,
    yb,
    yh,
    yn,
    gb,
    gh,
    gn,
    heads,
    tokens,
    dim,
    scale,
    N: tl.constexpr,
    D: tl.constexpr,
    DOT: tl.constexpr,
):
    """Gradients of all three; the weights are computed once more."""
    g = tl.program_id(0)
    batch, head = (g // heads).to(tl.int64), g % heads
    n, d = tl.arange(0, N)[:, None], tl.arange(0, D)[None, :]
    real = (n < tokens) & (d < dim)
    asks = _head(q, batch, head, qb, qh, qn, n, d, real)
    keys = _head(k, batch, head, kb, kh, kn, n, d, real)
    values = _head(v, batch, head, vb, vh, vn, n, d, real)
    dout = _head(dy, batch, head, yb, yh, yn, n, d, real)
    p = _weights(asks, keys, tokens, scale, N, DOT)
    dp = tl.dot(dout, tl.trans(values), input_precision=DOT)
    dx = p * (dp - tl.sum(dp * p, 1)[:, None]) * scale
    to = batch * gb + head * gh + n * gn + d
    dvalues = tl.dot(tl.trans(p.to(dout.dtype)), dout, input_precision=DOT)
    dasks = tl.dot(dx.to(keys.dtype), keys, input_precision=DOT)
    dkeys = tl.dot(tl.trans(dx.to(asks.dtype)), asks, input_precision=DOT)
    tl.store(dv + to, dvalues.to(dv.dtype.element_ty), mask=real)
    tl.store(dq + to, dasks.to(dq.dtype.element_ty), mask=real)
    tl.store(dk + to, dkeys.to(dk.dtype.element_ty), mask=real)


def short(q: Tensor, k: Tensor, v: Tensor, scale: float | None = None) -> Tensor:
    """softmax(q k^T scale) v, all of batch x heads x tokens x head_dim; scale defaults to 1/sqrt(head_dim)."""
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    return _Short.apply(rows(q), rows(k), rows(v), scale).transpose(1, 2)


class _Short(torch.autograd.Function):
    """The value is laid out token by token, as that of `nystrom_ops.many`, which says why."""

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
    _short_forward[(batch * heads,)](
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
    _short_backward[(batch * heads,)](
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
