"""Triton kernels of Nyström attention: landmarks ask all tokens, all tokens ask the landmarks, the inverse, the filter.

A map of tokens x landmarks lives in registers only, forward and backward. Inputs are read in the precision and the layout
they come in, and everything is computed in float32. A product (DOT) of float32 inputs is three TF32 ones, which keep its
digits; of half-precision inputs, which are exact in TF32, it is one: maps are then rounded to 11 bits, where half-precision
ones have 8. Sums over tokens are left in parts for the caller to add in one order. Names: g counts batch x heads, M and D
are `marks` (landmarks) and `dim` (head_dim) rounded up to what a tile takes.
"""
# mypy: ignore-errors

from __future__ import annotations

import triton
import triton.language as tl


# --------------------------------------------------------------------------------------- softmax(q~ k^T) v: few queries
@triton.jit
def _few_forward(
    q, k, v, seen, out, top, total, kb, kh, kn, vb, vh, vn, heads, tokens, marks, dim, scale, chunk,
    MASKED: tl.constexpr, M: tl.constexpr, D: tl.constexpr, BLOCK: tl.constexpr, DOT: tl.constexpr,
):  # fmt: skip
    """One part of the tokens: unnormalised sum of values, its largest score and its sum of weights."""
    g, part = tl.program_id(0), tl.program_id(1)
    batch, head = (g // heads).to(tl.int64), g % heads
    row, col = tl.arange(0, M), tl.arange(0, D)
    few = (row < marks)[:, None] & (col < dim)[None, :]
    asks = tl.load(q + (g * marks + row)[:, None] * dim + col[None, :], mask=few, other=0.0) * scale
    high = tl.full((M,), float("-inf"), tl.float32)
    weight = tl.zeros((M,), tl.float32)
    summed = tl.zeros((M, D), tl.float32)
    for start in range(part * chunk, tl.minimum(part * chunk + chunk, tokens), BLOCK):
        n = start + tl.arange(0, BLOCK)
        real = n < tokens
        both = real[:, None] & (col < dim)[None, :]
        keys = tl.load(k + batch * kb + head * kh + n[:, None] * kn + col[None, :], mask=both, other=0.0).to(tl.float32)
        values = tl.load(v + batch * vb + head * vh + n[:, None] * vn + col[None, :], mask=both, other=0.0)
        if MASKED:
            real = real & (tl.load(seen + batch * tokens + n, mask=real, other=0) != 0)
        x = tl.where(real[None, :], tl.dot(asks, tl.trans(keys), input_precision=DOT), float("-inf"))
        now = tl.maximum(high, tl.max(x, 1))
        safe = tl.where(now == float("-inf"), 0.0, now)  # nothing seen yet
        p = tl.exp(x - safe[:, None])
        shrink = tl.exp(high - safe)
        weight = weight * shrink + tl.sum(p, 1)
        summed = summed * shrink[:, None] + tl.dot(p, values.to(tl.float32), input_precision=DOT)
        high = now
    here = (g * tl.num_programs(1) + part) * marks + row
    tl.store(out + here[:, None] * dim + col[None, :], summed, mask=few)
    tl.store(top + here, high, mask=row < marks)
    tl.store(total + here, weight, mask=row < marks)


@triton.jit
def _few_combine(partial, top, total, out, lse, parts, marks, dim, M: tl.constexpr, D: tl.constexpr):
    """The parts of one g as one: values, and the logarithm of the sum of weights."""
    g, row, col = tl.program_id(0), tl.arange(0, M), tl.arange(0, D)
    few = (row < marks)[:, None] & (col < dim)[None, :]
    high = tl.full((M,), float("-inf"), tl.float32)
    for part in range(parts):
        high = tl.maximum(high, tl.load(top + (g * parts + part) * marks + row, mask=row < marks, other=0.0))
    weight, summed = tl.zeros((M,), tl.float32), tl.zeros((M, D), tl.float32)
    for part in range(parts):
        here = (g * parts + part) * marks + row
        share = tl.exp(tl.load(top + here, mask=row < marks, other=0.0) - high)
        weight += share * tl.load(total + here, mask=row < marks, other=1.0)
        summed += share[:, None] * tl.load(partial + here[:, None] * dim + col[None, :], mask=few, other=0.0)
    tl.store(out + (g * marks + row)[:, None] * dim + col[None, :], summed / weight[:, None], mask=few)
    tl.store(lse + g * marks + row, high + tl.log(weight), mask=row < marks)


@triton.jit
def _few_backward(
    q, k, v, seen, lse, dy, delta, dq, dk, dv, kb, kh, kn, vb, vh, vn, gb, gh, gn, heads, tokens, marks, dim, scale, chunk,
    MASKED: tl.constexpr, M: tl.constexpr, D: tl.constexpr, BLOCK: tl.constexpr, DOT: tl.constexpr,
):  # fmt: skip
    """Gradients of one part of the keys and values, and its share of the queries' gradient."""
    g, part = tl.program_id(0), tl.program_id(1)
    batch, head = (g // heads).to(tl.int64), g % heads
    row, col = tl.arange(0, M), tl.arange(0, D)
    few = (row < marks)[:, None] & (col < dim)[None, :]
    at = (g * marks + row)[:, None] * dim + col[None, :]
    asks = tl.load(q + at, mask=few, other=0.0) * scale
    dout = tl.load(dy + at, mask=few, other=0.0)
    norm = tl.load(lse + g * marks + row, mask=row < marks, other=float("inf"))
    drift = tl.load(delta + g * marks + row, mask=row < marks, other=0.0)
    dasks = tl.zeros((M, D), tl.float32)
    for start in range(part * chunk, tl.minimum(part * chunk + chunk, tokens), BLOCK):
        n = start + tl.arange(0, BLOCK)
        real = n < tokens
        both = real[:, None] & (col < dim)[None, :]
        keys = tl.load(k + batch * kb + head * kh + n[:, None] * kn + col[None, :], mask=both, other=0.0).to(tl.float32)
        values = tl.load(v + batch * vb + head * vh + n[:, None] * vn + col[None, :], mask=both, other=0.0)
        if MASKED:
            real = real & (tl.load(seen + batch * tokens + n, mask=real, other=0) != 0)
        x = tl.where(real[None, :], tl.dot(asks, tl.trans(keys), input_precision=DOT), float("-inf"))
        p = tl.exp(x - norm[:, None])
        dp = tl.dot(dout, tl.trans(values.to(tl.float32)), input_precision=DOT)
        dx = p * (dp - drift[:, None])
        to = batch * gb + head * gh + n[:, None] * gn + col[None, :]
        dvalues = tl.dot(tl.trans(p), dout, input_precision=DOT)
        dkeys = tl.dot(tl.trans(dx), asks, input_precision=DOT)
        tl.store(dv + to, dvalues.to(dv.dtype.element_ty), mask=both)
        tl.store(dk + to, dkeys.to(dk.dtype.element_ty), mask=both)
        dasks += tl.dot(dx, keys, input_precision=DOT)
    here = (g * tl.num_programs(1) + part) * marks + row
    tl.store(dq + here[:, None] * dim + col[None, :], dasks * scale, mask=few)


# ---------------------------------------------------------------------------------------- softmax(q k~^T) w: many queries
@triton.jit
def _many_forward(
    q, k, w, out, qb, qh, qn, ob, oh, on, heads, tokens, marks, dim, scale,
    M: tl.constexpr, D: tl.constexpr, BLOCK: tl.constexpr, DOT: tl.constexpr,
):  # fmt: skip
    """One block of tokens."""
    g, start = tl.program_id(0), tl.program_id(1) * BLOCK
    batch, head = (g // heads).to(tl.int64), g % heads
    row, col, n = tl.arange(0, M), tl.arange(0, D), start + tl.arange(0, BLOCK)
    few = (row < marks)[:, None] & (col < dim)[None, :]
    both = (n < tokens)[:, None] & (col < dim)[None, :]
    at = (g * marks + row)[:, None] * dim + col[None, :]
    keys, values = tl.load(k + at, mask=few, other=0.0), tl.load(w + at, mask=few, other=0.0)
    asks = tl.load(q + batch * qb + head * qh + n[:, None] * qn + col[None, :], mask=both, other=0.0)
    asks = asks.to(tl.float32) * scale
    x = tl.where((row < marks)[None, :], tl.dot(asks, tl.trans(keys), input_precision=DOT), float("-inf"))
    p = tl.exp(x - tl.max(x, 1)[:, None])
    p = p / tl.sum(p, 1)[:, None]
    y = tl.dot(p, values, input_precision=DOT)
    to = batch * ob + head * oh + n[:, None] * on + col[None, :]
    tl.store(out + to, y.to(out.dtype.element_ty), mask=both)


@triton.jit
def _many_backward(
    q, k, w, dy, dq, dk, dw, qb, qh, qn, yb, yh, yn, gb, gh, gn, heads, tokens, marks, dim, scale, chunk,
    M: tl.constexpr, D: tl.constexpr, BLOCK: tl.constexpr, DOT: tl.constexpr,
):  # fmt: skip
    """Gradients of one part of the queries, and its share of the landmarks' gradients."""
    g, part = tl.program_id(0), tl.program_id(1)
    batch, head = (g // heads).to(tl.int64), g % heads
    row, col = tl.arange(0, M), tl.arange(0, D)
    few = (row < marks)[:, None] & (col < dim)[None, :]
    at = (g * marks + row)[:, None] * dim + col[None, :]
    keys, values = tl.load(k + at, mask=few, other=0.0), tl.load(w + at, mask=few, other=0.0)
    dkeys, dvalues = tl.zeros((M, D), tl.float32), tl.zeros((M, D), tl.float32)
    for start in range(part * chunk, tl.minimum(part * chunk + chunk, tokens), BLOCK):
        n = start + tl.arange(0, BLOCK)
        both = (n < tokens)[:, None] & (col < dim)[None, :]
        asks = tl.load(q + batch * qb + head * qh + n[:, None] * qn + col[None, :], mask=both, other=0.0)
        asks = asks.to(tl.float32) * scale
        dout = tl.load(dy + batch * yb + head * yh + n[:, None] * yn + col[None, :], mask=both, other=0.0).to(tl.float32)
        x = tl.where((row < marks)[None, :], tl.dot(asks, tl.trans(keys), input_precision=DOT), float("-inf"))
        p = tl.exp(x - tl.max(x, 1)[:, None])
        p = p / tl.sum(p, 1)[:, None]
        dp = tl.dot(dout, tl.trans(values), input_precision=DOT)
        dx = p * (dp - tl.sum(dp * p, 1)[:, None])
        dasks = tl.dot(dx, keys, input_precision=DOT) * scale
        to = batch * gb + head * gh + n[:, None] * gn + col[None, :]
        tl.store(dq + to, dasks.to(dq.dtype.element_ty), mask=both)
        dvalues += tl.dot(tl.trans(p), dout, input_precision=DOT)
        dkeys += tl.dot(tl.trans(dx), asks, input_precision=DOT)
    to = ((g * tl.num_programs(1) + part) * marks + row)[:, None] * dim + col[None, :]
    tl.store(dk + to, dkeys, mask=few)
    tl.store(dw + to, dvalues, mask=few)


# ------------------------------------------------------------------------------------------------------------ the inverse
@triton.jit
def _inverse_forward(matrix, start, kept, out, marks, iterations, M: tl.constexpr):
    """All iterations on one matrix; what each began with is kept."""
    g, i = tl.program_id(0), tl.arange(0, M)
    at = g.to(tl.int64) * marks * marks + i[:, None] * marks + i[None, :]
    few = (i < marks)[:, None] & (i < marks)[None, :]
    f, z = tl.load(matrix + at, mask=few, other=0.0), tl.load(start + at, mask=few, other=0.0)
    step = tl.num_programs(0).to(tl.int64) * marks * marks
    for it in range(iterations):
        tl.store(kept + it * step + at, z, mask=few)
        a = tl.dot(f, z, input_precision="tf32x3")
        b = 7.0 * a - tl.dot(a, a, input_precision="tf32x3")
        c = 15.0 * a - tl.dot(a, b, input_precision="tf32x3")
        z = 3.25 * z - 0.25 * tl.dot(z, c, input_precision="tf32x3")
    tl.store(out + at, z, mask=few)


@triton.jit
def _inverse_backward(matrix, kept, dout, dmatrix, dstart, marks, iterations, M: tl.constexpr, DOT: tl.constexpr):
    """Iterations in reverse, each recomputed from what it began with."""
    g, i = tl.program_id(0), tl.arange(0, M)
    at = g.to(tl.int64) * marks * marks + i[:, None] * marks + i[None, :]
    few = (i < marks)[:, None] & (i < marks)[None, :]
    f, dz = tl.load(matrix + at, mask=few, other=0.0), tl.load(dout + at, mask=few, other=0.0)
    step = tl.num_programs(0).to(tl.int64) * marks * marks
    df = tl.zeros((M, M), tl.float32)
    for back in range(iterations):
        z = tl.load(kept + (iterations - 1 - back) * step + at, mask=few, other=0.0)
        a = tl.dot(f, z, input_precision=DOT)
        b = 7.0 * a - tl.dot(a, a, input_precision=DOT)
        c = 15.0 * a - tl.dot(a, b, input_precision=DOT)
        dc = -0.25 * tl.dot(tl.trans(z), dz, input_precision=DOT)
        dz = 3.25 * dz - 0.25 * tl.dot(dz, tl.trans(c), input_precision=DOT)
        db = -tl.dot(tl.trans(a), dc, input_precision=DOT)
        da = 15.0 * dc - tl.dot(dc, tl.trans(b), input_precision=DOT) + 7.0 * db
        da -= tl.dot(db, tl.trans(a), input_precision=DOT) + tl.dot(tl.trans(a), db, input_precision=DOT)
        dz += tl.dot(tl.trans(f), da, input_precision=DOT)
        df += tl.dot(da, tl.trans(z), input_precision=DOT)
    tl.store(dmatrix + at, df, mask=few)
    tl.store(dstart + at, dz, mask=few)


# -------------------------------------------------------------------------------------------------------------- the filter
@triton.jit
def _conv_along(
    x, w, seen, y, xb, xn, tokens, inner, dim, taps,
    FLIP: tl.constexpr, IN: tl.constexpr, OUT: tl.constexpr, BLOCK: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
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
    x, dy, seen, dw, xb, xn, yb, yn, tokens, inner, taps, chunk,
    IN: tl.constexpr, BLOCK: tl.constexpr, C: tl.constexpr, T: tl.constexpr,
):  # fmt: skip
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
