"""Cross-covariance attention (2106.09681) with heads and head_dim apart: channels, not tokens, attend to each other."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from manyheads.spec.parts import Attention, CrossCovariance
from manyheads.spec.rates import Rates


class CrossCovarianceAttention(nn.Module):
    """out([v_h softmax(temperature_h q_h^T k_h)^T for every head h, side by side]), every channel of q and k normalised
    over the tokens.

    The map is head_dim x head_dim, so its cost grows with the inner width at fixed head_dim and not with tokens^2. The
    input of `out` is the concatenated head output (tokens x inner)."""

    group = "attention"

    def __init__(self, width: int, spec: Attention, rates: Rates = Rates()) -> None:
        super().__init__()
        assert isinstance(spec.mix, CrossCovariance)
        self.spec = spec
        self.rate = rates.attention
        self.qkv = nn.Linear(width, 3 * spec.inner, bias=spec.qkv_bias)
        self.temperature = nn.Parameter(torch.ones(spec.heads))
        self.out = nn.Linear(spec.inner, width, bias=spec.out_bias)
        self.drop = nn.Dropout(rates.dropout)

    def forward(self, x: Float[Tensor, "batch tokens width"]) -> Float[Tensor, "batch tokens width"]:
        spec = self.spec
        q, k, v = self.qkv(x).unflatten(-1, (3, spec.heads, spec.head_dim)).permute(2, 0, 3, 4, 1)
        scores = F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).transpose(-2, -1)
        weights = (scores * self.temperature[:, None, None]).softmax(dim=-1)
        heads = F.dropout(weights, self.rate, self.training) @ v
        y = self.out(heads.permute(0, 3, 1, 2).flatten(2))
        if spec.out_scale != 1.0:
            y = y * spec.out_scale
        return self.drop(y)
