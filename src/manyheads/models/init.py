"""Initial weights: the few patterns that the originals share."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from manyheads.nn.branch import Branch
from manyheads.nn.norm import UnitNorm


def truncated(tensor: Tensor, std: float) -> None:
    """Normal, cut at +-2 (not 2 std): what timm's trunc_normal_ does."""
    nn.init.trunc_normal_(tensor, std=std, a=-2.0, b=2.0)


def linears(module: nn.Module, std: float, *, cut: bool = True) -> None:
    """Every linear map N(0, std), truncated with `cut`; biases 0; norms at weight 1, bias 0; layer scales at their
    initial value; convolutions as PyTorch makes them."""
    for part in module.modules():
        if isinstance(part, nn.Linear):
            if cut:
                truncated(part.weight, std)
            else:
                nn.init.normal_(part.weight, std=std)
            if part.bias is not None:
                nn.init.zeros_(part.bias)
        elif isinstance(part, nn.LayerNorm | nn.RMSNorm | nn.BatchNorm2d | nn.Conv1d | nn.Conv2d):
            part.reset_parameters()
        elif isinstance(part, Branch) and part.scale is not None:
            nn.init.constant_(part.scale, part.spec.scaled)
        elif isinstance(part, UnitNorm):
            nn.init.ones_(part.scale)


@torch.no_grad()
def embeddings(module: nn.Module, std: float) -> None:
    """Every embedding table N(0, std)."""
    for part in module.modules():
        if isinstance(part, nn.Embedding):
            nn.init.normal_(part.weight, std=std)
