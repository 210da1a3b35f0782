"""The extreme singular values of a block, raw or centred, by eigenvalues, by matrix products, or exactly."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from .blocks import Block
from .products import extreme_vectors

Ends = tuple[Float[Tensor, " batch"], Float[Tensor, " batch"]]  # the largest, and the smallest of those that count
GRAM_CARRIES = 1e5  # a float64 Gram matrix gives kappa to 1e-5 up to here, whatever the spectrum


def by_exact(block: Block, centred: bool) -> tuple[Ends, Float[Tensor, "batch size"]]:
    """The ends and all squared singular values, ascending, from the triangle of a QR factorisation."""
    matrix = block.matrix(centred)
    triangle = torch.linalg.qr(matrix.mT if block.wide else matrix, mode="r").R
    values = torch.linalg.svdvals(triangle).flip(-1)
    return _pick(block, values, centred), values.square()


def by_eigen(
    block: Block, gram: Float[Tensor, "batch size size"], centred: bool
) -> tuple[Ends, Float[Tensor, "batch size"]]:
    """The ends and all squared singular values, ascending, from a Gram matrix; what it cannot carry is measured
    again."""
    values = torch.linalg.eigvalsh(gram).clamp(min=0)
    top, bottom = _pick(block, values.sqrt(), centred)
    beyond = (top >= GRAM_CARRIES * bottom) & (top > 0)
    if beyond.any():
        again, _ = by_exact(block.subset(beyond), centred)
        top, bottom = (old.index_put((beyond,), new) for old, new in zip((top, bottom), again, strict=True))
    return (top, bottom), values


def _pick(block: Block, values: Float[Tensor, "batch size"], centred: bool) -> Ends:
    place = (values.shape[-1] - block.count(centred)).clamp(0, values.shape[-1] - 1).long()
    return values[:, -1], values.gather(-1, place[:, None]).squeeze(-1)


def by_products(block: Block, grams: tuple[Tensor, ...]) -> list[Ends]:
    """The ends for one or both of `block.grams(block.wide)`, raw first, by matrix products and in one batch.

    Padding may leave fewer tokens than `inner` in some matrices and not in others: then both sides are computed."""
    found = _on_side(block, grams, block.wide)
    if block.masked and not block.wide:
        for centred, other in enumerate(_on_side(block, block.grams(True)[: len(grams)], True)):
            short = block.kept - centred < block.inner
            top, bottom = (torch.where(short, new, old) for new, old in zip(other, found[centred], strict=True))
            found[centred] = (top, bottom)
    return found


def _on_side(block: Block, grams: tuple[Tensor, ...], wide: bool) -> list[Ends]:
    filled = [_fill(block, gram, bool(centred)) if wide else gram for centred, gram in enumerate(grams)]
    parts = zip(*(each.chunk(len(grams)) for each in extreme_vectors(torch.cat(filled))), strict=True)
    return [_measure(block, *part, centred=bool(centred), wide=wide) for centred, part in enumerate(parts)]


def _measure(
    block: Block,
    largest: Float[Tensor, "batch size"],
    smallest: Float[Tensor, "batch size"],
    definite: Bool[Tensor, " batch"],
    *,
    centred: bool,
    wide: bool,
) -> Ends:
    if wide:
        largest, smallest = _project(block, largest, centred), _project(block, smallest, centred)
    return block.stretch(largest, centred, wide), torch.where(definite, block.stretch(smallest, centred, wide), 0.0)


def _fill(
    block: Block, gram: Float[Tensor, "batch tokens tokens"], centred: bool
) -> Float[Tensor, "batch tokens tokens"]:
    """Directions of the tokens that do not count, dropped ones and the removed mean, are given the mean eigenvalue: it
    is never an extreme one, and Cholesky sees a definite matrix. `_project` takes what is left of them out again."""
    level = gram.diagonal(dim1=-2, dim2=-1).sum(-1) / (block.kept - int(centred)).clamp(min=1)
    if block.masked:
        gram = gram + torch.diag_embed((1 - block.keep) * level[:, None])
    if centred:
        one = block.keep / block.kept.clamp(min=1).sqrt()[:, None]
        gram = torch.baddbmm(gram, (level[:, None] * one)[..., None], one[:, None])
    return gram


def _project(block: Block, vector: Float[Tensor, "batch tokens"], centred: bool) -> Float[Tensor, "batch tokens"]:
    if block.masked:
        vector = vector * block.keep
    if centred:
        vector = vector - block.keep * (vector.sum(-1) / block.kept.clamp(min=1))[:, None]
    length: Tensor = torch.linalg.vector_norm(vector, dim=-1, keepdim=True)
    return vector / length.clamp(min=1e-30)
