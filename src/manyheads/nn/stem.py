"""A convolutional stem: an image becomes tokens through a few strided convolutions."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn

from manyheads.spec import parts
from manyheads.spec.check import conv_side

from .inputs import check_image
from .mlp import ACTS
from .norm import make_norm
from .stream import into_stream


class StemConv(nn.Module):
    """Convolution, norm, activation; padded by (kernel-1)//2 unless its stride equals its kernel."""

    group = "embedding"

    def __init__(self, channels: int, spec: parts.Conv) -> None:
        super().__init__()
        self.spec = spec
        pad = 0 if spec.stride == spec.kernel else (spec.kernel - 1) // 2
        self.conv = nn.Conv2d(channels, spec.out, spec.kernel, spec.stride, pad, bias=spec.bias)
        self.norm = make_norm(spec.norm, spec.out)

    def forward(self, x: Float[Tensor, "batch channels height width"]) -> Float[Tensor, "batch out h w"]:
        x = self.conv(x)
        if self.spec.norm is not None and self.spec.norm.kind == "batch":
            x = self.norm(x)
        elif self.spec.norm is not None:
            x = self.norm(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)  # the other norms work on the last dimension
        return x if self.spec.act is None else ACTS[self.spec.act](x)


class FourierPositions(nn.Module):
    """XCiT's positions: sines and cosines of row and column, `size` channels each, projected to the width.

    Rows and columns run from 1/grid to 1 turn, so another grid needs no other weights. The table is made in float32,
    with the original's operations in the original's order, whatever the precision of the model."""

    group = "embedding"
    table: Tensor

    def __init__(self, width: int, size: int, grid: int) -> None:
        super().__init__()
        self.size, self.grid = size, grid
        self.proj = nn.Linear(2 * size, width)
        self.register_buffer("table", torch.empty(grid**2, 2 * size), persistent=False)
        self.reset()

    def reset(self) -> None:
        """Fill the table (also after materialising from the meta device)."""
        if self.table.device.type == "meta":
            return
        steps = torch.arange(1, self.grid + 1, dtype=torch.float32, device="cpu")
        turns = steps / (steps[-1] + 1e-6) * (2 * math.pi)
        pairs = torch.arange(self.size, dtype=torch.float32, device="cpu").div(2, rounding_mode="floor")
        angles = turns[:, None] / 10_000 ** (2 * pairs / self.size)
        waves = torch.stack((angles[:, 0::2].sin(), angles[:, 1::2].cos()), dim=2).flatten(1)
        rows = waves[:, None].expand(-1, self.grid, -1)
        columns = waves[None].expand(self.grid, -1, -1)
        self.table.copy_(torch.cat((rows, columns), dim=2).flatten(0, 1))

    def forward(self) -> Float[Tensor, "tokens width"]:
        return self.proj(self.table)


class ConvStem(nn.Module):
    """Convolutions, then one token per place of the grid, row by row; with `fourier` > 0, positions are added."""

    group = "embedding"

    def __init__(self, spec: parts.ConvStem) -> None:
        super().__init__()
        self.spec = spec
        self.half_stream = False
        channels = (spec.channels, *(conv.out for conv in spec.convs))
        self.convs = nn.ModuleList(StemConv(c, conv) for c, conv in zip(channels, spec.convs, strict=False))
        grid = spec.image
        for conv in spec.convs:
            grid = conv_side(grid, conv)
        self.positions = FourierPositions(channels[-1], spec.fourier, grid) if spec.fourier else None

    def forward(self, images: Float[Tensor, "batch channels height width"]) -> Float[Tensor, "batch tokens width"]:
        check_image(images, self.spec.image, self.spec.channels)
        x = images
        for conv in self.convs:
            x = conv(x)
        x = x.flatten(2).transpose(1, 2)
        return into_stream(x if self.positions is None else x + self.positions(), self.half_stream)
