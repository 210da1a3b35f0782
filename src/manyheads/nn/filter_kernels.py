"""Triton kernels of a filter along the tokens, one for each head: the skip of Nyström attention. Sums over tokens are
left in parts for the caller to add in one order."""
# mypy: ignore-errors

from __future__ import annotations

import triton
import triton.language as tl


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
