"""Wrong inputs get a sentence with their numbers, before any kernel fails."""

from __future__ import annotations

import torch
from torch import Tensor

from manyheads.arch.errors import UserError


def check_image(images: Tensor, size: int, channels: int) -> None:
    """Refuse images of another shape than the model was built for."""
    if images.ndim != 4 or tuple(images.shape[1:]) != (channels, size, size):
        got = "x".join(map(str, images.shape))
        raise UserError(f"images are {got}; this model takes batch x {channels} x {size} x {size}. Resize the images, or "
                        "build the model for that size (positions interpolate when weights are loaded)")


def check_ids(ids: Tensor, vocab: int, limit: int | None) -> None:
    """Refuse token ids of a wrong shape or length, and, outside compiled graphs, out of the vocabulary."""
    if ids.ndim != 2 or ids.dtype not in (torch.int64, torch.int32):
        raise UserError(f"token ids are {ids.dtype} of shape {tuple(ids.shape)}; this model takes whole numbers, "
                        "batch x tokens")
    if limit is not None and ids.shape[1] > limit:
        raise UserError(f"{ids.shape[1]} tokens; this model has positions for {limit}. Shorten the sequence, or build it "
                        f"with tokens={ids.shape[1]}")
    if ids.device.type == "meta" or torch.compiler.is_compiling() or ids.numel() == 0:
        return
    if ids.device.type == "cuda" and torch.cuda.is_current_stream_capturing():
        return
    low, high = ids.aminmax()
    if int(low) < 0 or int(high) >= vocab:
        raise UserError(f"token ids run from {int(low)} to {int(high)}; this model's vocabulary is 0 to {vocab - 1}")
