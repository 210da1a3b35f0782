"""Convolutions between neighbouring tokens of a square grid."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from manyheads.spec.arch import side
from manyheads.spec.parts import Depthwise, LocalPatch, Norm

from .norm import make_norm


def depthwise(width: int, kernel: int) -> nn.Conv2d:
    """A convolution of every channel with itself that keeps the grid's size."""
    return nn.Conv2d(width, width, kernel, padding=kernel // 2, groups=width)


class DepthwiseBlock(nn.Module):
    """One depthwise convolution (DaViT's conditional positions)."""

    group = "local"

    def __init__(self, width: int, spec: Depthwise, tokens: int) -> None:
        super().__init__()
        self.spec = spec
        self.grid = side(tokens)
        self.conv = depthwise(width, spec.kernel)

    def forward(self, x: Float[Tensor, "batch tokens width"]) -> Float[Tensor, "batch tokens width"]:
        image = x.transpose(1, 2).unflatten(2, (self.grid, self.grid))
        return self.conv(image).flatten(2).transpose(1, 2)


class LocalPatchBlock(nn.Module):
    """Depthwise convolution, GELU, batch norm, depthwise convolution (XCiT)."""

    group = "local"

    def __init__(self, width: int, spec: LocalPatch, tokens: int) -> None:
        super().__init__()
        self.spec = spec
        self.grid = side(tokens)
        self.first = depthwise(width, spec.kernel)
        self.norm = make_norm(Norm("batch", 1e-5), width)
        self.second = depthwise(width, spec.kernel)

    def forward(self, x: Float[Tensor, "batch tokens width"]) -> Float[Tensor, "batch tokens width"]:
        image = x.transpose(1, 2).unflatten(2, (self.grid, self.grid))
        image = self.second(self.norm(F.gelu(self.first(image))))
        return image.flatten(2).transpose(1, 2)
