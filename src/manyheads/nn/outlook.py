"""Outlook attention (VOLO, 2106.13112): width -> heads x head_dim -> width, weights without queries or keys."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from manyheads.spec.arch import side
from manyheads.spec.parts import Attention, Outlook
from manyheads.spec.rates import Rates


class OutlookAttention(nn.Module):
    """out(fold_s(softmax(w_s / sqrt(head_dim)) unfold_s(v))): every spot s of the strided grid looks at its
    kernel x kernel neighbourhood, weighs it once for each place in it, and overlapping neighbourhoods add up.

    `weights` predicts kernel^2 x kernel^2 logits a head from the mean of the stride x stride tokens of a spot; where
    the stride does not divide the grid, the last spots have fewer. The input of `out` is the folded, concatenated head
    output (tokens x inner)."""

    group = "attention"

    def __init__(self, width: int, spec: Attention, tokens: int, rates: Rates = Rates()) -> None:
        super().__init__()
        assert isinstance(spec.mix, Outlook)
        assert spec.mix.kernel % 2 == 1, "a neighbourhood has a centre"
        assert spec.qk_norm is None, "there are neither queries nor keys"
        self.spec = spec
        self.grid = side(tokens)
        self.kernel, self.stride = spec.mix.kernel, spec.mix.stride
        self.v = nn.Linear(width, spec.inner, bias=spec.qkv_bias)
        self.weights = nn.Linear(width, spec.heads * self.kernel**4)
        self.weights_drop = nn.Dropout(rates.attention)
        self.out = nn.Linear(spec.inner, width, bias=spec.out_bias)
        self.drop = nn.Dropout(rates.dropout)

    def forward(self, x: Float[Tensor, "batch tokens width"]) -> Float[Tensor, "batch tokens width"]:
        """Tokens of a square grid, row by row."""
        spec, grid, places = self.spec, (self.grid, self.grid), self.kernel**2
        patches = {"kernel_size": self.kernel, "padding": self.kernel // 2, "stride": self.stride}
        v = F.unfold(self.v(x).transpose(1, 2).unflatten(-1, grid), **patches)  # batch, inner places, spots
        v = v.unflatten(1, (spec.heads, spec.head_dim, places)).permute(0, 1, 4, 3, 2)
        spots = F.avg_pool2d(x.transpose(1, 2).unflatten(-1, grid), self.stride, ceil_mode=True).flatten(2)
        w = self.weights(spots.transpose(1, 2)).unflatten(-1, (spec.heads, places, places)).transpose(1, 2)
        w = self.weights_drop((w * spec.head_dim**-0.5).softmax(dim=-1))
        seen = (w @ v).permute(0, 1, 4, 3, 2).flatten(1, 3)  # batch, inner places, spots
        heads = F.fold(seen, grid, **patches)
        y = self.out(heads.flatten(2).transpose(1, 2))
        if spec.out_scale != 1.0:
            y = y * spec.out_scale
        return self.drop(y)
