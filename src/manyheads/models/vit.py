"""ViT (2010.11929) and DeiT (2012.12877), plain and distilled."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor, nn

from manyheads.nn.block import blocks
from manyheads.nn.embed import PatchEmbed
from manyheads.nn.heads import ClassifyHead, FeaturesHead
from manyheads.spec.arch import Arch
from manyheads.spec.parts import Classify, Features, Patch
from manyheads.spec.recipe import Rates

from .build import linears, truncated


class ViT(nn.Module):
    """Patches, blocks, classes. Drop path rises linearly with depth."""

    def __init__(self, arch: Arch, rates: Rates = Rates()) -> None:
        super().__init__()
        self.arch = arch
        width = arch.stages[0].width
        assert isinstance(arch.embed, Patch)
        assert isinstance(arch.head, Classify | Features)
        self.embed = PatchEmbed(width, arch.embed)
        self.drop = nn.Dropout(rates.dropout)
        self.blocks = blocks(arch, rates)
        self.head: ClassifyHead | FeaturesHead
        self.head = (
            ClassifyHead(width, arch.head) if isinstance(arch.head, Classify) else FeaturesHead(width, arch.head)
        )

    def features(self, images: Float[Tensor, "batch channels rows columns"]) -> Float[Tensor, "batch tokens width"]:
        """Tokens after the last block, before the final norm."""
        x = self.drop(self.embed(images))
        for block in self.blocks:
            x = block(x)
        return x

    def forward(self, images: Float[Tensor, "batch channels rows columns"]) -> Float[Tensor, "... columns_out"]:
        """Logits of the classes: batch x classes, or 2 x batch x classes from a distilled model in training. From a model
        without a classifier, its tokens."""
        return self.head(self.features(images))

    def init(self) -> None:
        """timm's defaults: linear maps N(0, 0.02) truncated, biases 0, class token N(0, 1e-6), patches as a
        convolution."""
        linears(self, std=0.02)
        truncated(self.embed.positions, 0.02)
        if self.embed.class_tokens is not None:
            nn.init.normal_(self.embed.class_tokens, std=1e-6)
        self.embed.proj.reset_parameters()  # uniform +-1/sqrt(fan in), what a convolution starts from
