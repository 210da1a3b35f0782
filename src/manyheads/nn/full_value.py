"""The attention that the rank theorems are about (2407.16153): queries and keys of low rank, values unrestricted."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional


class FullValueAttention(nn.Module):
    """sum over heads of softmax((y Q_h)(x K_h)^T + b_h) x V_h, with Q_h and K_h width x rank and V_h width x width.

    All tokens ask all tokens; with `separate` the last one alone asks, and asks the others. `positions` > 0 adds
    learned biases b_h to the scores of so many keys, as generalised attention may. `hard` takes the largest score
    instead of the softmax. An analysis layer: what models are built of has values of rank head_dim (`nn.attention`)."""

    group = "attention"

    def __init__(
        self, width: int, heads: int, rank: int, *, separate: bool = False, positions: int = 0, hard: bool = False
    ) -> None:
        super().__init__()
        self.separate, self.hard = separate, hard
        self.q = nn.Parameter(torch.empty(heads, width, rank))
        self.k = nn.Parameter(torch.empty(heads, width, rank))
        self.v = nn.Parameter(torch.empty(heads, width, width))
        self.bias = nn.Parameter(torch.zeros(heads, positions)) if positions else None
        self.init()

    def init(self) -> None:
        """Uniform to the bounds of Xavier: sqrt(6 / (rank + width)), and for values sqrt(6 / (heads width + width))."""
        heads, width, rank = self.q.shape
        for weight, fan in ((self.q, rank + width), (self.k, rank + width), (self.v, heads * width + width)):
            nn.init.uniform_(weight, -((6 / fan) ** 0.5), (6 / fan) ** 0.5)
        if self.bias is not None:
            nn.init.zeros_(self.bias)

    def forward(self, x: Float[Tensor, "batch tokens width"]) -> Float[Tensor, "batch asking width"]:
        asking, keys = (x[:, -1:], x[:, :-1]) if self.separate else (x, x)
        q = torch.einsum("btw,hwr->bhtr", asking, self.q)
        k = torch.einsum("btw,hwr->bhtr", keys, self.k)
        scores = q @ k.mT  # batch, heads, asking, keys
        if self.bias is not None:
            scores = scores + self.bias[:, None]
        if self.hard:
            weights = functional.one_hot(scores.argmax(dim=-1), keys.shape[1]).to(x.dtype)
        else:
            weights = scores.softmax(dim=-1)
        return torch.einsum("bhtw,hwo->bto", weights @ keys[:, None], self.v)
