"""Softmax attention with heads and head_dim apart: width -> heads x head_dim -> width."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor, nn

from manyheads.spec.parts import Attention, Softmax
from manyheads.spec.rates import Rates

from .cache import Kept
from .norm import make_norm
from .rope import turn
from .sdpa import attend


class SoftmaxAttention(nn.Module):
    """out([softmax(q_h k_h^T / sqrt(head_dim)) v_h for every head h, side by side]).

    `qkv` is one matrix whose rows are all queries, then all keys, then all values; with `kv_heads` fewer heads of keys
    and values than of queries. The input of `out` is the concatenated head output (tokens x inner) that kappa is
    measured on."""

    group = "attention"

    def __init__(self, width: int, spec: Attention, rates: Rates = Rates()) -> None:
        super().__init__()
        assert isinstance(spec.mix, Softmax)
        self.spec = spec
        self.causal = spec.mix.causal
        self.fused = True
        self.rate = rates.attention
        self.qkv = nn.Linear(width, spec.inner + 2 * spec.kv_inner, bias=spec.qkv_bias)
        self.q_norm = make_norm(spec.qk_norm, spec.head_dim)
        self.k_norm = make_norm(spec.qk_norm, spec.head_dim)
        self.out = nn.Linear(spec.inner, width, bias=spec.out_bias)
        self.drop = nn.Dropout(rates.dropout)

    def forward(
        self,
        x: Float[Tensor, "batch tokens width"],
        mask: Tensor | None = None,
        rotary: Float[Tensor, "tokens 2 head_dim"] | None = None,
        kept: Kept | None = None,
    ) -> Float[Tensor, "batch tokens width"]:
        """`mask` is boolean, True where a key may be seen, and broadcasts to batch x heads x tokens x keys; `rotary`
        holds the cosines and sines of these tokens' positions; `kept` the keys and values of the tokens before them."""
        spec = self.spec
        qkv = self.qkv(x).split((spec.inner, spec.kv_inner, spec.kv_inner), dim=-1)
        q, k, v = (part.unflatten(-1, (-1, spec.head_dim)) for part in qkv)
        if spec.qk_norm is not None:  # in the norm's own precision: float32 under autocast
            q, k = self.q_norm(q.to(self.q_norm.weight.dtype)), self.k_norm(k.to(self.k_norm.weight.dtype))
        q, k, v = (part.transpose(1, 2) for part in (q, k, v))  # batch, heads, tokens, head_dim
        if rotary is not None:
            q, k = turn(q, rotary), turn(k, rotary)
        q, k = q.to(v.dtype), k.to(v.dtype)
        rate = self.rate if self.training else 0.0
        if kept is None:
            heads = attend(q, k, v, causal=self.causal, mask=mask, dropout=rate, fused=self.fused)
        else:
            heads = kept.attend(q, k, v)
        y = self.out(heads.transpose(1, 2).flatten(2))
        if spec.out_scale != 1.0:
            y = y * spec.out_scale
        return self.drop(y)
