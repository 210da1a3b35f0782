"""The encoder of the rank experiments (2407.16153): points in, for each the nearest of the others out.

PyTorch's post-norm TransformerEncoderLayer with ReLU, its LayerNorm replaced by x s / |x|, without any projection of
inputs or outputs. Where the original averages several attentions, one attention of their joint heads stands here, its
output divided by their number.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from manyheads.nn import Part
from manyheads.nn.attention import SoftmaxAttention
from manyheads.nn.block import all_layers, blocks
from manyheads.nn.residual import MlpBlock, UnitNorm
from manyheads.spec.arch import Arch
from manyheads.spec.errors import UserError
from manyheads.spec.parts import Coordinates, Layer, Points
from manyheads.spec.recipe import Rates


class PointsEmbed(Part):
    """Points as they are; learned positions as further coordinates (`concat`), added to them (`add`), or none."""

    group = "embedding"

    def __init__(self, width: int, spec: Points, tokens: int) -> None:
        super().__init__()
        self.spec, self.tokens = spec, tokens
        columns = {"none": 0, "concat": width - spec.dim, "add": width}[spec.positions]
        self.positions = nn.Parameter(torch.empty(tokens, columns)) if columns else None

    def forward(self, points: Float[Tensor, "batch tokens dim"]) -> Float[Tensor, "batch tokens width"]:
        tokens, dim = points.shape[-2:]
        if points.ndim != 3 or dim != self.spec.dim or (self.positions is not None and tokens != self.tokens):
            count = "any number of" if self.positions is None else self.tokens
            raise UserError(
                f"points are of shape {tuple(points.shape)}; this model takes batch x {count} points x "
                f"{self.spec.dim} coordinates"
            )
        if self.positions is None:
            return points
        if self.spec.positions == "add":
            return points + self.positions
        return torch.cat((points, self.positions.to(points.dtype).expand(points.shape[0], -1, -1)), dim=-1)


class NearestNeighborEncoder(nn.Module):
    """Points, blocks, and the first coordinates of every token as the answer. Also builds a `stack`, the layers read
    off a user's own module: points that are tokens of the layers' width."""

    def __init__(self, arch: Arch, rates: Rates = Rates()) -> None:
        super().__init__()
        self.arch = arch
        first, embed, head = arch.stages[0], arch.embed, arch.head
        assert isinstance(embed, Points)
        assert isinstance(head, Coordinates)
        self.embed = PointsEmbed(first.width, embed, first.tokens)
        self.layers = [layer for _, layer in all_layers(arch)]
        self.blocks = blocks(arch, rates)
        self.dim = head.dim

    def features(self, points: Float[Tensor, "batch tokens dim"]) -> Float[Tensor, "batch tokens width"]:
        """Tokens after the last block, all coordinates."""
        x = self.embed(points)
        for block in self.blocks:
            x = block(x)
        return x

    def forward(self, points: Float[Tensor, "batch tokens dim"]) -> Float[Tensor, "batch tokens dim"]:
        return self.features(points)[..., : self.dim]

    @torch.no_grad()
    def init(self) -> None:
        """As nn.MultiheadAttention and nn.TransformerEncoderLayer start, each averaged attention by its own width:
        queries, keys and values uniform to sqrt(6 / 4 width) with bias 0, output to 1/sqrt(width) with bias 0, MLP as
        nn.Linear. Layers of one shape start alike: nn.TransformerEncoder copies one layer. Concatenated positions are
        U(-1, 1); added ones N(-1, 1), as the original draws them."""
        for part in self.modules():
            if isinstance(part, SoftmaxAttention):
                width = part.qkv.in_features
                nn.init.uniform_(part.qkv.weight, -((1.5 / width) ** 0.5), (1.5 / width) ** 0.5)
                nn.init.uniform_(part.out.weight, -(width**-0.5), width**-0.5)
                for bias in (part.qkv.bias, part.out.bias):
                    if bias is not None:
                        nn.init.zeros_(bias)
            elif isinstance(part, MlpBlock):
                part.inp.reset_parameters()
                part.out.reset_parameters()
            elif isinstance(part, UnitNorm):
                nn.init.ones_(part.scale)
            elif isinstance(part, nn.LayerNorm | nn.RMSNorm):
                part.reset_parameters()
        first: dict[Layer, nn.Module] = {}
        for layer, block in zip(self.layers, self.blocks, strict=True):
            block.load_state_dict(first.setdefault(layer, block).state_dict())
        if self.embed.positions is not None:
            if self.embed.spec.positions == "concat":
                nn.init.uniform_(self.embed.positions, -1.0, 1.0)
            else:
                nn.init.normal_(self.embed.positions, -1.0, 1.0)
