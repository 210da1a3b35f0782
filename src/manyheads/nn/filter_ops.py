"""A filter along the tokens for each head as a differentiable function; torch.compile sees each launch as one
operator."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from . import filter_kernels as kernels
from .launch import ceil, operator, parts, rows, tile


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
        dw = _conv_weight(x, dy, seen, w.shape[1]).sum(dim=(0, 1)).unflatten(1, (len(w), -1)).sum(dim=2).T
        return _conv(dy, w, seen, True), dw.to(w.dtype), None


@operator("conv(Tensor x, Tensor w, Tensor? seen, bool flip) -> Tensor", lambda x, w, seen, flip: x.new_empty(x.shape))
def _conv(x: Tensor, w: Tensor, seen: Tensor | None, flip: bool) -> Tensor:
    (batch, tokens, inner), (heads, taps), y = x.shape, w.shape, x.new_empty(x.shape)
    kernels._conv_along[(batch, ceil(tokens, 64), ceil(inner, 32))](
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
def _conv_weight(x: Tensor, dy: Tensor, seen: Tensor | None, taps: int) -> Tensor:
    (batch, tokens, inner), dw = x.shape, _filters(x, taps)
    pieces, chunk = parts(tokens, batch, 64)
    kernels._conv_weight[(batch, pieces, ceil(inner, 32))](
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
