"""Two originals that no library holds, written out as plainly as their descriptions: one head, one sequence at a time.

Nothing here comes from the package: what these compute, it has to compute."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn


def start(module: nn.Module) -> None:
    """Both originals' initial weights: matrices and tables N(0, 0.02), biases 0."""
    for part in module.modules():
        if isinstance(part, nn.Linear | nn.Embedding):
            nn.init.normal_(part.weight, std=0.02)
        if isinstance(part, nn.Linear) and part.bias is not None:
            nn.init.zeros_(part.bias)


class CrammedLayer(nn.Module):
    """Attention over [q | k | v] rows kept head by head, then a gated MLP whose first matrix gives u, then the gate."""

    def __init__(self, width: int, heads: int, head_dim: int, intermediate: int) -> None:
        super().__init__()
        self.heads, self.head_dim = heads, head_dim
        self.norm1 = nn.LayerNorm(width, eps=1e-12)
        self.qkv = nn.Linear(width, heads * 3 * head_dim, bias=False)
        self.dense = nn.Linear(heads * head_dim, width, bias=False)
        self.norm2 = nn.LayerNorm(width, eps=1e-12)
        self.w1 = nn.Linear(width, intermediate, bias=False)
        self.w2 = nn.Linear(intermediate // 2, width, bias=False)

    def attention(self, x: Tensor, penalty: Tensor) -> Tensor:
        d, outputs = self.head_dim, []
        qkv = self.qkv(x)
        for h in range(self.heads):
            own = qkv[:, 3 * d * h : 3 * d * (h + 1)]
            q, k, v = own[:, :d], own[:, d : 2 * d], own[:, 2 * d :]
            scores = q @ k.T / math.sqrt(d) + penalty
            weights = torch.exp(scores - scores.max(dim=1, keepdim=True).values)
            outputs.append(weights / weights.sum(dim=1, keepdim=True) @ v)
        return self.dense(torch.cat(outputs, dim=1))

    def mlp(self, x: Tensor) -> Tensor:
        both = self.w1(x)
        half = both.shape[1] // 2
        u, gate = both[:, :half], both[:, half:]
        return self.w2(gate * 0.5 * (1 + torch.erf(gate / math.sqrt(2))) * u)

    def forward(self, x: Tensor, penalty: Tensor) -> Tensor:
        x = x + self.attention(self.norm1(x), penalty)
        return x + self.mlp(self.norm2(x))


class Crammed(nn.Module):
    """Crammed BERT: logits over the vocabulary, or `classes` read from the first token."""

    def __init__(
        self,
        vocab: int,
        width: int,
        depth: int,
        heads: int,
        head_dim: int,
        intermediate: int,
        classes: int = 0,
        head_width: int = 0,
    ) -> None:
        super().__init__()
        self.words = nn.Embedding(vocab, width, padding_idx=0)
        self.scale = nn.Parameter(torch.tensor([1 / math.sqrt(width)]))
        self.norm = nn.LayerNorm(width, eps=1e-12)
        self.layers = nn.ModuleList(CrammedLayer(width, heads, head_dim, intermediate) for _ in range(depth))
        self.final_norm = nn.LayerNorm(width, eps=1e-12)
        self.pooler = nn.Linear(width, head_width) if classes else None
        self.head = nn.Linear(head_width, classes) if classes else None
        start(self)
        if classes:  # otherwise the tied head's matrix is drawn last, the row of padding with it
            with torch.no_grad():
                self.words.weight[0] = 0.0

    def positions(self, length: int) -> Tensor:
        width = self.words.weight.shape[1]
        rows = []
        for position in range(length):
            angles = [position / 10_000 ** (2 * (i // 2) / width) for i in range(width)]
            rows.append([math.cos(a) if i % 2 else math.sin(a) for i, a in enumerate(angles)])
        return torch.tensor(rows, dtype=torch.float64)

    def forward(self, ids: Tensor, real: Tensor | None = None, chosen: Tensor | None = None) -> Tensor:
        """`real`: 1 for a token, 0 for padding. `chosen`: predict only these positions of each sequence."""
        answers = []
        for i, sequence in enumerate(ids):
            shown = torch.ones(len(sequence)) if real is None else real[i]
            x = self.norm(self.words(sequence) + self.scale * self.positions(len(sequence)))
            for layer in self.layers:
                x = layer(x, (1 - shown.double()) * -10_000.0)
            x = self.final_norm(x)
            if self.pooler is not None and self.head is not None:
                answers.append(self.head(torch.tanh(self.pooler(x[0]))))
            else:
                x = x if chosen is None else torch.stack([x[position] for position in chosen[i]])
                answers.append(x @ self.words.weight.T)
        return torch.stack(answers)


class Head(nn.Module):
    """One head of its own: three matrices without bias, a causal softmax."""

    def __init__(self, width: int, head_dim: int) -> None:
        super().__init__()
        self.key = nn.Linear(width, head_dim, bias=False)
        self.query = nn.Linear(width, head_dim, bias=False)
        self.value = nn.Linear(width, head_dim, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.query(x), self.key(x), self.value(x)
        rows = []
        for t in range(x.shape[1]):
            scores = (q[:, t : t + 1] * k[:, : t + 1]).sum(dim=2) / math.sqrt(k.shape[2])
            weights = scores.exp() / scores.exp().sum(dim=1, keepdim=True)
            rows.append((weights[:, :, None] * v[:, : t + 1]).sum(dim=1))
        return torch.stack(rows, dim=1)


class StoryLayer(nn.Module):
    """Heads in a loop, then a ReLU MLP, each before its own norm and added."""

    def __init__(self, width: int, heads: int, head_dim: int, hidden: int) -> None:
        super().__init__()
        self.heads = nn.ModuleList(Head(width, head_dim) for _ in range(heads))
        self.proj = nn.Linear(heads * head_dim, width)
        self.up = nn.Linear(width, hidden)
        self.down = nn.Linear(hidden, width)
        self.ln1 = nn.LayerNorm(width)
        self.ln2 = nn.LayerNorm(width)

    def forward(self, x: Tensor) -> Tensor:
        y = self.ln1(x)
        x = x + self.proj(torch.cat([head(y) for head in self.heads], dim=2))
        return x + self.down(self.up(self.ln2(x)).clamp_min(0))


class Stories(nn.Module):
    """The TinyStories GPT: learned positions, an untied head with a bias."""

    def __init__(self, vocab: int, length: int, width: int, depth: int, heads: int, head_dim: int, hidden: int) -> None:
        super().__init__()
        self.words = nn.Embedding(vocab, width)
        self.places = nn.Embedding(length, width)
        self.layers = nn.ModuleList(StoryLayer(width, heads, head_dim, hidden) for _ in range(depth))
        self.ln_f = nn.LayerNorm(width)
        self.lm_head = nn.Linear(width, vocab)
        start(self)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.words(ids) + self.places(torch.arange(ids.shape[1]))
        for layer in self.layers:
            x = layer(x)
        return self.lm_head(self.ln_f(x))
