"""Triton kernels of Nyström attention: landmarks, what they ask of all tokens, what all tokens ask of them, the
inverse.

A map of tokens x landmarks lives in registers only, forward and backward. Inputs are read in the precision and the
layout they come in, and everything is computed in float32. A product (DOT) of float32 inputs is three TF32 ones, which
keep its digits; of half-precision inputs, which are exact in TF32, it is one: maps are then rounded to 11 bits, where
half-precision ones have 8. Those of the inverse are always three. Sums over tokens are left in parts for the caller to
add in one order. Names: g counts batch x heads, M and D are `marks` (landmarks) and `dim` (head_dim) rounded up to what
a tile takes."""
# mypy: ignore-errors

from __future__ import annotations

import triton
import triton.language as tl


# -------------------------------------------------------------------------------------------------------- the landmarks
@triton.jit
def _means(
    q,
    k,
    q_marks,
    k_marks,
    qb,
    qh,
    qn,
    kb,
    kh,
    kn,
    heads,
    marks,
    dim,
    size,
    longer,
    D: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """The means of one segment of the queries and of the keys; the first `longer` segments hold size + 1 tokens."""
    g, mark, col = tl.program_id(0), tl.program_id(1), tl.arange(0, D)
    batch, head = (g // heads).to(tl.int64), g % heads
    first = mark * size + tl.minimum(mark, longer)
    count = size + tl.where(mark < longer, 1, 0)
    asks, keys = tl.zeros((D,), tl.float32), tl.zeros((D,), tl.float32)
    for start in range(0, count, BLOCK):
        n = start + tl.arange(0, BLOCK)
        both = (n < count)[:, None] & (col < dim)[None, :]
        n += first
        part = tl.load(q + batch * qb + head * qh + n[:, None] * qn + col[None, :], mask=both, other=0.0)
        asks += tl.sum(part.to(tl.float32), 0)
        part = tl.load(k + batch * kb + head * kh + n[:, None] * kn + col[None, :], mask=both, other=0.0)
        keys += tl.sum(part.to(tl.float32), 0)
    to = (g * marks + mark) * dim + col
    tl.store(q_marks + to, asks / count, mask=col < dim)
    tl.store(k_marks + to, keys / count, mask=col < dim)


# --------------------------------------------------------------------------------------- softmax(q~ k^T) v: few queries
@triton.jit
def _few_forward(
    q,
    k,
    v,
    seen,
    out,
    top,
    total,
    kb,
    kh,
    kn,
    vb,
    vh,
    vn,
    heads,
    tokens,
    marks,
    dim,
    scale,
    chunk,
    MASKED: tl.constexpr,
    M: tl.constexpr,
    D: tl.constexpr,
    BLOCK: tl.constexpr,
    DOT: tl.constexpr,
):
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
    q,
    k,
    v,
    seen,
    y,
    lse,
    dy,
    dq,
    dk,
    dv,
    kb,
    kh,
    kn,
    vb,
    vh,
    vn,
    gb,
    gh,
    gn,
    heads,
    tokens,
    marks,
    dim,
    scale,
    chunk,
    MASKED: tl.constexpr,
    M: tl.constexpr,
    D: tl.constexpr,
    BLOCK: tl.constexpr,
    DOT: tl.constexpr,
):
    """Gradients of one part of the keys and values, and its share of the queries' gradient."""
    g, part = tl.program_id(0), tl.program_id(1)
    batch, head = (g // heads).to(tl.int64), g % heads
    row, col = tl.arange(0, M), tl.arange(0, D)
    few = (row < marks)[:, None] & (col < dim)[None, :]
    at = (g * marks + row)[:, None] * dim + col[None, :]
    asks = tl.load(q + at, mask=few, other=0.0) * scale
    dout = tl.load(dy + at, mask=few, other=0.0)
    norm = tl.load(lse + g * marks + row, mask=row < marks, other=float("inf"))
    drift = tl.sum(dout * tl.load(y + at, mask=few, other=0.0), 1)
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


# -------------------------------------------------------------------------------------- softmax(q k~^T) w: many queries
@triton.jit
def _many_forward(
    q,
    k,
    w,
    out,
    qb,
    qh,
    qn,
    ob,
    oh,
    on,
    heads,
    tokens,
    marks,
    dim,
    scale,
    M: tl.constexpr,
    D: tl.constexpr,
    BLOCK: tl.constexpr,
    DOT: tl.constexpr,
):
    """One block of tokens."""
    g, start = tl.program_id(0), tl.program_id(1) * BLOCK
    batch, head = (g // heads).to(tl.int64), g % heads
    row, col, n = tl.arange(0, M), tl.arange(0, D), start + tl.arange(0, BLOCK)
    few = (row < marks)[:, None] & (col < dim)[None, :]
    both = (n < tokens)[:, None] & (col < dim)[None, :]
    at = (g * marks + row)[:, None] * dim + col[None, :]
    keys, values = tl.load(k + at, mask=few, other=0.0) * scale, tl.load(w + at, mask=few, other=0.0)
    asks = tl.load(q + batch * qb + head * qh + n[:, None] * qn + col[None, :], mask=both, other=0.0).to(tl.float32)
    x = tl.where((row < marks)[None, :], tl.dot(asks, tl.trans(keys), input_precision=DOT), float("-inf"))
    p = tl.exp(x - tl.max(x, 1)[:, None])
    y = tl.dot(p, values, input_precision=DOT) / tl.sum(p, 1)[:, None]
    to = batch * ob + head * oh + n[:, None] * on + col[None, :]
    tl.store(out + to, y.to(out.dtype.element_ty), mask=both)


@triton.jit
def _many_backward(
    q,
    k,
    w,
    dy,
    dq,
    dk,
    dw,
    qb,
    qh,
    qn,
    yb,
    yh,
    yn,
    gb,
    gh,
    gn,
    heads,
    tokens,
    marks,
    dim,
    scale,
    chunk,
    M: tl.constexpr,
    D: tl.constexpr,
    BLOCK: tl.constexpr,
    DOT: tl.constexpr,
):
    """Gradients of one part of the queries, and its share of the landmarks' gradients."""
    g, part = tl.program_id(0), tl.program_id(1)
    batch, head = (g // heads).to(tl.int64), g % heads
    row, col = tl.arange(0, M), tl.arange(0, D)
    few = (row < marks)[:, None] & (col < dim)[None, :]
    at = (g * marks + row)[:, None] * dim + col[None, :]
    keys, values = tl.load(k + at, mask=few, other=0.0) * scale, tl.load(w + at, mask=few, other=0.0)
    dkeys, dvalues = tl.zeros((M, D), tl.float32), tl.zeros((M, D), tl.float32)
    for start in range(part * chunk, tl.minimum(part * chunk + chunk, tokens), BLOCK):
        n = start + tl.arange(0, BLOCK)
        both = (n < tokens)[:, None] & (col < dim)[None, :]
        asks = tl.load(q + batch * qb + head * qh + n[:, None] * qn + col[None, :], mask=both, other=0.0).to(tl.float32)
        dout = tl.load(dy + batch * yb + head * yh + n[:, None] * yn + col[None, :], mask=both, other=0.0).to(
            tl.float32
        )
        x = tl.where((row < marks)[None, :], tl.dot(asks, tl.trans(keys), input_precision=DOT), float("-inf"))
        p = tl.exp(x - tl.max(x, 1)[:, None])
        p = p / tl.sum(p, 1)[:, None]
        dp = tl.dot(dout, tl.trans(values), input_precision=DOT)
        dx = p * (dp - tl.sum(dp * p, 1)[:, None])
        dasks = tl.dot(dx, keys, input_precision=DOT)
        to = batch * gb + head * gh + n[:, None] * gn + col[None, :]
        tl.store(dq + to, dasks.to(dq.dtype.element_ty), mask=both)
        dvalues += tl.dot(tl.trans(p), dout, input_precision=DOT)
        dkeys += tl.dot(tl.trans(dx), asks, input_precision=DOT)
    to = ((g * tl.num_programs(1) + part) * marks + row)[:, None] * dim + col[None, :]
    tl.store(dk + to, dkeys * scale, mask=few)
    tl.store(dw + to, dvalues, mask=few)


# ------------------------------------------------------------------------------------- the inverse of softmax(q~ k~^T)
@triton.jit
def _landmark_map(q, k, marks, dim, scale, M: tl.constexpr, D: tl.constexpr):
    """q and k of one g, q scaled, their map, its columns' sums and the largest of these."""
    row, col = tl.arange(0, M), tl.arange(0, D)
    at = (tl.program_id(0) * marks + row)[:, None] * dim + col[None, :]
    few = (row < marks)[:, None] & (col < dim)[None, :]
    asks, keys = tl.load(q + at, mask=few, other=0.0) * scale, tl.load(k + at, mask=few, other=0.0)
    x = tl.where((row < marks)[None, :], tl.dot(asks, tl.trans(keys), input_precision="tf32x3"), float("-inf"))
    p = tl.exp(x - tl.max(x, 1)[:, None])
    f = tl.where((row < marks)[:, None], p / tl.sum(p, 1)[:, None], 0.0)
    sums = tl.sum(f, 0)
    return asks, keys, f, sums, tl.max(sums, 0)


@triton.jit
def _inverse_forward(q, k, kept, out, marks, dim, scale, iterations, M: tl.constexpr, D: tl.constexpr):
    """All iterations on one matrix; what each began with is kept."""
    g, i = tl.program_id(0), tl.arange(0, M)
    at = g.to(tl.int64) * marks * marks + i[:, None] * marks + i[None, :]
    few = (i < marks)[:, None] & (i < marks)[None, :]
    _, _, f, _, most = _landmark_map(q, k, marks, dim, scale, M, D)
    z = tl.trans(f) / most
    step = tl.num_programs(0).to(tl.int64) * marks * marks
    for it in range(iterations):
        tl.store(kept + it * step + at, z, mask=few)
        a = tl.dot(f, z, input_precision="tf32x3")
        b = 7.0 * a - tl.dot(a, a, input_precision="tf32x3")
        c = 15.0 * a - tl.dot(a, b, input_precision="tf32x3")
        z = 3.25 * z - 0.25 * tl.dot(z, c, input_precision="tf32x3")
    tl.store(out + at, z, mask=few)


@triton.jit
def _inverse_backward(
    q, k, kept, dout, dq, dk, marks, dim, scale, iterations, M: tl.constexpr, D: tl.constexpr, DOT: tl.constexpr
):
    """Iterations in reverse, each recomputed from what it began with; then the start, the softmax and the product."""
    g, i, col = tl.program_id(0), tl.arange(0, M), tl.arange(0, D)
    at = g.to(tl.int64) * marks * marks + i[:, None] * marks + i[None, :]
    few = (i < marks)[:, None] & (i < marks)[None, :]
    asks, keys, f, sums, most = _landmark_map(q, k, marks, dim, scale, M, D)
    dz = tl.load(dout + at, mask=few, other=0.0)
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
    dstart = tl.trans(dz)  # the start was f^T / most, and most the largest of its columns' sums
    largest = tl.where(sums == most, 1.0, 0.0)
    dmost = -tl.sum(tl.sum(dstart * f, 1), 0) / (most * most)
    df += dstart / most + (dmost * largest / tl.sum(largest, 0))[None, :]
    dx = f * (df - tl.sum(df * f, 1)[:, None])
    at = (g * marks + i)[:, None] * dim + col[None, :]
    few = (i < marks)[:, None] & (col < dim)[None, :]
    tl.store(dq + at, tl.dot(dx, keys, input_precision=DOT) * scale, mask=few)
    tl.store(dk + at, tl.dot(tl.trans(dx), asks, input_precision=DOT), mask=few)
