"""Softmax attention with heads and head_dim apart: width -> heads x head_dim -> width."""

from __future__ import annotations

import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn

from manyheads.spec.parts import Attention, Softmax
from manyheads.spec.recipe import Rates

from . import Part
from .cache import Kept
from .positions import turn
from .residual import make_norm
from .sdpa import attend

torch.fx.wrap("attend")  # torch.fx calls it whole, since it decides by the sizes of its tensors


class QkvAttention(Part):
    """What attentions with queries, keys and values share.

    `qkv` is one matrix whose rows are all queries, then all keys, then all values; with `kv_heads` fewer heads of keys
    and values than of queries. The input of `out` is the concatenated head output (tokens x inner) that kappa, its
    condition number, is measured on. `fused=False` materialises attention maps, as the audits of memory need it."""

    group = "attention"

    def __init__(self, width: int, spec: Attention, rates: Rates = Rates()) -> None:
        super().__init__()
        self.spec = spec
        self.fused = True
        self.rate = rates.attention
        self.qkv = nn.Linear(width, spec.inner + 2 * spec.kv_inner, bias=spec.qkv_bias)
        self.whole = spec.qk_norm_over == "inner"
        self.q_norm = make_norm(spec.qk_norm, spec.inner if self.whole else spec.head_dim)
        self.k_norm = make_norm(spec.qk_norm, spec.kv_inner if self.whole else spec.head_dim)
        self.out = nn.Linear(spec.inner, width, bias=spec.out_bias)
        self.drop = nn.Dropout(rates.dropout)

    def normed(self, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        """Queries and keys after their norms, which compute in their own precision: float32 under autocast."""
        if self.spec.qk_norm is None:
            return q, k
        return self.q_norm(q.to(self.q_norm.weight.dtype)), self.k_norm(k.to(self.k_norm.weight.dtype))

    def project(self, heads: Float[Tensor, "batch tokens inner"]) -> Float[Tensor, "batch tokens width"]:
        """The concatenated heads through the output projection, then `finish`."""
        return self.finish(self.out(heads))

    def finish(self, y: Float[Tensor, "batch tokens width"]) -> Float[Tensor, "batch tokens width"]:
        """The projected heads, scaled as the record says, after dropout."""
        return self.drop(y if self.spec.out_scale == 1.0 else y * self.spec.out_scale)


class SoftmaxAttention(QkvAttention):
    """out([softmax(q_h k_h^T * scale) v_h for every head h, side by side]); the rest as `Softmax` in the record says.

    `flex` computes by PyTorch's flex_attention; without `fused`, maps are added to `maps` where that is a list."""

    flex = False
    maps: list[Tensor] | None = None

    def __init__(self, width: int, spec: Attention, rates: Rates = Rates()) -> None:
        super().__init__(width, spec, rates)
        assert isinstance(spec.mix, Softmax)
        self.mix = spec.mix
        self.causal = spec.mix.causal

    def forward(
        self,
        x: Float[Tensor, "batch tokens width"],
        mask: Shaped[Tensor, ...] | None = None,
        rotary: Float[Tensor, "*rows tokens 2 head_dim"] | None = None,
        kept: Kept | None = None,
    ) -> Float[Tensor, "batch tokens width"]:
        """`mask` says which keys may be seen, and broadcasts to batch x heads x tokens x keys: with one row for all
        queries a causal attention adds its triangle, a mask with a row for each query says everything but the window.
        `rotary` holds the cosines and sines of these tokens' positions; `kept` the keys and values of the tokens before
        them."""
        spec = self.spec
        q, k, v = self.qkv(x).split((spec.inner, spec.kv_inner, spec.kv_inner), dim=-1)
        if self.whole:
            q, k = self.normed(q, k)
        q, k, v = (part.unflatten(-1, (-1, spec.head_dim)) for part in (q, k, v))
        if not self.whole:
            q, k = self.normed(q, k)
        q, k, v = (part.transpose(1, 2) for part in (q, k, v))  # batch, heads, tokens, head_dim
        if rotary is not None:
            q, k = turn(q, rotary), turn(k, rotary)
        q, k = q.to(v.dtype), k.to(v.dtype)
        if kept is None:
            causal = self.causal and (mask is None or mask.shape[-2] == 1)
            heads = self.attend(q, k, v, causal=causal, mask=mask)
        else:
            heads = kept.attend(q, k, v, self)
        return self.project(heads.transpose(1, 2).flatten(2))

    def attend(
        self, q: Tensor, k: Tensor, v: Tensor, *, causal: bool, mask: Tensor | None, before: int | None = None
    ) -> Tensor:
        """`sdpa.attend` with this attention's dropout, scale, window and cap, computed as it is set to be."""
        rate = self.rate if self.training else 0.0
        mix = {"scale": self.mix.scale, "window": self.mix.window, "cap": self.mix.cap, "before": before}
        if self.flex:
            from .flex_kernel import flex

            return flex(q, k, v, causal=causal, mask=mask, dropout=rate, **mix)
        return attend(q, k, v, causal=causal, mask=mask, dropout=rate, fused=self.fused, maps=self.maps, **mix)
