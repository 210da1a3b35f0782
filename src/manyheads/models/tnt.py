"""TNT (2103.00112): a small transformer over the pixels of every patch, inside one over the patches."""

from __future__ import annotations

from math import isqrt

import torch
from jaxtyping import Float
from torch import Tensor, nn

from manyheads.nn import Part
from manyheads.nn.block import Block, branches
from manyheads.nn.heads import ClassifyHead
from manyheads.nn.inputs import check_image
from manyheads.nn.residual import make_norm, rising
from manyheads.spec.arch import Arch
from manyheads.spec.parts import Classify, Nested, Pixel
from manyheads.spec.recipe import Rates

from .build import linears, truncated

torch.fx.wrap("check_image")  # torch.fx calls it whole, since it decides by the sizes of its tensors

Pixels = Float[Tensor, "batch_and_patches pixels pixel_width"]
Patches = Float[Tensor, "batch tokens width"]


class PixelEmbed(Part):
    """Pixels of every patch by one strided convolution; a patch is its pixels, normed, projected and normed again.

    The convolution sees one patch at a time, its border padded with zeros; the `legacy` one slides over the image."""

    group = "embedding"

    def __init__(self, width: int, tokens: int, nested: Nested, spec: Pixel) -> None:
        super().__init__()
        self.spec = spec
        self.side = isqrt(nested.tokens)
        self.conv = nn.Conv2d(spec.channels, nested.width, spec.kernel, spec.stride, (spec.kernel - 1) // 2)
        self.pixel_positions = nn.Parameter(torch.zeros(nested.width, self.side, self.side))
        self.pixel_norm = make_norm(spec.norm, nested.width * nested.tokens)
        self.proj = nn.Linear(nested.width * nested.tokens, width)
        self.norm = make_norm(spec.norm, width)
        self.class_token = nn.Parameter(torch.zeros(1, width))
        self.positions = nn.Parameter(torch.zeros(tokens, width))

    def forward(self, images: Float[Tensor, "batch channels rows columns"]) -> tuple[Pixels, Patches]:
        spec, grid = self.spec, self.spec.image // self.spec.patch
        check_image(images, spec.image, spec.channels)
        x = cut(self.conv(images), grid, self.side) if spec.legacy else self.conv(cut(images, grid, spec.patch))
        pixels = (x + self.pixel_positions).flatten(2).transpose(1, 2)
        patches = self.norm(self.proj(self.pixel_norm(pixels.reshape(-1, grid * grid, self.proj.in_features))))
        front = self.class_token.expand(patches.shape[0], -1, -1)
        return pixels, torch.cat((front, patches), dim=1) + self.positions


def cut(x: Float[Tensor, "batch channels rows columns"], grid: int, size: int) -> Float[Tensor, "n channels size size"]:
    """An image as its grid x grid patches of size x size, one after another, row by row."""
    x = x.reshape(-1, x.shape[1], grid, size, grid, size).permute(0, 2, 4, 1, 3, 5)
    return x.reshape(-1, x.shape[3], size, size)


class Fusion(Part):
    """Adds the pixels of a patch, flattened, to the patch; the class token has none."""

    group = "local"

    def __init__(self, width: int, nested: Nested) -> None:
        super().__init__()
        self.spec = nested.fuse
        flat, legacy = nested.width * nested.tokens, nested.fuse.legacy
        self.pixel_norm = make_norm(nested.fuse.norm, nested.width if legacy else flat)
        self.proj = nn.Linear(flat, width, bias=legacy)
        self.norm = make_norm(None if legacy else nested.fuse.norm, width)

    def forward(self, pixels: Pixels, patches: Patches) -> Patches:
        shape = (patches.shape[0], patches.shape[1] - 1, self.proj.in_features)
        flat = self.pixel_norm(pixels).reshape(shape) if self.spec.legacy else self.pixel_norm(pixels.reshape(shape))
        return torch.cat((patches[:, :1], patches[:, 1:] + self.norm(self.proj(flat))), dim=1)


class TntBlock(Block):
    """Attention and MLP over the pixels of each patch, fusion, then attention and MLP over the patches."""

    stream = 1

    def __init__(self, width: int, nested: Nested, rates: Rates, path: float) -> None:
        super().__init__()
        self.pixel_attention, self.pixel_mlp = branches(nested.width, nested.inner, rates, path)
        self.fuse = Fusion(width, nested)
        self.attention, self.mlp = branches(width, nested.outer, rates, path)

    def forward(self, pixels: Pixels, patches: Patches) -> tuple[Pixels, Patches]:
        pixels = self.pixel_mlp(self.pixel_attention(pixels))
        patches = self.fuse(pixels, patches)
        return pixels, self.mlp(self.attention(patches))


class TNT(nn.Module):
    """Pixels and patches, blocks, classes. Drop path rises linearly with depth, for pixels and patches alike."""

    def __init__(self, arch: Arch, rates: Rates = Rates()) -> None:
        super().__init__()
        self.arch = arch
        first = arch.stages[0]
        nested = [item for stage in arch.stages for item in stage.depth * stage.unit if isinstance(item, Nested)]
        assert isinstance(arch.embed, Pixel)
        assert isinstance(arch.head, Classify)
        self.embed = PixelEmbed(first.width, first.tokens, nested[0], arch.embed)
        self.drop = nn.Dropout(rates.dropout)
        paths = rising(rates.path, len(nested))
        blocks = (TntBlock(first.width, item, rates, path) for item, path in zip(nested, paths, strict=True))
        self.blocks = nn.ModuleList(blocks)
        self.head = ClassifyHead(first.width, arch.head)

    def features(self, images: Float[Tensor, "batch channels rows columns"]) -> Patches:
        """Class and patch tokens after the last block, before the final norm."""
        pixels, patches = self.embed(images)
        patches = self.drop(patches)
        for block in self.blocks:
            pixels, patches = block(pixels, patches)
        return patches

    def forward(self, images: Float[Tensor, "batch channels rows columns"]) -> Float[Tensor, "batch classes"]:
        return self.head(self.features(images))

    def init(self) -> None:
        """timm's defaults: linear maps, class token and positions N(0, 0.02) truncated, biases 0; the convolution
        uniform +-1/sqrt(fan in)."""
        linears(self, std=0.02)
        for tensor in (self.embed.class_token, self.embed.positions, self.embed.pixel_positions):
            truncated(tensor, 0.02)
        self.embed.conv.reset_parameters()
