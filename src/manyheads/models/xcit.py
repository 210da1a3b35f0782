"""XCiT (2106.09681): cross-covariance layers over the patches, then class attention."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from manyheads.nn.attention_variants import ClassBlock, CrossCovarianceAttention
from manyheads.nn.block import Block
from manyheads.nn.convolution import ConvEmbed, LocalPatchBlock
from manyheads.nn.heads import ClassifyHead
from manyheads.nn.positions import FourierPositions
from manyheads.nn.residual import Branch, MlpBlock
from manyheads.spec.arch import Arch, layers
from manyheads.spec.parts import Attention, ClassAttention, Classify, ConvStem, Layer, LocalPatch, Mlp, Residual
from manyheads.spec.recipe import Rates

from .build import linears, truncated


class XcitBlock(Block):
    """Cross-covariance attention, local patch interaction, MLP, each a residual branch."""

    def __init__(self, width: int, tokens: int, layer: Layer, rates: Rates) -> None:
        super().__init__()
        attention, local, mlp = layer
        assert isinstance(attention.op, Attention)
        assert isinstance(local.op, LocalPatch)
        assert isinstance(mlp.op, Mlp)
        self.attention = Branch(width, attention, CrossCovarianceAttention(width, attention.op, rates), rates.path)
        self.local = Branch(width, local, LocalPatchBlock(width, local.op, tokens), rates.path)
        self.mlp = Branch(width, mlp, MlpBlock(width, mlp.op, rates), rates.path)

    def forward(self, x: Float[Tensor, "batch tokens width"]) -> Float[Tensor, "batch tokens width"]:
        return self.mlp(self.local(self.attention(x)))


class XcitClassBlock(ClassBlock):
    """Class attention, then an MLP on the class token alone.

    The published models were trained with a quirk, kept here: the patch tokens are not handed on untouched. Beside the
    class attention they add their own norm, scaled like a branch; beside the MLP all tokens are replaced by their norm,
    and the patch tokens doubled. So a branch's forward does not serve; its parts do."""

    def forward(self, x: Float[Tensor, "batch tokens width"]) -> Float[Tensor, "batch tokens width"]:
        y = self.attention.norm(x)
        x = x + self.attention.scaled(torch.cat((self.attention.op(y), y[:, 1:]), dim=1))
        x = self.mlp.norm(x)
        first, rest = x[:, :1], x[:, 1:]
        return torch.cat((first + self.mlp.scaled(self.mlp.op(first)), rest + rest), dim=1)


class XCiT(nn.Module):
    """Stem, blocks, class token, class blocks, classes. Drop path is constant over the blocks, and none after them."""

    def __init__(self, arch: Arch, rates: Rates = Rates()) -> None:
        super().__init__()
        self.arch = arch
        width = arch.stages[0].width
        assert isinstance(arch.embed, ConvStem)
        assert isinstance(arch.head, Classify)
        self.embed = ConvEmbed(arch.embed)
        self.drop = nn.Dropout(rates.dropout)
        self.blocks, self.class_blocks = nn.ModuleList(), nn.ModuleList()
        for stage in arch.stages:
            for layer in stage.depth * tuple(layers(stage)):
                if isinstance(layer[0].op, ClassAttention):
                    self.class_blocks.append(XcitClassBlock(width, layer, rates))
                else:
                    self.blocks.append(XcitBlock(width, stage.tokens, layer, rates))
        self.class_token = nn.Parameter(torch.zeros(1, width))
        self.head = ClassifyHead(width, arch.head)

    def features(self, images: Float[Tensor, "batch channels rows columns"]) -> Float[Tensor, "batch tokens width"]:
        """Class and patch tokens after the last class block, before the final norm."""
        x = self.drop(self.embed(images))
        for block in self.blocks:
            x = block(x)
        x = torch.cat((self.class_token.expand(x.shape[0], -1, -1), x), dim=1)
        for block in self.class_blocks:
            x = block(x)
        return x

    def forward(self, images: Float[Tensor, "batch channels rows columns"]) -> Float[Tensor, "batch classes"]:
        return self.head(self.features(images))

    def init(self) -> None:
        """timm's defaults: linear maps and class token N(0, 0.02) truncated, biases 0; convolutions, among them the
        projection of positions, uniform +-1/sqrt(fan in); temperatures 1; layer scales as the record says."""
        linears(self, std=0.02)
        truncated(self.class_token, 0.02)
        for part in self.modules():
            match part:
                case nn.Conv2d():
                    part.reset_parameters()
                case FourierPositions():
                    part.proj.reset_parameters()
                case CrossCovarianceAttention():
                    nn.init.ones_(part.temperature)
                case Branch(scale=nn.Parameter() as scale, spec=Residual(scaled=int() | float() as value)):
                    nn.init.constant_(scale, value)
