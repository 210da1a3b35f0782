"""The residual stream's precision under autocast: float32 as PyTorch leaves it, or half, which moves half the bytes."""

from __future__ import annotations

import torch
from torch import Tensor, nn


def into_stream(x: Tensor, half: bool) -> Tensor:
    """Tokens as they enter the residual stream: with `half`, in autocast's precision where autocast is on.

    Branches compute in that precision anyway, so the stream stays in it; norms still compute in float32."""
    kind = x.device.type
    return x.to(torch.get_autocast_dtype(kind)) if half and torch.is_autocast_enabled(kind) else x


def half_stream(model: nn.Module, on: bool = True) -> nn.Module:
    """Keep the residual stream of `model` in half precision under autocast, or no longer."""
    for part in model.modules():
        if hasattr(part, "half_stream"):
            part.half_stream = on
    return model
