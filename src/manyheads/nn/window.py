"""Window attention (DaViT, 2204.03645): softmax attention inside size x size windows of the token grid."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from manyheads.spec.arch import side
from manyheads.spec.parts import Attention, Window
from manyheads.spec.rates import Rates

from .norm import make_norm
from .sdpa import attend


class WindowAttention(nn.Module):
    """Softmax attention, width -> heads x head_dim -> width, in each window apart.

    A grid that is not a whole number of windows is padded with zeros at its end. As in the original, the padding is not
    masked: its keys and values are the biases of `qkv`. The input of `out` is the concatenated head output of each
    window (size^2 x inner)."""

    group = "attention"

    def __init__(self, width: int, spec: Attention, tokens: int, rates: Rates = Rates()) -> None:
        super().__init__()
        assert isinstance(spec.mix, Window)
        self.spec = spec
        self.grid = side(tokens)
        self.size = spec.mix.size
        self.fused = True
        self.rate = rates.attention
        self.qkv = nn.Linear(width, 3 * spec.inner, bias=spec.qkv_bias)
        self.q_norm = make_norm(spec.qk_norm, spec.head_dim)
        self.k_norm = make_norm(spec.qk_norm, spec.head_dim)
        self.out = nn.Linear(spec.inner, width, bias=spec.out_bias)
        self.drop = nn.Dropout(rates.dropout)

    def forward(self, x: Float[Tensor, "batch tokens width"]) -> Float[Tensor, "batch tokens width"]:
        """Tokens of a square grid, row by row."""
        spec = self.spec
        q, k, v = self.qkv(self.cut(x)).unflatten(-1, (3, spec.heads, spec.head_dim)).unbind(-3)
        if spec.qk_norm is not None:  # in the norm's own precision: float32 under autocast
            q, k = self.q_norm(q.to(self.q_norm.weight.dtype)), self.k_norm(k.to(self.k_norm.weight.dtype))
        q, k, v = (t.transpose(1, 2) for t in (q.to(v.dtype), k.to(v.dtype), v))
        rate = self.rate if self.training else 0.0
        heads = attend(q, k, v, dropout=rate, fused=self.fused)
        y = self.join(self.out(heads.transpose(1, 2).flatten(2)))
        if spec.out_scale != 1.0:
            y = y * spec.out_scale
        return self.drop(y)

    def cut(self, x: Float[Tensor, "batch tokens width"]) -> Float[Tensor, "windows places width"]:
        """All windows of all samples, one after the other; the grid padded up to whole windows."""
        pad = -self.grid % self.size
        across = (self.grid + pad) // self.size
        x = x.unflatten(1, (self.grid, self.grid))
        x = F.pad(x, (0, 0, 0, pad, 0, pad)) if pad else x  # padding by nothing would copy
        x = x.unflatten(2, (across, self.size)).unflatten(1, (across, self.size))
        return x.transpose(2, 3).flatten(0, 2).flatten(1, 2)

    def join(self, x: Float[Tensor, "windows places width"]) -> Float[Tensor, "batch tokens width"]:
        """The windows as tokens of the grid again, the padding cut off."""
        across = -(-self.grid // self.size)
        x = x.reshape(-1, across, across, self.size, self.size, x.shape[-1])
        x = x.transpose(2, 3).flatten(3, 4).flatten(1, 2)
        return x[:, : self.grid, : self.grid].flatten(1, 2)
