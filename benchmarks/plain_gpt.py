"""A plain GPT, as one would write it in an afternoon. It is the peer that our compiled GPT-2 has to beat."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class PlainLayer(nn.Module):
    """Pre-norm attention and MLP; heads of any size."""

    def __init__(self, width: int, heads: int, head_dim: int, hidden: int) -> None:
        super().__init__()
        self.heads, self.head_dim = heads, head_dim
        self.ln1, self.ln2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attn, self.proj = nn.Linear(width, 3 * heads * head_dim), nn.Linear(heads * head_dim, width)
        self.fc, self.back = nn.Linear(width, hidden), nn.Linear(hidden, width)

    def forward(self, x: Tensor) -> Tensor:
        """One layer."""
        batch, tokens, _ = x.shape
        q, k, v = self.attn(self.ln1(x)).view(batch, tokens, 3, self.heads, self.head_dim).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(y.transpose(1, 2).reshape(batch, tokens, -1))
        return x + self.back(F.gelu(self.fc(self.ln2(x)), approximate="tanh"))


class PlainGPT(nn.Module):
    """A GPT with a tied head and learned positions."""

    def __init__(self, vocab: int, tokens: int, width: int, depth: int, heads: int, head_dim: int) -> None:
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocab, width), nn.Embedding(tokens, width)
        self.layers = nn.ModuleList(PlainLayer(width, heads, head_dim, 4 * width) for _ in range(depth))
        self.ln = nn.LayerNorm(width)
        self.apply(lambda m: nn.init.normal_(m.weight, std=0.02) if isinstance(m, nn.Linear | nn.Embedding) else None)

    def forward(self, ids: Tensor) -> Tensor:
        """Logits."""
        x = self.wte(ids) + self.wpe(torch.arange(ids.shape[1], device=ids.device))
        for layer in self.layers:
            x = layer(x)
        return F.linear(self.ln(x), self.wte.weight)
