"""Checks of a model's inputs: what is wrong is refused in a sentence with its numbers, before any kernel fails."""

from __future__ import annotations

import torch
from jaxtyping import Bool
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor

from manyheads.spec.errors import UserError

WHOLE = (torch.int64, torch.int32)


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


def check_types(types: Tensor, ids: Tensor, kinds: int) -> None:
    """Refuse segment types that do not match the token ids one by one, or that the model does not know."""
    if not kinds:
        raise UserError("segment types were given, and this model has none; leave them out")
    if types.shape != ids.shape or types.dtype not in WHOLE:
        raise UserError(
            f"segment types are {types.dtype} of shape {tuple(types.shape)}; for these token ids, write "
            f"whole numbers of shape {tuple(ids.shape)}"
        )
    _check_range(types, kinds, "segment types", "this model knows")


def check_mask(mask: Tensor, ids: Tensor) -> None:
    """Refuse a padding mask that is not boolean, of another shape than the ids, or that hides a whole sequence."""
    if mask.dtype != torch.bool or mask.shape != ids.shape:
        raise UserError(
            f"the padding mask is {mask.dtype} of shape {tuple(mask.shape)}; for these token ids, write one that is "
            f"boolean (mask.bool()) and of shape {tuple(ids.shape)}, True for a real token"
        )
    if readable(mask) and not bool(mask.any(dim=1).all()):
        empty = (~mask.any(dim=1)).nonzero()[0].item()
        raise UserError(
            f"the padding mask hides all {mask.shape[1]} tokens of sequence {empty}; a sequence has at least "
            "one real token"
        )


def key_mask(mask: Bool[Tensor, "batch tokens"] | None, ids: Tensor) -> Bool[Tensor, "batch 1 1 tokens"] | None:
    """A padding mask, True for a real token, as softmax attention takes it: which keys all queries see."""
    if mask is None:
        return None
    check_mask(mask, ids)
    return mask[:, None, None]


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
