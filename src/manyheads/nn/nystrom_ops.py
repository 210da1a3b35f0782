"""Nyström attention's kernels as differentiable functions.

The same inputs give the same bits: every sum over tokens is taken in parts, and the parts are added in one order.
torch.compile sees each launch as one opaque operator: inlined into its graphs, these kernels run at a third of their
speed."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from . import nystrom_kernels as kernels
from .launch import beside, ceil, like, operator, parts, rows, tile


def landmarks_of(q: Tensor, k: Tensor, landmarks: int) -> tuple[Tensor, Tensor]:
    """`nystrom.means` of q and of k."""
    return _Landmarks.apply(rows(q), rows(k), landmarks)


def few(q: Tensor, k: Tensor, v: Tensor, seen: Tensor | None) -> Tensor:
    """softmax(q k^T / sqrt(head_dim)) v for few queries in float32; `seen` is batch x tokens, True where a key
    counts."""
    return _Few.apply(q.contiguous(), rows(k), rows(v), None if seen is None else seen.contiguous())


def few_and_inverse(
    q: Tensor, k_marks: Tensor, k: Tensor, v: Tensor, seen: Tensor | None, iterations: int, rough: bool
) -> tuple[Tensor, Tensor]:
    """`few`, and at the same time `nystrom.inverse_map` of q and k_marks, whose one program a head would leave most of a
    large device idle. With `rough`, gradients of the inverse are computed by single TF32 products."""
    seen = None if seen is None else seen.contiguous()
    return _FewAndInverse.apply(q.contiguous(), k_marks.contiguous(), rows(k), rows(v), seen, iterations, rough)


def many(q: Tensor, k: Tensor, w: Tensor) -> Tensor:
    """softmax(q k^T / sqrt(head_dim)) w for few keys and values in float32, in the precision of q."""
    return _Many.apply(rows(q), k.contiguous(), w.contiguous()).transpose(1, 2)


# ------------------------------------------------------------------------------------------------------------ gradients
class _Landmarks(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, landmarks: int) -> tuple[Tensor, Tensor]:
        ctx.tokens, ctx.dtypes = q.shape[2], (q.dtype, k.dtype)
        q_marks, k_marks = _means(q, k, landmarks)
        return q_marks, k_marks

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dq: Tensor, dk: Tensor) -> tuple[Tensor | None, ...]:
        return _spread(dq, ctx.tokens, ctx.dtypes[0]), _spread(dk, ctx.tokens, ctx.dtypes[1]), None


def _spread(d: Tensor, tokens: int, dtype: torch.dtype) -> Tensor:
    """Each token's share of its segment's gradient, laid out as `like` lays out."""
    landmarks, d = d.shape[2], d.transpose(1, 2)
    size, longer = tokens // landmarks, tokens % landmarks

    def each(part: Tensor, size: int) -> Tensor:
        share = (part / size).to(dtype).unsqueeze(2)
        return share.expand(-1, -1, size, -1, -1).flatten(1, 2)

    first, rest = d.split((longer, landmarks - longer), dim=1)
    shares = torch.cat((each(first, size + 1), each(rest, size)), dim=1) if longer else each(rest, size)
    return shares.transpose(1, 2)


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
        dq, dk, dv = _few_back(q, k, v, seen, y, lse, dy.contiguous())
        return dq.sum(dim=2), dk, dv, None


class _FewAndInverse(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, q: Tensor, k_marks: Tensor, k: Tensor, v: Tensor, seen: Tensor | None, iterations: int, rough: bool
    ) -> tuple[Tensor, Tensor]:
        y, lse, z, kept = _few_inverse(q, k_marks, k, v, seen, iterations)
        ctx.save_for_backward(q, k_marks, k, v, seen, y, lse, kept)
        ctx.rough = rough
        return y, z

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dy: Tensor, dz: Tensor) -> tuple[Tensor | None, ...]:
        back = _few_inverse_back(*ctx.saved_tensors, dy.contiguous(), dz.contiguous(), ctx.rough)
        dq, dk, dv, dq_inverse, dk_marks = back
        return dq.sum(dim=2) + dq_inverse, dk_marks, dk, dv, None, None, None


class _Many(torch.autograd.Function):
    """The value is laid out token by token, all heads of a token side by side, and is contiguous in that order:
    torch.compile copies the gradient of a value that is not contiguous before it hands it on."""

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, w: Tensor) -> Tensor:
        ctx.save_for_backward(q, k, w)
        return _many(q, k, w)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor, ...]:
        dq, dk, dw = _many_back(*ctx.saved_tensors, rows(dy))
        return dq, dk.sum(dim=2), dw.sum(dim=2)


# ------------------------------------------------------------------------------------------------------------- launches
def _parted(q: Tensor, tokens: int) -> Tensor:
    batch, heads, marks, dim = q.shape
    return q.new_empty(batch, heads, parts(tokens, batch * heads, _block(marks, dim))[0], marks, dim)


@operator(
    "means(Tensor q, Tensor k, int landmarks) -> (Tensor, Tensor)",
    lambda q, k, landmarks: (_room(q, landmarks), _room(q, landmarks)),
)
def _means(q: Tensor, k: Tensor, landmarks: int) -> tuple[Tensor, Tensor]:
    (batch, heads, tokens, dim), size = q.shape, q.shape[2] // landmarks
    q_marks, k_marks = _room(q, landmarks), _room(q, landmarks)
    kernels._means[(batch * heads, landmarks)](
        q,
        k,
        q_marks,
        k_marks,
        *q.stride()[:3],
        *k.stride()[:3],
        heads,
        landmarks,
        dim,
        size,
        tokens % landmarks,
        D=tile(dim),
        BLOCK=min(tile(size + 1), 64),
    )
    return q_marks, k_marks


def _room(q: Tensor, landmarks: int) -> Tensor:
    return q.new_empty(*q.shape[:2], landmarks, q.shape[3], dtype=torch.float32)


@operator(
    "few(Tensor q, Tensor k, Tensor v, Tensor? seen) -> (Tensor, Tensor)",
    lambda q, k, v, seen: (torch.empty_like(q), q.new_empty(q.shape[:3])),
)
def _few(q: Tensor, k: Tensor, v: Tensor, seen: Tensor | None) -> tuple[Tensor, Tensor]:
    (batch, heads, marks, dim), tokens = q.shape, k.shape[2]
    pieces, chunk = parts(tokens, batch * heads, _block(marks, dim))
    partial, y, lse = _parted(q, tokens), torch.empty_like(q), q.new_empty(batch, heads, marks)
    top, total = q.new_empty(2, batch, heads, pieces, marks)
    kernels._few_forward[(batch * heads, pieces)](
        q,
        k,
        v,
        q if seen is None else seen,
        partial,
        top,
        total,
        *k.stride()[:3],
        *v.stride()[:3],
        heads,
        tokens,
        marks,
        dim,
        dim**-0.5,
        chunk,
        MASKED=seen is not None,
        BLOCK=_block(marks, dim),
        DOT=_dot(k, v),
        **_tiles(marks, dim),
    )
    kernels._few_combine[(batch * heads,)](partial, top, total, y, lse, pieces, marks, dim, **_tiles(marks, dim))
    return y, lse


@operator(
    "few_back(Tensor q, Tensor k, Tensor v, Tensor? seen, Tensor y, Tensor lse, Tensor dy) -> (Tensor, Tensor, Tensor)",
    lambda q, k, v, *_: (_parted(q, k.shape[2]), like(k), like(v)),
)
def _few_back(
    q: Tensor, k: Tensor, v: Tensor, seen: Tensor | None, y: Tensor, lse: Tensor, dy: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    (batch, heads, marks, dim), tokens = q.shape, k.shape[2]
    pieces, chunk = parts(tokens, batch * heads, _block(marks, dim))
    dq, dk, dv = _parted(q, tokens), like(k), like(v)
    kernels._few_backward[(batch * heads, pieces)](
        q,
        k,
        v,
        q if seen is None else seen,
        y,
        lse,
        dy,
        dq,
        dk,
        dv,
        *k.stride()[:3],
        *v.stride()[:3],
        *dk.stride()[:3],
        heads,
        tokens,
        marks,
        dim,
        dim**-0.5,
        chunk,
        MASKED=seen is not None,
        BLOCK=_block(marks, dim),
        DOT=_dot(k, v),
        **_tiles(marks, dim),
    )
    return dq, dk, dv


@operator("many(Tensor q, Tensor k, Tensor w) -> Tensor", lambda q, k, w: like(q).transpose(1, 2))
def _many(q: Tensor, k: Tensor, w: Tensor) -> Tensor:
    (batch, heads, tokens, dim), marks, y = q.shape, k.shape[2], like(q)
    block = _wide(marks, dim)
    kernels._many_forward[(batch * heads, ceil(tokens, block))](
        q,
        k,
        w,
        y,
        *q.stride()[:3],
        *y.stride()[:3],
        heads,
        tokens,
        marks,
        dim,
        dim**-0.5,
        BLOCK=block,
        DOT=_dot(q),
        **_tiles(marks, dim),
    )
    return y.transpose(1, 2)


@operator(
    "many_back(Tensor q, Tensor k, Tensor w, Tensor dy) -> (Tensor, Tensor, Tensor)",
    lambda q, k, w, dy: (like(q), _parted(k, q.shape[2]), _parted(k, q.shape[2])),
)
def _many_back(q: Tensor, k: Tensor, w: Tensor, dy: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    (batch, heads, tokens, dim), marks = q.shape, k.shape[2]
    pieces, chunk = parts(tokens, batch * heads, _block(marks, dim))
    dq, dk, dw, dy = like(q), _parted(k, tokens), _parted(k, tokens), dy.transpose(1, 2)
    kernels._many_backward[(batch * heads, pieces)](
        q,
        k,
        w,
        dy,
        dq,
        dk,
        dw,
        *q.stride()[:3],
        *dy.stride()[:3],
        *dq.stride()[:3],
        heads,
        tokens,
        marks,
        dim,
        dim**-0.5,
        chunk,
        BLOCK=_block(marks, dim),
        DOT=_dot(q),
        **_tiles(marks, dim),
    )
    return dq, dk, dw


@operator(
    "few_inverse(Tensor q, Tensor k_marks, Tensor k, Tensor v, Tensor? seen, int iterations) -> "
    "(Tensor, Tensor, Tensor, Tensor)",
    lambda q, k_marks, k, v, seen, iterations: (
        torch.empty_like(q),
        q.new_empty(q.shape[:3]),
        *_squares(q, iterations),
    ),
)
def _few_inverse(
    q: Tensor, k_marks: Tensor, k: Tensor, v: Tensor, seen: Tensor | None, iterations: int
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    (batch, heads, marks, dim), (z, kept) = q.shape, _squares(q, iterations)

    def invert() -> None:
        kernels._inverse_forward[(batch * heads,)](
            q, k_marks, kept, z, marks, dim, dim**-0.5, iterations, M=tile(marks), D=tile(dim), num_warps=4
        )

    y, lse = beside(q, invert, lambda: _few(q, k, v, seen))
    return y, lse, z, kept


@operator(
    "few_inverse_back(Tensor q, Tensor k_marks, Tensor k, Tensor v, Tensor? seen, Tensor y, Tensor lse, Tensor kept, "
    "Tensor dy, Tensor dz, bool rough) -> (Tensor, Tensor, Tensor, Tensor, Tensor)",
    lambda q, k_marks, k, v, *_: (_parted(q, k.shape[2]), like(k), like(v), torch.empty_like(q), torch.empty_like(q)),
)
def _few_inverse_back(
    q: Tensor,
    k_marks: Tensor,
    k: Tensor,
    v: Tensor,
    seen: Tensor | None,
    y: Tensor,
    lse: Tensor,
    kept: Tensor,
    dy: Tensor,
    dz: Tensor,
    rough: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    (batch, heads, marks, dim), dq_inverse, dk_marks = q.shape, torch.empty_like(q), torch.empty_like(q)

    def invert() -> None:
        kernels._inverse_backward[(batch * heads,)](
            q,
            k_marks,
            kept,
            dz,
            dq_inverse,
            dk_marks,
            marks,
            dim,
            dim**-0.5,
            len(kept),
            M=tile(marks),
            D=tile(dim),
            DOT="tf32" if rough else "tf32x3",
            num_warps=4 if rough else 8,
        )

    dq, dk, dv = beside(q, invert, lambda: _few_back(q, k, v, seen, y, lse, dy))
    return dq, dk, dv, dq_inverse, dk_marks


def _squares(q: Tensor, iterations: int) -> tuple[Tensor, Tensor]:
    """Empty landmarks x landmarks matrices: one for each head, and one for each head and iteration."""
    z = q.new_empty(*q.shape[:3], q.shape[2])
    return z, z.new_empty(iterations, *z.shape)


# ---------------------------------------------------------------------------------------------------- layouts and sizes
def _dot(*inputs: Tensor) -> str:
    """How products of such inputs are computed: in three TF32 products for float32, in one for less."""
    return "tf32x3" if any(x.dtype == torch.float32 for x in inputs) else "tf32"


def _block(marks: int, dim: int) -> int:
    return 64 if tile(marks) * tile(dim) <= 2048 else 32


def _wide(marks: int, dim: int) -> int:
    """Tokens in a block of a kernel that holds little else. 4,096 tokens of 64 heads and 64 landmarks of 32 take an H200
    24 us with blocks of 128 tokens, 27 us with 64."""
    return min(128, 8192 // max(tile(marks), tile(dim))) if _block(marks, dim) == 64 else 32


def _tiles(marks: int, dim: int) -> dict[str, int]:
    m, d = tile(marks), tile(dim)
    return {"M": m, "D": d} | (
        {"num_warps": 4, "num_stages": 3} if m * d <= 2048 else {"num_warps": 8, "num_stages": 1}
    )
