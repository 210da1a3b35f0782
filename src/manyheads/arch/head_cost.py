"""What it costs to read the tokens of the last stage: each kind of head."""

from __future__ import annotations

from manyheads.spec.parts import (
    AttentionPooler,
    Classify,
    Coordinates,
    Embed,
    Features,
    Lm,
    Masked,
    Pair,
    Pooler,
    Stage,
    Token,
)

from .attention_cost import class_attention_params
from .layer_cost import mlp_params
from .quantities import Formulas, Num, Params, Saved, linear, matmul, norm_params


# ----------------------------------------------------------------------------------------------------------- classes
def classify_params(head: Classify, embed: Embed, last: Stage) -> Params:
    """A hidden layer and classes, or as many classifiers as there are."""
    norm, pooled = norm_params(head.norm, last.width), _pooled(head, last)
    if head.hidden:
        return Params(norm=norm, head=linear(pooled, head.hidden, True) + linear(head.hidden, head.classes, True))
    others = (head.distill + head.aux) * linear(last.width, head.classes, True)
    return Params(norm=norm, head=linear(pooled, head.classes, True) + others)


def classify_flops(head: Classify, embed: Embed, last: Stage) -> Num:
    """One pooled row for each classifier; VOLO's auxiliary one reads every patch token."""
    pooled = _pooled(head, last)
    if head.hidden:
        return matmul(1, pooled, head.hidden) + matmul(1, head.hidden, head.classes)
    aux = matmul(last.tokens - 1, last.width, head.classes) if head.aux else 0
    return matmul(1, pooled, head.classes) + head.distill * matmul(1, last.width, head.classes) + aux


def _pooled(head: Classify, last: Stage) -> Num:
    """Numbers that are pooled from a sample."""
    return 2 * last.width if head.pool == "class_and_patches" else last.width


def entering_saved(head: object, embed: Embed, last: Stage) -> Saved:
    """What the final norm reads; a pooled row and its classes are too small to count."""
    return Saved(stream=last.tokens * last.width)


def pair_params(head: Pair, embed: Embed, last: Stage) -> Params:
    """A hidden layer over [a, b, a*b, a-b], and classes."""
    dense = linear(4 * last.width, head.hidden, True) + linear(head.hidden, head.classes, True)
    return Params(norm=norm_params(head.norm, last.width), head=dense)


def pair_flops(head: Pair, embed: Embed, last: Stage) -> Num:
    """One row through both layers."""
    return matmul(1, 4 * last.width, head.hidden) + matmul(1, head.hidden, head.classes)


# ------------------------------------------------------------------------------------------------------- vocabulary
def lm_params(head: Lm, embed: Embed, last: Stage) -> Params:
    """A matrix unless it is tied to the embedding, and a bias a word."""
    vocab = _vocab(embed)
    matrix = 0 if head.tied else last.width * vocab
    return Params(norm=norm_params(head.norm, last.width), head=matrix + (vocab if head.bias else 0))


def lm_flops(head: Lm, embed: Embed, last: Stage) -> Num:
    """Logits of every token, tied or not."""
    return matmul(last.tokens, last.width, _vocab(embed))


def lm_saved(head: Lm, embed: Embed, last: Stage) -> Saved:
    """The norm's and the product's input, logits and log-probabilities, which are most of it; with a cap, what its tanh
    gives."""
    numbers = last.tokens * last.width + last.tokens * _vocab(embed)
    capped = 0 if head.cap is None else last.tokens * _vocab(embed)
    return Saved(stream=numbers, compute=numbers + capped)


def masked_params(head: Masked, embed: Embed, last: Stage) -> Params:
    """A bias a word, and BERT's dense layer with its norm."""
    norm, dense = norm_params(head.norm, last.width), _vocab(embed) if head.bias else 0
    if head.transform:
        norm, dense = norm + 2 * last.width, dense + linear(last.width, last.width, True)
    return Params(norm=norm, head=dense)


def masked_flops(head: Masked, embed: Embed, last: Stage) -> Num:
    """Logits of every token, and BERT's dense layer."""
    transform = matmul(last.tokens, last.width, last.width) if head.transform else 0
    return transform + matmul(last.tokens, last.width, _vocab(embed))


def masked_saved(head: Masked, embed: Embed, last: Stage) -> Saved:
    """As a language model's, and what BERT's dense layer, its activation and its norm read."""
    entering, logits = last.tokens * last.width, last.tokens * _vocab(embed)
    kept = 1 if head.act in ("relu", "tanh") else 2  # those keep their output alone, which the norm reads
    extra = Saved(stream=entering, compute=kept * entering) if head.transform else Saved()
    return extra + Saved(stream=entering + logits, compute=entering + logits)


def _vocab(embed: Embed) -> Num:
    assert isinstance(embed, Token)
    return embed.vocab


# ------------------------------------------------------------------------------------------------------ coordinates
def coordinates_params(head: Coordinates, embed: Embed, last: Stage) -> Params:
    """The answer is a part of the tokens: nothing is learned."""
    return Params()


def coordinates_flops(head: Coordinates, embed: Embed, last: Stage) -> Num:
    """Nothing is computed."""
    return 0


# --------------------------------------------------------------------------------------------------------- features
def features_params(head: Features, embed: Embed, last: Stage) -> Params:
    """The norm of the tokens, and the parts of the pooler."""
    width, norm = last.width, Params(norm=norm_params(head.norm, last.width))
    match head.pooler:
        case AttentionPooler() as pooler:
            inside = class_attention_params(pooler.attention, width) + mlp_params(pooler.mlp, width)
            return norm + inside + Params(norm=norm_params(pooler.norm, width), head=width)
        case Pooler() as pooler:
            dense = 0 if pooler.out is None else linear(width, pooler.out, pooler.bias)
            return norm + Params(norm=norm_params(pooler.norm, width), head=dense)
    return norm


def features_flops(head: Features, embed: Embed, last: Stage) -> Num:
    """Nothing: a forward gives the tokens. The pooler computes when it is asked for its vector."""
    return 0


def features_saved(head: Features, embed: Embed, last: Stage) -> Saved:
    """What the norm reads."""
    return Saved(stream=0 if head.norm is None else last.tokens * last.width)


# params, flops and saved (head, embed, last stage)
HEADS: dict[type, Formulas] = {
    Classify: Formulas(classify_params, classify_flops, entering_saved),
    Lm: Formulas(lm_params, lm_flops, lm_saved),
    Masked: Formulas(masked_params, masked_flops, masked_saved),
    Pair: Formulas(pair_params, pair_flops, entering_saved),
    Coordinates: Formulas(coordinates_params, coordinates_flops, entering_saved),
    Features: Formulas(features_params, features_flops, features_saved),
}
