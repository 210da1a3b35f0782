"""Triton kernels of attention over few tokens: one program has a whole head of one sample in registers.

Fused attention works in tiles of 64 or 128 queries; of 16 tokens a sample they are mostly empty. Names: g counts
batch x heads, N and D are `tokens` and `dim` (head_dim) rounded up to what a tile takes.
"""
# mypy: ignore-errors

from __future__ import annotations

import triton
import triton.language as tl


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
