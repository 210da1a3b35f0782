"""Softmax attention by PyTorch's flex_attention, which skips the blocks of keys that a mask hides from all queries."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

from manyheads.spec.errors import UserError

from .inputs import readable


@cache
def compiled() -> Callable[..., Any]:
    """flex_attention as a kernel; without compilation it forms the whole map, which serves a CPU alone."""
    return torch.compile(flex_attention, dynamic=False)


def flex(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    causal: bool,
    mask: Tensor | None,
    dropout: float,
    scale: float | None = None,
    window: int | None = None,
    cap: float | None = None,
    before: int | None = None,
) -> Tensor:
    """As `sdpa.attend`. `causal`: the queries are the last of the keys' positions. There is no dropout of weights."""
    if dropout:
        raise UserError(
            f"flex_attention has no dropout of attention weights, and the rate is {dropout}; set it to 0, or take sdpa"
        )
    if q.device.type == "cpu" and q.requires_grad:
        raise UserError(
            "flex_attention computes no gradients on a CPU; train on a GPU, take sdpa, or call it under torch.no_grad()"
        )
    (rows, heads, tokens, _), keys = q.shape, k.shape[-2]
    before, score, blocks = keys - tokens if before is None else before, None, None
    added = mask.expand(rows, heads, tokens, keys) if mask is not None and mask.is_floating_point() else None
    if added is not None or cap is not None:

        def score(value: Tensor, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
            value = value if cap is None else cap * torch.tanh(value / cap)
            return value if added is None else value + added[b, h, i, j]

    seen = None if mask is None or added is not None else mask.expand(rows, heads, tokens, keys)

    def visible(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        near = j > i + before - (keys if window is None else window)
        if not causal:
            return near if seen is None else near & seen[b, h, i, j]
        near = near & (j <= i + before)
        # padding sees itself, so that no row is empty
        return near if seen is None else near & (seen[b, h, i, j] | (j == i + before))

    if causal or seen is not None or window is not None:
        apart = (rows, heads) if seen is not None else (None, None)
        blocks = create_block_mask(visible, *apart, tokens, keys, device=q.device)
    kernel = compiled() if q.device.type == "cuda" and readable(q) else flex_attention
    return kernel(q, k, v, score_mod=score, block_mask=blocks, scale=scale, enable_gqa=k.shape[1] != q.shape[1])
