"""Networks whose weights are written down instead of trained: those that the rank paper (2407.16153) proves to exist,
as modules that can be run, and the attention they are made of."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from manyheads.arch.families import nearest_neighbor
from manyheads.nn import Part

from .build import build
from .nearest_neighbor import NearestNeighborEncoder


class FullValueAttention(Part):
    """The attention that the rank theorems are about: queries and keys of low rank, values unrestricted.

    sum over heads of softmax((y Q_h)(x K_h)^T + b_h) x V_h, with Q_h and K_h width x rank and V_h width x width.

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


@torch.no_grad()
def exact_layer(dim: int) -> FullValueAttention:
    """Fact 1: one head with Q = K = V = I gives the point nearest to a separate query, whatever their number."""
    layer = FullValueAttention(dim, 1, dim, separate=True, hard=True)
    for weight in (layer.q, layer.k, layer.v):
        weight.copy_(torch.eye(dim))
    return layer


@torch.no_grad()
def biased_layer(dim: int, tokens: int, biases: Float[Tensor, " biases"]) -> FullValueAttention:
    """Theorem 3's target by one full-rank head for each bias on the first point's score, values I and -I in turn."""
    layer = FullValueAttention(dim, len(biases), dim, separate=True, positions=tokens, hard=True)
    for weight in (layer.q, layer.k, layer.v):
        weight.copy_(torch.eye(dim).expand_as(weight))
    layer.v[1::2] *= -1
    layer.bias[:, 0] = biases
    return layer


@torch.no_grad()
def exact_encoder(dim: int, tokens: int, mlp_dim: int = 8, *, large: float = 1e6) -> NearestNeighborEncoder:
    """The trained family's model with one full-rank head that gives for each point the farthest one: queries are turned
    round and `large`, the output drowns the residual stream, unit norm scales it back, the MLP adds nothing."""
    model = build(nearest_neighbor(dim, 1, 1, dim, mlp_dim, tokens=tokens), seed=0)
    attention, mlp = model.blocks[0].attention.op, model.blocks[0].mlp.op
    unit = torch.eye(dim)
    attention.qkv.weight.copy_(torch.cat((-large * unit, unit, unit)))
    attention.out.weight.copy_(large * unit)
    mlp.out.weight.zero_()
    mlp.out.bias.zero_()
    return model


class MajorityVote(nn.Module):
    """Theorem 5: two layers of rank-1 heads find the nearer of two points by a vote.

    Tokens are (point, position, scratch) with positions +1, -1 and 0 for the query. In the first layer head h, with q_h
    = k_h a random direction, chooses the point whose projection agrees more with the query's, and its value writes that
    point's position into the query's scratch: their sum is the vote. In the second, one head of rank 1 holds scratch
    against position, so that all weight goes to the point that won; its value hands over the point's coordinates."""

    def __init__(self, dim: int, heads: int, seed: int = 0) -> None:
        super().__init__()
        self.dim = dim
        position, scratch = dim, dim + 1
        self.votes = FullValueAttention(dim + 2, heads, 1, separate=True, hard=True)
        self.choice = FullValueAttention(dim + 2, 1, 1, separate=True, hard=True)
        directions = torch.randn(heads, dim, 1, generator=torch.Generator().manual_seed(seed))
        with torch.no_grad():
            for weight in (*self.votes.parameters(), *self.choice.parameters()):
                weight.zero_()
            self.votes.q[:, :dim] = self.votes.k[:, :dim] = functional.normalize(directions, dim=1)
            self.votes.v[:, position, scratch] = 1 / heads
            self.choice.q[0, scratch] = self.choice.k[0, position] = 1.0
            self.choice.v[0, :dim, :dim] = torch.eye(dim)

    def forward(self, tokens: Float[Tensor, "batch 3 dim"]) -> Float[Tensor, "batch 1 dim"]:
        """The coordinates of the winner; `tokens` are two points and the query."""
        places = torch.tensor([[1.0, 0.0], [-1.0, 0.0], [0.0, 0.0]], device=tokens.device).expand(len(tokens), -1, -1)
        x = torch.cat((tokens, places), dim=-1)
        query = x[:, -1:] + self.votes(x)
        return self.choice(torch.cat((x[:, :-1], query), dim=1))[..., : self.dim]
