"""What reads the tokens: classes, the next token, masked tokens, a pair of documents."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from manyheads.arch.parts import Classify, Lm, Masked, Norm, Pair

from .mlp import ACTS
from .norm import make_norm


class ClassifyHead(nn.Module):
    """Norm, pool, classes. With `distill`, the mean of two classifiers in evaluation and both of them in training; with
    `aux`, half the largest vote of the patch tokens is added (VOLO)."""

    group = "head"

    def __init__(self, width: int, spec: Classify) -> None:
        super().__init__()
        self.spec = spec
        self.norm = make_norm(spec.norm, width)
        self.hidden = nn.Linear(width, spec.hidden) if spec.hidden else None
        self.out = nn.Linear(spec.hidden or width, spec.classes)
        self.distill = nn.Linear(width, spec.classes) if spec.distill else None
        self.aux = nn.Linear(width, spec.classes) if spec.aux else None

    def pool(self, x: Float[Tensor, "batch tokens width"], mask: Tensor | None = None) -> Float[Tensor, "batch width"]:
        """The class token, or the mean over the tokens that `mask` (True: a real token) lets count."""
        if self.spec.pool == "class":
            return x[:, 0]
        if mask is None:
            return x.mean(dim=1)
        weight = mask.to(x.dtype)[..., None]
        return (x * weight).sum(dim=1) / weight.sum(dim=1).clamp_min(1)

    def forward(self, x: Float[Tensor, "batch tokens width"], mask: Tensor | None = None) -> Tensor:
        x = x if self.spec.norm_last else self.norm(x)
        pooled = self.pool(x, mask)
        pooled = self.norm(pooled) if self.spec.norm_last else pooled
        if self.hidden is not None:
            pooled = ACTS[self.spec.act](self.hidden(pooled))
        logits = self.out(pooled)
        if self.distill is not None:
            second = self.distill(x[:, 1])
            return torch.stack((logits, second)) if self.training else (logits + second) / 2
        if self.aux is not None:
            return logits + 0.5 * self.aux(x[:, 1:]).amax(dim=1)
        return logits


class LmHead(nn.Module):
    """Norm and logits over the vocabulary; a tied head uses the embedding's matrix, handed in at each call."""

    group = "head"

    def __init__(self, width: int, vocab: int, spec: Lm) -> None:
        super().__init__()
        self.spec = spec
        self.norm = make_norm(spec.norm, width)
        self.weight = None if spec.tied else nn.Parameter(torch.empty(vocab, width))
        self.bias = nn.Parameter(torch.zeros(vocab)) if spec.bias else None

    def forward(self, x: Float[Tensor, "batch tokens width"], table: Tensor) -> Float[Tensor, "batch tokens vocab"]:
        return nn.functional.linear(self.norm(x), table if self.weight is None else self.weight, self.bias)


class MaskedHead(nn.Module):
    """Logits of masked tokens over the vocabulary, tied; `transform`: dense, GELU and norm before (BERT)."""

    group = "head"

    def __init__(self, width: int, vocab: int, spec: Masked, norm_eps: float = 1e-12) -> None:
        super().__init__()
        self.spec = spec
        self.norm = make_norm(spec.norm, width)
        self.dense = nn.Linear(width, width) if spec.transform else None
        self.dense_norm = make_norm(Norm(eps=norm_eps) if spec.transform else None, width)
        self.bias = nn.Parameter(torch.zeros(vocab)) if spec.bias else None

    def forward(self, x: Float[Tensor, "... width"], table: Tensor) -> Float[Tensor, "... vocab"]:
        x = self.norm(x)
        if self.dense is not None:
            x = self.dense_norm(nn.functional.gelu(self.dense(x)))
        return nn.functional.linear(x, table, self.bias)


class PairHead(nn.Module):
    """[a, b, a*b, a-b] of two pooled documents -> hidden -> classes."""

    group = "head"

    def __init__(self, width: int, spec: Pair) -> None:
        super().__init__()
        self.spec = spec
        self.norm = make_norm(spec.norm, width)
        self.hidden = nn.Linear(4 * width, spec.hidden)
        self.out = nn.Linear(spec.hidden, spec.classes)

    def forward(self, a: Float[Tensor, "batch width"], b: Float[Tensor, "batch width"]) -> Float[Tensor, "batch classes"]:
        return self.out(ACTS[self.spec.act](self.hidden(torch.cat((a, b, a * b, a - b), dim=-1))))
