"""Class attention (2103.17239): the class token asks, all tokens answer."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor, nn

from manyheads.spec.parts import ClassAttention
from manyheads.spec.rates import Rates

from .sdpa import attend


class ClassAttentionBlock(nn.Module):
    """out([softmax(q_h k_h^T / sqrt(head_dim)) v_h for every head h, side by side]) with q from the first token alone.

    `kv` is one matrix whose rows are all keys, then all values; the queries have their own, because they read one token
    and the others read all. The input of `out` is 1 x inner."""

    group = "attention"

    def __init__(self, width: int, spec: ClassAttention, rates: Rates = Rates()) -> None:
        super().__init__()
        self.spec = spec
        self.fused = True
        self.rate = rates.attention
        self.q = nn.Linear(width, spec.inner, bias=spec.qkv_bias)
        self.kv = nn.Linear(width, 2 * spec.inner, bias=spec.qkv_bias)
        self.out = nn.Linear(spec.inner, width, bias=spec.out_bias)
        self.drop = nn.Dropout(rates.dropout)

    def forward(self, x: Float[Tensor, "batch tokens width"]) -> Float[Tensor, "batch 1 width"]:
        shape = (self.spec.heads, self.spec.head_dim)
        k, v = self.kv(x).chunk(2, dim=-1)
        q, k, v = (t.unflatten(-1, shape).transpose(1, 2) for t in (self.q(x[:, :1]), k, v))
        heads = attend(q, k, v, dropout=self.rate if self.training else 0.0, fused=self.fused)
        return self.drop(self.out(heads.transpose(1, 2).flatten(2)))
