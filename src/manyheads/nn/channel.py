"""Channel attention (DaViT, 2204.03645): width -> heads x head_dim -> width, softmax over the channels of a head."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from manyheads.spec.parts import Attention, Channel
from manyheads.spec.rates import Rates

from .norm import make_norm


class ChannelAttention(nn.Module):
    """out([q_h softmax(k_h^T v_h / sqrt(head_dim))^T for every head h, side by side]).

    The map is head_dim x head_dim: its cost grows with tokens, not with their square. The input of `out` is the
    concatenated head output (tokens x inner)."""

    group = "attention"

    def __init__(self, width: int, spec: Attention, rates: Rates = Rates()) -> None:
        super().__init__()
        assert isinstance(spec.mix, Channel)
        self.spec = spec
        self.rate = rates.attention
        self.qkv = nn.Linear(width, 3 * spec.inner, bias=spec.qkv_bias)
        self.q_norm = make_norm(spec.qk_norm, spec.head_dim)
        self.k_norm = make_norm(spec.qk_norm, spec.head_dim)
        self.out = nn.Linear(spec.inner, width, bias=spec.out_bias)
        self.drop = nn.Dropout(rates.dropout)

    def forward(self, x: Float[Tensor, "batch tokens width"]) -> Float[Tensor, "batch tokens width"]:
        """Tokens in any order: every one is treated alike."""
        spec = self.spec
        q, k, v = self.qkv(x).unflatten(-1, (3, spec.heads, spec.head_dim)).unbind(-3)
        if spec.qk_norm is not None:  # in the norm's own precision: float32 under autocast
            q, k = self.q_norm(q.to(self.q_norm.weight.dtype)), self.k_norm(k.to(self.k_norm.weight.dtype))
        q, k, v = (t.transpose(1, 2) for t in (q.to(v.dtype), k.to(v.dtype) * spec.head_dim**-0.5, v))
        channels = (k.transpose(-2, -1) @ v).softmax(dim=-1)  # keys' channels x values' channels
        heads = q @ F.dropout(channels, self.rate, self.training).transpose(-2, -1)
        y = self.out(heads.transpose(1, 2).flatten(2))
        if spec.out_scale != 1.0:
            y = y * spec.out_scale
        return self.drop(y)
