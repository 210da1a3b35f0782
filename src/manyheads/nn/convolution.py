"""Convolutions: the stem that makes tokens of an image, down-sampling, and mixing of neighbouring tokens."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from manyheads.spec import parts
from manyheads.spec.arch import side
from manyheads.spec.arch_rules import conv_side
from manyheads.spec.parts import Depthwise, Downsample, LocalPatch, Norm
from manyheads.spec.recipe import Rates

from . import Part
from .embed import Embedding
from .inputs import check_image
from .positions import FourierPositions
from .residual import ACTS, make_norm

torch.fx.wrap("check_image")  # torch.fx calls it whole, since it decides by the sizes of its tensors


def as_image(x: Float[Tensor, "batch tokens width"], grid: int) -> Float[Tensor, "batch width grid grid"]:
    """Tokens of a square grid, row by row, as an image."""
    return x.transpose(1, 2).unflatten(-1, (grid, grid))


def as_tokens(image: Float[Tensor, "batch width rows columns"]) -> Float[Tensor, "batch tokens width"]:
    """The pixels of an image as tokens, row by row."""
    return image.flatten(2).transpose(1, 2)


class StemConv(Part):
    """Convolution, norm, activation; padded by (kernel-1)//2 unless its stride equals its kernel."""

    group = "embedding"

    def __init__(self, channels: int, spec: parts.Conv) -> None:
        super().__init__()
        self.spec = spec
        pad = 0 if spec.stride == spec.kernel else (spec.kernel - 1) // 2
        self.conv = nn.Conv2d(channels, spec.out, spec.kernel, spec.stride, pad, bias=spec.bias)
        self.norm = make_norm(spec.norm, spec.out)

    def forward(self, x: Float[Tensor, "batch channels rows columns"]) -> Float[Tensor, "batch out h w"]:
        x = self.conv(x)
        if self.spec.norm is not None and self.spec.norm.kind == "batch":
            x = self.norm(x)
        elif self.spec.norm is not None:
            x = self.norm(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)  # the other norms work on the last dimension
        return x if self.spec.act is None else ACTS[self.spec.act](x)


class ConvEmbed(Embedding):
    """A stem of strided convolutions, then one token per place of the grid, row by row; with `fourier` > 0, positions
    are added."""

    def __init__(self, spec: parts.ConvStem) -> None:
        super().__init__()
        self.spec = spec
        channels = (spec.channels, *(conv.out for conv in spec.convs))
        self.convs = nn.ModuleList(StemConv(c, conv) for c, conv in zip(channels, spec.convs, strict=False))
        grid = spec.image
        for conv in spec.convs:
            grid = conv_side(grid, conv)
        self.positions = FourierPositions(channels[-1], spec.fourier, grid) if spec.fourier else None

    def forward(self, images: Float[Tensor, "batch channels rows columns"]) -> Float[Tensor, "batch tokens width"]:
        check_image(images, self.spec.image, self.spec.channels)
        x = images
        for conv in self.convs:
            x = conv(x)
        x = as_tokens(x)
        return self.into_stream(x if self.positions is None else x + self.positions())


class LocalConv(Part, nn.Conv2d):
    """A convolution that counts to the group `local`."""

    group = "local"


class DownsampleBlock(Part):
    """Enters a stage on a coarser grid: positions + conv(norm(x)), where the stride of the convolution is its kernel.
    Norm and positions are there as the record says, dropout where positions are. `tokens` are those of the grid before.

    A grid that the kernel does not divide is padded with zeros at its end, after the norm: ceil(grid / kernel) tokens a
    side, as the record counts and as DaViT does. timm's VOLO would drop the last row and column of such a grid; none of
    its published sizes has one."""

    group = "embedding"  # of the positions, the only parameter it owns itself

    def __init__(self, before: int, width: int, spec: Downsample, tokens: int, rates: Rates = Rates()) -> None:
        super().__init__()
        self.spec = spec
        self.grid = side(tokens)
        self.norm = make_norm(spec.norm, before)
        self.conv = LocalConv(before, width, spec.kernel, stride=spec.kernel)
        rows = (-(-self.grid // spec.kernel)) ** 2
        self.positions = nn.Parameter(torch.zeros(rows, width)) if spec.positions else None
        self.drop = nn.Dropout(rates.dropout if spec.positions else 0.0)

    def forward(self, x: Float[Tensor, "batch tokens before"]) -> Float[Tensor, "batch fewer width"]:
        """Tokens of a square grid, row by row, to tokens of a smaller one."""
        pad = -self.grid % self.spec.kernel
        x = as_image(self.norm(x), self.grid)
        x = as_tokens(self.conv(F.pad(x, (0, pad, 0, pad)) if pad else x))
        return x if self.positions is None else self.drop(x + self.positions)


def depthwise(width: int, kernel: int) -> nn.Conv2d:
    """A convolution of every channel with itself that keeps the grid's size."""
    return nn.Conv2d(width, width, kernel, padding=kernel // 2, groups=width)


class DepthwiseBlock(Part):
    """One depthwise convolution (DaViT's conditional positions)."""

    group = "local"

    def __init__(self, width: int, spec: Depthwise, tokens: int) -> None:
        super().__init__()
        self.spec = spec
        self.grid = side(tokens)
        self.conv = depthwise(width, spec.kernel)

    def forward(self, x: Float[Tensor, "batch tokens width"]) -> Float[Tensor, "batch tokens width"]:
        return as_tokens(self.conv(as_image(x, self.grid)))


class LocalPatchBlock(Part):
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
        return as_tokens(self.second(self.norm(F.gelu(self.first(as_image(x, self.grid))))))
