"""Checks of a model's inputs: what is wrong is refused in a sentence with its numbers, before any kernel fails."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor

from manyheads.spec.errors import UserError

WHOLE = (torch.int64, torch.int32)
# What language models read: ids of tokens, or the vectors that the vocabulary's table would give for them.
Ids = Int[Tensor, "batch tokens"] | Float[Tensor, "batch tokens width"]
# A padding mask, True for a real token; or which keys every query sees: True where it may, or a number to add to the
# score. The second says everything, so that a causal model adds no triangle to it.
Mask = Bool[Tensor, "batch tokens"] | Shaped[Tensor, "#batch #heads tokens keys"]


def readable(values: Tensor) -> bool:
    """Whether the numbers of `values` can be read now: they cannot on meta, in a traced graph or in a CUDA capture."""
    if values.device.type == "meta" or torch.compiler.is_compiling() or isinstance(values, FakeTensor):
        return False
    return not (values.device.type == "cuda" and torch.cuda.is_current_stream_capturing())


def check_image(images: Tensor, size: int, channels: int) -> None:
    """Refuse images of another shape than the model was built for."""
    if images.ndim != 4 or tuple(images.shape[1:]) != (channels, size, size):
        raise UserError(
            f"images are {'x'.join(map(str, images.shape))}; this model takes batch x {channels} x {size} x {size}. "
            "Resize the images, or build the model for that size (positions interpolate when weights are loaded)"
        )


def check_ids(ids: Tensor, vocab: int, limit: int) -> None:
    """Refuse token ids of a wrong shape or length, and, where they can be read, out of the vocabulary."""
    if ids.ndim != 2 or ids.dtype not in WHOLE:
        raise UserError(
            f"token ids are {ids.dtype} of shape {tuple(ids.shape)}; this model takes whole numbers, batch x tokens"
        )
    if ids.shape[1] > limit:
        raise UserError(
            f"{ids.shape[1]} tokens; this model has positions for {limit}. Shorten the sequence, or build it "
            f"with tokens={ids.shape[1]}"
        )
    _check_range(ids, vocab, "token ids", "this model's vocabulary is")


def check_vectors(vectors: Tensor, width: int, limit: int) -> None:
    """Refuse vectors in place of token ids that are of another width than the model's, or too many."""
    if vectors.shape[2] != width:
        raise UserError(
            f"the vectors given in place of token ids are of shape {tuple(vectors.shape)}; this model takes batch x "
            f"tokens x {width}"
        )
    if vectors.shape[1] > limit:
        raise UserError(f"{vectors.shape[1]} tokens; this model has positions for {limit}. Shorten the sequence")


def check_places(places: Tensor, ids: Tensor, limit: int) -> None:
    """Refuse positions that do not match the token ids one by one (or one row for all), or that the model lacks."""
    rows, tokens = ids.shape[:2]
    if places.ndim != 2 or tuple(places.shape) not in ((rows, tokens), (1, tokens)) or places.dtype not in WHOLE:
        raise UserError(
            f"positions are {places.dtype} of shape {tuple(places.shape)}; for these tokens, write whole numbers of "
            f"shape {(rows, tokens)}"
        )
    _check_range(places, limit, "positions", "this model has positions")


def check_types(types: Tensor, ids: Tensor, kinds: int) -> None:
    """Refuse segment types that do not match the token ids one by one, or that the model does not know."""
    if not kinds:
        raise UserError("segment types were given, and this model has none; leave them out")
    if types.shape != ids.shape[:2] or types.dtype not in WHOLE:
        raise UserError(
            f"segment types are {types.dtype} of shape {tuple(types.shape)}; for these token ids, write "
            f"whole numbers of shape {tuple(ids.shape[:2])}"
        )
    _check_range(types, kinds, "segment types", "this model knows")


def check_mask(mask: Tensor, ids: Tensor) -> None:
    """Refuse a padding mask that is not boolean, of another shape than the ids, or that hides a whole sequence."""
    if mask.dtype != torch.bool or mask.shape != ids.shape[:2]:
        raise UserError(
            f"the padding mask is {mask.dtype} of shape {tuple(mask.shape)}; for these token ids, write one that is "
            f"boolean (mask.bool()) and of shape {tuple(ids.shape[:2])}, True for a real token"
        )
    if readable(mask) and not bool(mask.any(dim=1).all()):
        empty = (~mask.any(dim=1)).nonzero()[0].item()
        raise UserError(
            f"the padding mask hides all {mask.shape[1]} tokens of sequence {empty}; a sequence has at least "
            "one real token"
        )


def key_mask(mask: Mask | None, ids: Tensor) -> Shaped[Tensor, "#batch #heads #tokens keys"] | None:
    """A mask as softmax attention takes it: which keys all queries see, or, from a mask of four dimensions, which keys
    each query sees."""
    if mask is None:
        return None
    if mask.ndim == 4:
        return pair_mask(mask, ids)
    check_mask(mask, ids)
    return mask[:, None, None]


def pair_mask(mask: Tensor, ids: Tensor) -> Tensor:
    """A mask of every query and key. A query that sees nothing, as padding may, sees everything: nothing reads its
    result, and NaN would spread from it."""
    rows, tokens = ids.shape[:2]
    fits = mask.ndim == 4 and mask.shape[0] in (1, rows) and mask.shape[2] == tokens and mask.shape[3] >= tokens
    if not fits or not (mask.dtype == torch.bool or mask.is_floating_point()):
        raise UserError(
            f"the attention mask is {mask.dtype} of shape {tuple(mask.shape)}; for these tokens, write one of shape "
            f"{(rows, 1, tokens, tokens)} that is boolean, True where a query sees a key, or that is added to the scores"
        )
    return mask | ~mask.any(dim=-1, keepdim=True) if mask.dtype == torch.bool else mask


def check_chosen(at: Tensor, batch: int, tokens: int) -> None:
    """Refuse positions to predict that are not whole numbers inside the sequence, as many for every sequence."""
    if at.ndim != 2 or at.shape[0] != batch or at.dtype not in WHOLE:
        raise UserError(
            f"chosen positions are {at.dtype} of shape {tuple(at.shape)}; write whole numbers, {batch} "
            "sequences x positions"
        )
    _check_range(at, tokens, "chosen positions", "these sequences have")


def _check_range(values: Tensor, top: int, what: str, whose: str) -> None:
    if not readable(values) or values.numel() == 0:
        return
    low, high = (int(end) for end in values.aminmax())
    if low < 0 or high >= top:
        raise UserError(f"{what} run from {low} to {high}; {whose} 0 to {top - 1}")
