"""Scaled dot-product attention, and the choice of the kernel that computes it."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from .launch import kernels_run

aten = torch.ops.aten
FEW = 32  # tokens of a sample that fit into one program


def backend(
    q: Tensor,
    *,
    mask: bool = False,
    grouped: bool = False,
    keys: int | None = None,
    causal: bool = False,
    dropout: float = 0.0,
) -> str:
    """The kernel `attend` uses for these queries: `short` on a GPU for at most 32 tokens that all see each other,
    `cudnn` on Hopper and later in half precision, else PyTorch's choice.

    Measured on one H200, forward and backward of 64 x 12 heads of 64 over 1024 causal tokens: cuDNN 1.58 ms, flash
    2.12. torch 2.11 prefers cuDNN there by itself; older priorities put flash first."""
    plain = not (mask or grouped or causal or dropout)
    if kernels_run(q) and plain and 1 < q.shape[-2] <= FEW and keys in (None, q.shape[-2]) and q.shape[-1] <= 64:
        return "short"
    if q.device.type != "cuda" or q.dtype not in (torch.float16, torch.bfloat16) or mask or grouped:
        return "torch"
    if torch.are_deterministic_algorithms_enabled() or q.shape[-1] % 8 or q.shape[-1] > 128 or q.shape[-2] == 1:
        return "torch"
    return "cudnn" if torch.cuda.get_device_capability(q.device)[0] >= 9 else "torch"


def attend(
    q: Float[Tensor, "batch heads tokens head_dim"],
    k: Float[Tensor, "batch kv_heads keys head_dim"],
    v: Float[Tensor, "batch kv_heads keys head_dim"],
    *,
    causal: bool = False,
    mask: Tensor | None = None,
    dropout: float = 0.0,
    scale: float | None = None,
    fused: bool = True,
    maps: list[Tensor] | None = None,
    window: int | None = None,
    cap: float | None = None,
    before: int | None = None,
) -> Float[Tensor, "batch heads tokens head_dim"]:
    """softmax(q k^T * scale) v; scale defaults to 1/sqrt(head_dim). `mask` is boolean, True where a key may be seen, or
    a number to add to each score.

    `causal`: the queries are the last of the keys' positions, and each sees the keys up to its own; the mask is then
    boolean. With `window`, each sees the last so many of those alone; the queries come after `before` keys, by default
    as the last ones. With `cap`, a score s becomes cap tanh(s / cap). `fused=False` materialises the attention map, as
    the audits of memory need it, and adds it to `maps`; so does `cap`, for which no fused kernel is built."""
    tokens, keys = q.shape[-2], k.shape[-2]
    before = keys - tokens if before is None else before
    if window is not None and before + tokens <= window:
        window = None  # nothing is out of reach
    if causal and (mask is not None or tokens != keys or window is not None):
        causal = False  # the kernels' own triangle takes no mask and is square
        if tokens > 1 or window is not None:  # a single query is the last and sees every key
            mask = triangle(tokens, keys, mask, q.device, window)
    elif window is not None:
        mask = within(window, before, tokens, keys, mask, q.device)
    fused = fused and cap is None
    grouped = bool(k.shape[1] != q.shape[1])  # of tensors, where torch.jit.trace counts
    if grouped and (mask is not None or not fused):  # no fused kernel takes both shared keys and a mask
        k, v = (t.repeat_interleave(q.shape[1] // t.shape[1], dim=1) for t in (k, v))
        grouped = False
    if fused:
        how = backend(q, mask=mask is not None, grouped=grouped, keys=keys, causal=causal, dropout=dropout)
        if how == "short":
            from .short_kernels import short

            return short(q, k, v, scale)
        if how == "cudnn":
            return aten._scaled_dot_product_cudnn_attention(
                q, k, v, None, torch.is_grad_enabled(), dropout, causal, False, scale=scale
            )[0]
        return F.scaled_dot_product_attention(
            q, k, v, attn_mask=mask, dropout_p=dropout, is_causal=causal, scale=scale, enable_gqa=grouped
        )
    scores = (q * (q.shape[-1] ** -0.5 if scale is None else scale)) @ k.transpose(-2, -1)
    if cap is not None:
        scores = cap * (scores / cap).tanh()
    if causal:
        mask = triangle(tokens, keys, None, q.device)
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf")) if mask.dtype == torch.bool else scores + mask
    weights = F.dropout(scores.softmax(dim=-1), dropout)
    if maps is not None:
        maps.append(weights)
    return weights @ v


def triangle(tokens: int, keys: int, mask: Tensor | None, device: torch.device, window: int | None = None) -> Tensor:
    """Which keys each of the last `tokens` positions sees: those up to its own, and not before its window, that `mask`
    lets through.

    Padding sees itself, so that no row is empty and none becomes NaN."""
    seen = torch.ones(tokens, keys, dtype=torch.bool, device=device).tril(keys - tokens)
    if window is not None:
        seen = seen.triu(keys - tokens - window + 1)
    return seen if mask is None else (mask | seen.triu(keys - tokens)) & seen


def within(window: int, before: int, tokens: int, keys: int, mask: Tensor | None, device: torch.device) -> Tensor:
    """`mask`, which says what each query sees, without the keys that lie before a query's window. The queries come after
    `before` keys."""
    seen = torch.ones(tokens, keys, dtype=torch.bool, device=device).triu(before - window + 1)
    if mask is None:
        return seen
    return mask & seen if mask.dtype == torch.bool else mask.masked_fill(~seen, float("-inf"))
