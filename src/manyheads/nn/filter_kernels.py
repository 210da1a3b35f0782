"""A filter along the tokens for each head, the skip of Nyström attention: its Triton kernels, and the differentiable
function that launches them. Kernels leave sums over tokens in parts, which are added in one order; torch.compile sees
each launch as one operator."""
# mypy: ignore-errors

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

from .launch import ceil, operator, parts, rows, tile


@triton.jit
def _conv_along(
    x,
    w,
    seen,
    y,
    xb,
    xn,
    tokens,
    inner,
    dim,
    taps,
    FLIP: tl.constexpr,
    IN: tl.constexpr,
    OUT: tl.constexpr,
    BLOCK: tl.constexpr,
    C: tl.constexpr,
):
    """One filter per head along the tokens, reversed with FLIP; padding is 0 going IN or coming OUT."""
    batch, n = tl.program_id(0).to(tl.int64), tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    c = tl.program_id(2) * C + tl.arange(0, C)
    total = tl.zeros((BLOCK, C), tl.float32)
    for t in range(taps):
        m = n + (taps // 2 - t if FLIP else t - taps // 2)
        real = (m >= 0) & (m < tokens)
        if IN:
            real = real & (tl.load(seen + batch * tokens + m, mask=real, other=0) != 0)
        both = real[:, None] & (c < inner)[None, :]
        part = tl.load(x + batch * xb + m[:, None] * xn + c[None, :], mask=both, other=0.0).to(tl.float32)
        total += part * tl.load(w + (c // dim) * taps + t, mask=c < inner, other=0.0).to(tl.float32)[None, :]
    both = (n < tokens)[:, None] & (c < inner)[None, :]
    if OUT:
        kept = tl.load(seen + batch * tokens + n, mask=n < tokens, other=0) != 0
        total = tl.where(kept[:, None], total, 0.0)
    tl.store(y + (batch * tokens + n)[:, None] * inner + c[None, :], total.to(y.dtype.element_ty), mask=both)


@triton.jit
def _conv_weight(
    x,
    dy,
    seen,
    dw,
    xb,
    xn,
    yb,
    yn,
    tokens,
    inner,
    taps,
    chunk,
    IN: tl.constexpr,
    BLOCK: tl.constexpr,
    C: tl.constexpr,
    T: tl.constexpr,
):
    """One part's share of the filters' gradient, channel by channel."""
    batch, part, c = tl.program_id(0).to(tl.int64), tl.program_id(1), tl.program_id(2) * C + tl.arange(0, C)
    tap = tl.arange(0, T)
    total = tl.zeros((T, C), tl.float32)
    for start in range(part * chunk, tl.minimum(part * chunk + chunk, tokens), BLOCK):
        n = start + tl.arange(0, BLOCK)
        both = (n < tokens)[:, None] & (c < inner)[None, :]
        back = tl.load(dy + batch * yb + n[:, None] * yn + c[None, :], mask=both, other=0.0).to(tl.float32)
        for t in range(taps):
            m = n + t - taps // 2
            real = (m >= 0) & (m < tokens)
            if IN:
                real = real & (tl.load(seen + batch * tokens + m, mask=real, other=0) != 0)
            both = real[:, None] & (c < inner)[None, :]
            there = tl.load(x + batch * xb + m[:, None] * xn + c[None, :], mask=both, other=0.0).to(tl.float32)
            total = tl.where((tap == t)[:, None], total + tl.sum(back * there, 0)[None, :], total)
    at = ((batch * tl.num_programs(1) + part) * taps + tap)[:, None] * inner + c[None, :]
    tl.store(dw + at, total, mask=(tap < taps)[:, None] & (c < inner)[None, :])


def conv(x: Tensor, w: Tensor, seen: Tensor | None) -> Tensor:
    """Along the tokens of x (batch x tokens x inner, 0 where not `seen`), one filter of w (heads x taps) per head."""
    return _Conv.apply(rows(x), w.contiguous(), None if seen is None else seen.contiguous())


class _Conv(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, w: Tensor, seen: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, w, seen)
        return _conv(x, w, seen, False)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, ...]:
        (x, w, seen), dy = ctx.saved_tensors, rows(dy)
        dw = _conv_gradient(x, dy, seen, w.shape[1]).sum(dim=(0, 1)).unflatten(1, (len(w), -1)).sum(dim=2).T
        return _conv(dy, w, seen, True), dw.to(w.dtype), None


@operator("conv(Tensor x, Tensor w, Tensor? seen, bool flip) -> Tensor", lambda x, w, seen, flip: x.new_empty(x.shape))
def _conv(x: Tensor, w: Tensor, seen: Tensor | None, flip: bool) -> Tensor:
    (batch, tokens, inner), (heads, taps), y = x.shape, w.shape, x.new_empty(x.shape)
    _conv_along[(batch, ceil(tokens, 64), ceil(inner, 32))](
        x,
        w,
        x if seen is None else seen,
        y,
        *x.stride()[:2],
        tokens,
        inner,
        inner // heads,
        taps,
        FLIP=flip,
        IN=seen is not None and not flip,
        OUT=seen is not None and flip,
        BLOCK=64,
        C=32,
    )
    return y


@operator(
    "conv_weight(Tensor x, Tensor dy, Tensor? seen, int taps) -> Tensor", lambda x, dy, seen, taps: _filters(x, taps)
)
def _conv_gradient(x: Tensor, dy: Tensor, seen: Tensor | None, taps: int) -> Tensor:
    (batch, tokens, inner), dw = x.shape, _filters(x, taps)
    pieces, chunk = parts(tokens, batch, 64)
    _conv_weight[(batch, pieces, ceil(inner, 32))](
        x,
        dy,
        x if seen is None else seen,
        dw,
        *x.stride()[:2],
        *dy.stride()[:2],
        tokens,
        inner,
        taps,
        chunk,
        IN=seen is not None,
        BLOCK=64,
        C=32,
        T=tile(taps),
    )
    return dw


def _filters(x: Tensor, taps: int) -> Tensor:
    return x.new_empty(x.shape[0], parts(x.shape[1], x.shape[0], 64)[0], taps, x.shape[2], dtype=torch.float32)
