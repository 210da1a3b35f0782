"""Norms, from their record. Parameters of these modules form the group `norm`."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from manyheads.spec.parts import Norm


class UnitNorm(nn.Module):
    """x s / |x| with one learned scalar s, in place of LayerNorm in the rank experiments."""

    def __init__(self, eps: float) -> None:
        super().__init__()
        self.eps = eps
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, x: Tensor) -> Tensor:
        return x * (self.scale / x.norm(dim=-1, keepdim=True).clamp_min(self.eps))


class RmsNorm(nn.RMSNorm):
    """RMS norm in its weight's precision: a half-precision residual stream would leave the fused kernel otherwise."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.to(self.weight.dtype))


def make_norm(norm: Norm | None, width: int) -> nn.Module:
    """The module a `Norm` describes, over the last dimension (`batch`: over channels of an image); None: identity."""
    if norm is None:
        return nn.Identity()
    module: nn.Module
    match norm.kind:
        case "layer":
            module = nn.LayerNorm(width, eps=norm.eps)
        case "rms":
            module = RmsNorm(width, eps=norm.eps)
        case "batch":
            module = nn.BatchNorm2d(width, eps=norm.eps)
        case "unit":
            module = UnitNorm(norm.eps)
    module.group = "norm"
    return module
