"""Heads: what the tokens after the last block predict. Classes, the next token, masked tokens, a pair's class."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from manyheads.spec.errors import UserError
from manyheads.spec.parts import AttentionPooler, ClassAttention, Classify, Features, Lm, Masked, Norm, Pair, Pooler
from manyheads.spec.recipe import Rates

from . import Part
from .inputs import check_chosen
from .loss import logits_loss, vocabulary_loss
from .residual import ACTS, MlpBlock, make_norm
from .sdpa import attend


class ClassifyHead(Part):
    """Norm, pool, hidden layer (if the record has one), classes. With `distill` there are two classifiers: training sees
    both, evaluation their mean. With `aux`, half the largest logit over the patch tokens is added (VOLO)."""

    group = "head"

    def __init__(self, width: int, spec: Classify, rates: Rates = Rates(), *, prefix: int = 0) -> None:
        super().__init__()
        self.spec = spec
        self.prefix = prefix  # tokens in front of the patches
        pooled = 2 * width if spec.pool == "class_and_patches" else width
        self.norm = make_norm(spec.norm, width)
        self.hidden = nn.Linear(pooled, spec.hidden) if spec.hidden else None
        self.drop = nn.Dropout(rates.dropout)
        self.out = nn.Linear(spec.hidden or pooled, spec.classes)
        self.distill = nn.Linear(width, spec.classes) if spec.distill else None
        self.aux = nn.Linear(width, spec.classes) if spec.aux else None

    def pool(self, x: Float[Tensor, "batch tokens width"], mask: Tensor | None = None) -> Float[Tensor, "batch pooled"]:
        """The class token, the mean over the real tokens or over the patches, or class token and patches."""
        match self.spec.pool:
            case "class":
                return x[:, 0]
            case "mean":
                return mean(x, mask)
            case "patches":
                return x[:, self.prefix :].mean(dim=1)
        return torch.cat((x[:, 0], x[:, self.prefix :].mean(dim=1)), dim=-1)

    def forward(self, x: Float[Tensor, "batch tokens width"], mask: Tensor | None = None) -> Tensor:
        """Logits of the classes: batch x classes, or 2 x batch x classes from a distilled model in training."""
        if self.spec.pool == "class" and self.aux is None:
            x = x[:, :2]  # a norm works token by token, and only these two may be read
        return self.logits(self.normed(x), mask)

    def normed(self, x: Float[Tensor, "batch tokens width"]) -> Float[Tensor, "batch tokens width"]:
        """The tokens as they are pooled: after the norm, unless that comes after pooling."""
        return x if self.spec.norm_last else self.norm(x)

    def pooled(
        self, x: Float[Tensor, "batch tokens width"], mask: Tensor | None = None
    ) -> Float[Tensor, "batch inputs"]:
        """The classifier's input, from tokens that `normed` returned."""
        pooled = self.pool(x, mask)
        pooled = self.norm(pooled) if self.spec.norm_last else pooled
        return pooled if self.hidden is None else ACTS[self.spec.act](self.hidden(pooled))

    def logits(self, x: Float[Tensor, "batch tokens width"], mask: Tensor | None = None) -> Tensor:
        """What `forward` returns, from tokens that `normed` returned."""
        logits = self.out(self.drop(self.pooled(x, mask)))
        if self.distill is not None:
            second = self.distill(x[:, 1])
            return torch.stack((logits, second)) if self.training else (logits + second) / 2
        if self.aux is not None:
            return logits + 0.5 * self.aux(x[:, 1:]).amax(dim=1)
        return logits


def mean(x: Float[Tensor, "batch tokens width"], mask: Tensor | None) -> Float[Tensor, "batch width"]:
    """The mean over the tokens, or over the real ones, where `mask` is True. A mask of every query and key does not say
    which tokens are real: all count."""
    if mask is None or mask.ndim == 4:
        return x.mean(dim=1)
    weight = mask.to(x.dtype)[..., None]
    return (x * weight).sum(dim=1) / weight.sum(dim=1).clamp_min(1)


class LmHead(Part):
    """Norm and logits over the vocabulary. A tied head uses the embedding's matrix, which each call hands in.

    Where the record caps logits, a loss needs the logits of all tokens at once."""

    group = "head"

    def __init__(self, width: int, vocab: int, spec: Lm) -> None:
        super().__init__()
        self.spec = spec
        self.norm = make_norm(spec.norm, width)
        self.weight = None if spec.tied else nn.Parameter(torch.empty(vocab, width))
        self.bias = nn.Parameter(torch.zeros(vocab)) if spec.bias else None

    def last(self, x: Float[Tensor, "... width"]) -> Float[Tensor, "... width"]:
        """The input of the vocabulary's matrix."""
        return self.norm(x)

    def forward(self, x: Float[Tensor, "... width"], table: Tensor, targets: Tensor | None = None) -> Tensor:
        """Logits over the vocabulary, or the loss of `targets`; `table` is the embedding's matrix, which an untied head
        does not use."""
        table = table if self.weight is None else self.weight
        x, bias, scale, cap = self.last(x), self.bias, self.spec.scale, self.spec.cap
        if scale != 1.0:
            x, bias = x * scale, None if bias is None else bias * scale
        if cap is None:
            return over_vocabulary(x, table, bias, targets)
        logits = (over_vocabulary(x, table, bias, None) / cap).tanh() * cap
        return logits if targets is None else logits_loss(logits, targets)


class MaskedHead(Part):
    """Logits of masked tokens over the vocabulary, tied; `transform`: dense, activation and norm before (BERT).

    The transform's norm has the `eps` of the model's other norms."""

    group = "head"

    def __init__(self, width: int, vocab: int, spec: Masked, eps: float = 1e-12) -> None:
        super().__init__()
        self.spec = spec
        self.norm = make_norm(spec.norm, width)
        self.dense = nn.Linear(width, width) if spec.transform else None
        self.dense_norm = make_norm(Norm(eps=eps) if spec.transform else None, width)
        self.bias = nn.Parameter(torch.zeros(vocab)) if spec.bias else None

    def last(self, x: Float[Tensor, "... width"]) -> Float[Tensor, "... width"]:
        """The input of the vocabulary's matrix."""
        x = self.norm(x)
        return x if self.dense is None else self.dense_norm(ACTS[self.spec.act](self.dense(x)))

    def forward(
        self,
        x: Float[Tensor, "batch tokens width"],
        table: Tensor,
        at: Int[Tensor, "batch chosen"] | None = None,
        targets: Int[Tensor, "batch chosen"] | None = None,
    ) -> Tensor:
        """Logits over the vocabulary, of every token or of those at the chosen positions, or the loss of `targets`;
        `table` as in `LmHead`."""
        return over_vocabulary(self.last(x if at is None else pick(x, at)), table, self.bias, targets)


def over_vocabulary(x: Tensor, table: Tensor, bias: Tensor | None, targets: Tensor | None) -> Tensor:
    """Logits; or, with `targets`, their mean cross-entropy, for which all logits never exist at once."""
    if targets is None:
        return nn.functional.linear(x, table, bias)
    return vocabulary_loss(x, table, targets, bias)


def pick(
    x: Float[Tensor, "batch tokens width"], at: Int[Tensor, "batch chosen"]
) -> Float[Tensor, "batch chosen width"]:
    """The tokens at the chosen positions, the same number in every sequence (sparse prediction)."""
    check_chosen(at, *x.shape[:2])
    return x.take_along_dim(at.long()[..., None], dim=1)


class VectorPooler(Part):
    """act(out(norm(token))) of one token of each sample; what the record leaves out is left out."""

    group = "head"

    def __init__(self, width: int, spec: Pooler) -> None:
        super().__init__()
        self.spec = spec
        self.norm = make_norm(spec.norm, width)
        self.out = None if spec.out is None else nn.Linear(width, spec.out, bias=spec.bias)

    def forward(
        self, x: Float[Tensor, "batch tokens width"], ids: Int[Tensor, "batch tokens"] | None = None
    ) -> Float[Tensor, "batch out"]:
        """The vector of each sample. `ids` are needed where these say which token is the end."""
        pooled = self.norm(self.token(x, ids))
        pooled = pooled if self.out is None else self.out(pooled)
        return pooled if self.spec.act is None else ACTS[self.spec.act](pooled)

    def token(self, x: Tensor, ids: Tensor | None) -> Float[Tensor, "batch width"]:
        """The token that stands for the sample."""
        match self.spec.pool:
            case "class":
                return x[:, 0]
            case "last":
                return x[:, -1]
        if ids is None or ids.is_floating_point():
            raise UserError(
                "the pooler takes the token with the largest id, so it needs the ids of the tokens; give them"
            )
        return x.take_along_dim(ids.argmax(dim=1)[:, None, None], dim=1)[:, 0]


class LatentAttention(Part):
    """What one learned token reads of all tokens. `qkv` is one matrix: all queries, then all keys, then all values."""

    group = "attention"

    def __init__(self, width: int, spec: ClassAttention) -> None:
        super().__init__()
        self.spec = spec
        self.qkv = nn.Linear(width, 3 * spec.inner, bias=spec.qkv_bias)
        self.out = nn.Linear(spec.inner, width, bias=spec.out_bias)

    def forward(
        self, x: Float[Tensor, "batch tokens width"], latent: Float[Tensor, " width"]
    ) -> Float[Tensor, "batch width"]:
        inner, bias = self.spec.inner, self.qkv.bias
        q = nn.functional.linear(latent, self.qkv.weight[:inner], None if bias is None else bias[:inner])
        kv = nn.functional.linear(x, self.qkv.weight[inner:], None if bias is None else bias[inner:])
        shape = (self.spec.heads, self.spec.head_dim)
        parts = (q.expand(x.shape[0], 1, -1), *kv.chunk(2, dim=-1))
        q, k, v = (part.unflatten(-1, shape).transpose(1, 2) for part in parts)
        return self.out(attend(q, k, v).transpose(1, 2).flatten(1))


class LatentPooler(Part):
    """y + mlp(norm(y)), where y is what a learned token reads of all tokens (SigLIP)."""

    group = "head"

    def __init__(self, width: int, spec: AttentionPooler) -> None:
        super().__init__()
        self.spec = spec
        self.latent = nn.Parameter(torch.zeros(width))
        self.attention = LatentAttention(width, spec.attention)
        self.norm = make_norm(spec.norm, width)
        self.mlp = MlpBlock(width, spec.mlp)

    def forward(
        self, x: Float[Tensor, "batch tokens width"], ids: Tensor | None = None
    ) -> Float[Tensor, "batch width"]:
        """The vector of each sample."""
        y = self.attention(x, self.latent)
        return y + self.mlp(self.norm(y))


class FeaturesHead(Part):
    """The tokens after a norm, without a prediction."""

    group = "head"

    def __init__(self, width: int, spec: Features) -> None:
        super().__init__()
        self.spec = spec
        self.norm = make_norm(spec.norm, width)
        self.pooler: VectorPooler | LatentPooler | None = None
        match spec.pooler:
            case Pooler() as pooler:
                self.pooler = VectorPooler(width, pooler)
            case AttentionPooler() as pooler:
                self.pooler = LatentPooler(width, pooler)

    def forward(
        self, x: Float[Tensor, "batch tokens width"], mask: Tensor | None = None
    ) -> Float[Tensor, "batch tokens width"]:
        """The tokens after the norm."""
        return self.norm(x)

    def pooled(
        self, x: Float[Tensor, "batch tokens width"], ids: Int[Tensor, "batch tokens"] | None = None
    ) -> Float[Tensor, "batch out"]:
        """One vector a sample, made of the tokens that `forward` returned; `ids` as the model read them, if it did."""
        if self.pooler is None:
            raise UserError(
                "this record's head has no pooler: take the tokens, or their mean, as the vector of a sample"
            )
        return self.pooler(x, ids)


class PairHead(Part):
    """[a, b, a*b, a-b] of two pooled documents -> hidden -> classes."""

    group = "head"

    def __init__(self, width: int, spec: Pair) -> None:
        super().__init__()
        self.spec = spec
        self.norm = make_norm(spec.norm, width)
        self.hidden = nn.Linear(4 * width, spec.hidden)
        self.out = nn.Linear(spec.hidden, spec.classes)

    def forward(
        self, a: Float[Tensor, "batch width"], b: Float[Tensor, "batch width"]
    ) -> Float[Tensor, "batch classes"]:
        """Logits of the classes of each pair."""
        return self.out(ACTS[self.spec.act](self.hidden(torch.cat((a, b, a * b, a - b), dim=-1))))
