"""ViT (2010.11929) and DeiT (2012.12877), plain and distilled; the same model in the dialects of DINOv2 (2304.07193) and
of the image towers of CLIP (2103.00020) and SigLIP (2303.15343)."""

from __future__ import annotations

from jaxtyping import Bool, Float
from torch import Tensor, nn

from manyheads.nn.block import blocks
from manyheads.nn.embed import PatchEmbed
from manyheads.nn.heads import ClassifyHead, FeaturesHead
from manyheads.spec.arch import Arch
from manyheads.spec.parts import Classify, Features, Patch
from manyheads.spec.recipe import Rates

from . import towers
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
        if isinstance(arch.head, Classify):
            self.head = ClassifyHead(width, arch.head, prefix=arch.embed.prefix)
        else:
            self.head = FeaturesHead(width, arch.head)

    def features(
        self, images: Float[Tensor, "batch channels rows columns"], hidden: Bool[Tensor, "batch patches"] | None = None
    ) -> Float[Tensor, "batch tokens width"]:
        """Tokens after the last block, before the final norm. The mask token stands in place of the `hidden` patches."""
        x = self.drop(self.embed(images, hidden))
        for block in self.blocks:
            x = block(x)
        return x

    def forward(self, images: Float[Tensor, "batch channels rows columns"]) -> Float[Tensor, "... outputs"]:
        """Logits of the classes: batch x classes, or 2 x batch x classes from a distilled model in training. From a model
        without a classifier, its tokens."""
        return self.head(self.features(images))

    def init(self) -> None:
        """timm's defaults: linear maps N(0, 0.02) truncated, biases 0, class token and registers N(0, 1e-6), patches as a
        convolution. DINOv2 draws patches and class token as linear maps; CLIP and SigLIP are in `towers`."""
        linears(self, std=0.02)
        embed, dialect = self.embed, self.arch.dialect
        truncated(embed.positions, 0.02)
        for tokens in (embed.class_tokens, embed.registers):
            if tokens is not None:
                nn.init.normal_(tokens, std=1e-6)
        if embed.mask_token is not None:
            nn.init.zeros_(embed.mask_token)
        match dialect:
            case "":
                embed.proj.reset_parameters()  # uniform +-1/sqrt(fan in), what a convolution starts from
            case "dinov2" if embed.class_tokens is not None:
                truncated(embed.class_tokens, 0.02)
            case "clip":
                towers.clip(self)
            case "siglip":
                towers.siglip(self)
