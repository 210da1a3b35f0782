"""Attention by other means than softmax over all tokens: over channels, in windows, by outlook, for a class token."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from manyheads.spec.arch import side
from manyheads.spec.parts import Attention, Channel, ClassAttention, CrossCovariance, Layer, Outlook, Window
from manyheads.spec.recipe import Rates

from . import Part
from .attention import QkvAttention
from .block import Block, branches
from .convolution import as_image, as_tokens
from .sdpa import attend

torch.fx.wrap("attend")  # torch.fx calls it whole, since it decides by the sizes of its tensors


class CrossCovarianceAttention(QkvAttention):
    """XCiT's attention (2106.09681): channels, not tokens, attend to each other.

    out([v_h softmax(temperature_h q_h^T k_h)^T for every head h, side by side]), every channel of q and k normalised
    over the tokens. The map is head_dim x head_dim, so its cost grows with the inner width at fixed head_dim and not
    with tokens^2."""

    def __init__(self, width: int, spec: Attention, rates: Rates = Rates()) -> None:
        super().__init__(width, spec, rates)
        assert isinstance(spec.mix, CrossCovariance)
        self.temperature = nn.Parameter(torch.ones(spec.heads))

    def forward(self, x: Float[Tensor, "batch tokens width"]) -> Float[Tensor, "batch tokens width"]:
        spec = self.spec
        q, k, v = self.qkv(x).unflatten(-1, (3, spec.heads, spec.head_dim)).permute(2, 0, 3, 4, 1)
        scores = F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).transpose(-2, -1)
        weights = (scores * self.temperature[:, None, None]).softmax(dim=-1)
        heads = F.dropout(weights, self.rate, self.training) @ v
        return self.project(heads.permute(0, 3, 1, 2).flatten(2))


class ChannelAttention(QkvAttention):
    """DaViT's attention over channels (2204.03645): softmax over the channels of a head.

    out([q_h softmax(k_h^T v_h / sqrt(head_dim))^T for every head h, side by side]). The map is head_dim x head_dim:
    its cost grows with tokens, not with their square."""

    def __init__(self, width: int, spec: Attention, rates: Rates = Rates()) -> None:
        super().__init__(width, spec, rates)
        assert isinstance(spec.mix, Channel)

    def forward(self, x: Float[Tensor, "batch tokens width"]) -> Float[Tensor, "batch tokens width"]:
        """Tokens in any order: they are all treated alike."""
        spec = self.spec
        q, k, v = self.qkv(x).unflatten(-1, (3, spec.heads, spec.head_dim)).unbind(-3)
        q, k = self.normed(q, k)
        q, k, v = (t.transpose(1, 2) for t in (q.to(v.dtype), k.to(v.dtype) * spec.head_dim**-0.5, v))
        channels = (k.transpose(-2, -1) @ v).softmax(dim=-1)  # keys' channels x values' channels
        heads = q @ F.dropout(channels, self.rate, self.training).transpose(-2, -1)
        return self.project(heads.transpose(1, 2).flatten(2))


class WindowAttention(QkvAttention):
    """DaViT's attention over tokens (2204.03645): softmax attention inside size x size windows of the token grid.

    A grid that is not a whole number of windows is padded with zeros at its end. As in the original, the padding is not
    masked: its keys and values are the biases of `qkv`. The input of `out` is the concatenated head output of each
    window (size^2 x inner)."""

    def __init__(self, width: int, spec: Attention, tokens: int, rates: Rates = Rates()) -> None:
        super().__init__(width, spec, rates)
        assert isinstance(spec.mix, Window)
        self.grid = side(tokens)
        self.size = spec.mix.size

    def forward(self, x: Float[Tensor, "batch tokens width"]) -> Float[Tensor, "batch tokens width"]:
        """Tokens of a square grid, row by row."""
        spec = self.spec
        q, k, v = self.qkv(self.cut(x)).unflatten(-1, (3, spec.heads, spec.head_dim)).unbind(-3)
        q, k = self.normed(q, k)
        q, k, v = (t.transpose(1, 2) for t in (q.to(v.dtype), k.to(v.dtype), v))
        rate = self.rate if self.training else 0.0
        heads = attend(q, k, v, dropout=rate, fused=self.fused)
        return self.finish(self.join(self.out(heads.transpose(1, 2).flatten(2))))

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


class OutlookAttention(Part):
    """VOLO's attention (2106.13112): weights are predicted from the tokens, without queries or keys.

    out(fold_s(softmax(w_s / sqrt(head_dim)) unfold_s(v))): every spot s of the strided grid looks at its
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
        spec, places = self.spec, self.kernel**2
        patches = {"kernel_size": self.kernel, "padding": self.kernel // 2, "stride": self.stride}
        v = F.unfold(as_image(self.v(x), self.grid), **patches)  # batch, inner places, spots
        v = v.unflatten(1, (spec.heads, spec.head_dim, places)).permute(0, 1, 4, 3, 2)
        spots = F.avg_pool2d(as_image(x, self.grid), self.stride, ceil_mode=True).flatten(2)
        w = self.weights(spots.transpose(1, 2)).unflatten(-1, (spec.heads, places, places)).transpose(1, 2)
        w = self.weights_drop((w * spec.head_dim**-0.5).softmax(dim=-1))
        seen = (w @ v).permute(0, 1, 4, 3, 2).flatten(1, 3)  # batch, inner places, spots
        heads = F.fold(seen, (self.grid, self.grid), **patches)
        y = self.out(as_tokens(heads))
        if spec.out_scale != 1.0:
            y = y * spec.out_scale
        return self.drop(y)


class ClassAttentionBlock(Part):
    """CaiT's attention (2103.17239): the class token alone has a query; all tokens have keys and values.

    out([softmax(q_h k_h^T / sqrt(head_dim)) v_h for every head h, side by side]) with q from the first token alone.
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


class ClassBlock(Block):
    """The class token asks all tokens and passes through the MLP; the other tokens stay as they are."""

    def __init__(self, width: int, layer: Layer, rates: Rates) -> None:
        super().__init__()
        attention = layer[0].op
        assert isinstance(attention, ClassAttention)
        self.attention, self.mlp = branches(width, layer, rates, mixer=ClassAttentionBlock(width, attention, rates))

    def forward(self, x: Float[Tensor, "batch tokens width"]) -> Float[Tensor, "batch tokens width"]:
        """Tokens with the class token in front."""
        answer = self.attention.scaled(self.attention.op(self.attention.norm(x)))
        return torch.cat((self.mlp(x[:, :1] + answer), x[:, 1:]), dim=1)
