"""Nyström attention's kernels as differentiable functions.

The same inputs give the same bits: every sum over tokens is taken in parts, and the parts are added in one order.
torch.compile sees each launch as one opaque operator: inlined into its graphs these kernels run at a third of their speed.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from . import nystrom_kernels as kernels
from .inverse import tile
from .launch import like, operator, rows

PROGRAMS = 528  # four for each multiprocessor of an H100 or H200


def few(q: Tensor, k: Tensor, v: Tensor, seen: Tensor | None) -> Tensor:
    """softmax(q k^T / sqrt(head_dim)) v for few queries in float32; `seen` is batch x tokens, True where a key counts."""
    return _Few.apply(q.contiguous(), rows(k), rows(v), None if seen is None else seen.contiguous())


def many(q: Tensor, k: Tensor, w: Tensor) -> Tensor:
    """softmax(q k^T / sqrt(head_dim)) w for few keys and values in float32, in the precision of q."""
    return _Many.apply(rows(q), k.contiguous(), w.contiguous())


def inverse(matrix: Tensor, start: Tensor, iterations: int, rough: bool = False) -> Tensor:
    """The iteration of `inverse.pseudo_inverse`; `rough`, gradients by single TF32 products."""
    return _Inverse.apply(matrix.contiguous(), start.contiguous(), iterations, rough)


def conv(x: Tensor, w: Tensor, seen: Tensor | None) -> Tensor:
    """Along the tokens of x (batch x tokens x inner, 0 where not `seen`), one filter of w (heads x taps) per head."""
    return _Conv.apply(rows(x), w.contiguous(), None if seen is None else seen.contiguous())


# ------------------------------------------------------------------------------------------------------------- gradients
class _Few(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, seen: Tensor | None) -> Tensor:
        y, lse = _few(q, k, v, seen)
        ctx.save_for_backward(q, k, v, seen, y, lse)
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, seen, y, lse = ctx.saved_tensors
        dq, dk, dv = _few_back(q, k, v, seen, lse, dy.contiguous(), (dy * y).sum(dim=-1))
        return dq.sum(dim=2), dk, dv, None


class _Many(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, w: Tensor) -> Tensor:
        ctx.save_for_backward(q, k, w)
        return _many(q, k, w)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor, ...]:
        dq, dk, dw = _many_back(*ctx.saved_tensors, rows(dy))
        return dq, dk.sum(dim=2), dw.sum(dim=2)


class _Inverse(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, matrix: Tensor, start: Tensor, iterations: int, rough: bool) -> Tensor:
        z, kept = _inverse(matrix, start, iterations)
        ctx.save_for_backward(matrix, kept)
        ctx.rough = rough
        return z

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dz: Tensor) -> tuple[Tensor | None, ...]:
        return *_inverse_back(*ctx.saved_tensors, dz.contiguous(), ctx.rough), None, None


class _Conv(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, w: Tensor, seen: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, w, seen)
        return _conv(x, w, seen, False)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, ...]:
        (x, w, seen), dy = ctx.saved_tensors, rows(dy)
        dw = _conv_weight(x, dy, seen, w.shape[1]).sum(dim=(0, 1)).unflatten(1, (len(w), -1)).sum(dim=2).T
        return _conv(dy, w, seen, True), dw.to(w.dtype), None


# -------------------------------------------------------------------------------------------------------------- launches
def _parted(q: Tensor, tokens: int) -> Tensor:
    batch, heads, marks, dim = q.shape
    return q.new_empty(batch, heads, _parts(tokens, batch * heads, _block(marks, dim))[0], marks, dim)


@operator("few(Tensor q, Tensor k, Tensor v, Tensor? seen) -> (Tensor, Tensor)",
           lambda q, k, v, seen: (torch.empty_like(q), q.new_empty(q.shape[:3])))
def _few(q: Tensor, k: Tensor, v: Tensor, seen: Tensor | None) -> tuple[Tensor, Tensor]:
    (batch, heads, marks, dim), tokens = q.shape, k.shape[2]
    parts, chunk = _parts(tokens, batch * heads, _block(marks, dim))
    partial, y, lse = _parted(q, tokens), torch.empty_like(q), q.new_empty(batch, heads, marks)
    top, total = q.new_empty(2, batch, heads, parts, marks)
    kernels._few_forward[(batch * heads, parts)](
        q, k, v, q if seen is None else seen, partial, top, total, *k.stride()[:3], *v.stride()[:3], heads, tokens, marks,
        dim, dim**-0.5, chunk, MASKED=seen is not None, BLOCK=_block(marks, dim), DOT=_dot(k), **_tiles(marks, dim),
    )  # fmt: skip
    kernels._few_combine[(batch * heads,)](partial, top, total, y, lse, parts, marks, dim, **_tiles(marks, dim))
    return y, lse


@operator("few_back(Tensor q, Tensor k, Tensor v, Tensor? seen, Tensor lse, Tensor dy, Tensor delta) -> "
           "(Tensor, Tensor, Tensor)",
           lambda q, k, v, seen, lse, dy, delta: (_parted(q, k.shape[2]), like(k), like(v)))
def _few_back(
    q: Tensor, k: Tensor, v: Tensor, seen: Tensor | None, lse: Tensor, dy: Tensor, delta: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    (batch, heads, marks, dim), tokens = q.shape, k.shape[2]
    parts, chunk = _parts(tokens, batch * heads, _block(marks, dim))
    dq, dk, dv = _parted(q, tokens), like(k), like(v)
    kernels._few_backward[(batch * heads, parts)](
        q, k, v, q if seen is None else seen, lse, dy, delta, dq, dk, dv, *k.stride()[:3], *v.stride()[:3],
        *dk.stride()[:3], heads, tokens, marks, dim, dim**-0.5, chunk, MASKED=seen is not None, BLOCK=_block(marks, dim),
        DOT=_dot(k), **_tiles(marks, dim),
    )  # fmt: skip
    return dq, dk, dv


@operator("many(Tensor q, Tensor k, Tensor w) -> Tensor", lambda q, k, w: like(q))
def _many(q: Tensor, k: Tensor, w: Tensor) -> Tensor:
    (batch, heads, tokens, dim), marks, y = q.shape, k.shape[2], like(q)
    block = _block(marks, dim)
    kernels._many_forward[(batch * heads, _ceil(tokens, block))](
        q, k, w, y, *q.stride()[:3], *y.stride()[:3], heads, tokens, marks, dim, dim**-0.5, BLOCK=block,
        DOT=_dot(q), **_tiles(marks, dim),
    )  # fmt: skip
    return y


@operator("many_back(Tensor q, Tensor k, Tensor w, Tensor dy) -> (Tensor, Tensor, Tensor)",
           lambda q, k, w, dy: (like(q), _parted(k, q.shape[2]), _parted(k, q.shape[2])))
def _many_back(q: Tensor, k: Tensor, w: Tensor, dy: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    (batch, heads, tokens, dim), marks = q.shape, k.shape[2]
    parts, chunk = _parts(tokens, batch * heads, _block(marks, dim))
    dq, dk, dw = like(q), _parted(k, tokens), _parted(k, tokens)
    kernels._many_backward[(batch * heads, parts)](
        q, k, w, dy, dq, dk, dw, *q.stride()[:3], *dy.stride()[:3], *dq.stride()[:3], heads, tokens, marks, dim,
        dim**-0.5, chunk, BLOCK=_block(marks, dim), DOT=_dot(q), **_tiles(marks, dim),
    )  # fmt: skip
    return dq, dk, dw


@operator("inverse(Tensor matrix, Tensor start, int iterations) -> (Tensor, Tensor)",
           lambda matrix, start, iterations: (torch.empty_like(matrix), matrix.new_empty(iterations, *matrix.shape)))
def _inverse(matrix: Tensor, start: Tensor, iterations: int) -> tuple[Tensor, Tensor]:
    z, kept, marks = torch.empty_like(matrix), matrix.new_empty(iterations, *matrix.shape), matrix.shape[1]
    kernels._inverse_forward[(len(matrix),)](matrix, start, kept, z, marks, iterations, M=tile(marks), num_warps=4)
    return z, kept


@operator("inverse_back(Tensor matrix, Tensor kept, Tensor dz, bool rough) -> (Tensor, Tensor)",
           lambda matrix, kept, dz, rough: (torch.empty_like(matrix), torch.empty_like(matrix)))
def _inverse_back(matrix: Tensor, kept: Tensor, dz: Tensor, rough: bool) -> tuple[Tensor, Tensor]:
    dmatrix, dstart, marks = torch.empty_like(matrix), torch.empty_like(matrix), matrix.shape[1]
    kernels._inverse_backward[(len(matrix),)](
        matrix, kept, dz, dmatrix, dstart, marks, len(kept), M=tile(marks), DOT="tf32" if rough else "tf32x3",
        num_warps=4 if rough else 8,
    )  # fmt: skip
    return dmatrix, dstart


@operator("conv(Tensor x, Tensor w, Tensor? seen, bool flip) -> Tensor", lambda x, w, seen, flip: x.new_empty(x.shape))
def _conv(x: Tensor, w: Tensor, seen: Tensor | None, flip: bool) -> Tensor:
    (batch, tokens, inner), (heads, taps), y = x.shape, w.shape, x.new_empty(x.shape)
    kernels._conv_along[(batch, _ceil(tokens, 64), _ceil(inner, 32))](
        x, w, x if seen is None else seen, y, *x.stride()[:2], tokens, inner, inner // heads, taps,
        FLIP=flip, IN=seen is not None and not flip, OUT=seen is not None and flip, BLOCK=64, C=32,
    )  # fmt: skip
    return y


@operator("conv_weight(Tensor x, Tensor dy, Tensor? seen, int taps) -> Tensor",
           lambda x, dy, seen, taps: _filters(x, taps))
def _conv_weight(x: Tensor, dy: Tensor, seen: Tensor | None, taps: int) -> Tensor:
    (batch, tokens, inner), dw = x.shape, _filters(x, taps)
    parts, chunk = _parts(tokens, batch, 64)
    kernels._conv_weight[(batch, parts, _ceil(inner, 32))](
        x, dy, x if seen is None else seen, dw, *x.stride()[:2], *dy.stride()[:2], tokens, inner, taps, chunk,
        IN=seen is not None, BLOCK=64, C=32, T=tile(taps),
    )  # fmt: skip
    return dw


def _filters(x: Tensor, taps: int) -> Tensor:
    return x.new_empty(x.shape[0], _parts(x.shape[1], x.shape[0], 64)[0], taps, x.shape[2], dtype=torch.float32)


# ------------------------------------------------------------------------------------------------------ layouts and sizes
def _dot(x: Tensor) -> str:
    """How products are made of inputs like x."""
    return "tf32x3" if x.dtype == torch.float32 else "tf32"


def _ceil(a: int, b: int) -> int:
    return -(-a // b)


def _parts(tokens: int, groups: int, block: int) -> tuple[int, int]:
    """In how many parts the tokens are worked on, and the tokens of a part."""
    blocks = _ceil(tokens, block)
    chunk = _ceil(blocks, min(blocks, _ceil(PROGRAMS, groups))) * block
    return _ceil(tokens, chunk), chunk


def _block(marks: int, dim: int) -> int:
    return 64 if tile(marks) * tile(dim) <= 2048 else 32


def _tiles(marks: int, dim: int) -> dict[str, int]:
    m, d = tile(marks), tile(dim)
    return {"M": m, "D": d} | ({"num_warps": 4, "num_stages": 3} if m * d <= 2048 else {"num_warps": 8, "num_stages": 1})
