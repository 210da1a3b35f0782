"""DaViT (2204.03645): four stages of window layers and channel layers in turn, each with depthwise positions."""

from __future__ import annotations

from itertools import islice

from jaxtyping import Float
from torch import Tensor, nn

from manyheads.nn.attention_variants import ChannelAttention, WindowAttention
from manyheads.nn.block import Block, StageBlocks
from manyheads.nn.convolution import ConvEmbed, DepthwiseBlock, DownsampleBlock
from manyheads.nn.heads import ClassifyHead
from manyheads.nn.residual import Branch, MlpBlock, rising
from manyheads.spec.arch import Arch, layers
from manyheads.spec.parts import (
    Attention,
    Channel,
    Classify,
    ConvStem,
    Depthwise,
    Downsample,
    Layer,
    Mlp,
    Stage,
    Window,
)
from manyheads.spec.recipe import Rates

from .build import linears


class DavitBlock(Block):
    """Depthwise positions, attention over a window's tokens or over channels, positions again, MLP: four branches."""

    def __init__(self, width: int, tokens: int, layer: Layer, rates: Rates, path: float) -> None:
        super().__init__()
        before_attention, attention, before_mlp, mlp = layer
        assert isinstance(before_attention.op, Depthwise)
        assert isinstance(attention.op, Attention)
        assert isinstance(before_mlp.op, Depthwise)
        assert isinstance(mlp.op, Mlp)
        mixer: nn.Module
        match attention.op.mix:
            case Window():
                mixer = WindowAttention(width, attention.op, tokens, rates)
            case Channel():
                mixer = ChannelAttention(width, attention.op, rates)
        self.before_attention = Branch(width, before_attention, DepthwiseBlock(width, before_attention.op, tokens))
        self.attention = Branch(width, attention, mixer, path)
        self.before_mlp = Branch(width, before_mlp, DepthwiseBlock(width, before_mlp.op, tokens))
        self.mlp = Branch(width, mlp, MlpBlock(width, mlp.op, rates), path)

    def forward(self, x: Float[Tensor, "batch tokens width"]) -> Float[Tensor, "batch tokens width"]:
        """Tokens of a square grid, row by row."""
        return self.mlp(self.before_mlp(self.attention(self.before_attention(x))))


def stage_blocks(spec: Stage, before: Stage | None, rates: Rates, paths: list[float]) -> StageBlocks:
    """Down-sampling (but for the first stage), then the unit's blocks once for each of `paths`, a drop-path rate."""
    enter: nn.Module = nn.Identity()
    if isinstance(spec.enter, Downsample):
        assert before is not None
        enter = DownsampleBlock(before.width, spec.width, spec.enter, before.tokens, rates)
    blocks = [DavitBlock(spec.width, spec.tokens, layer, rates, path) for path in paths for layer in layers(spec)]
    return StageBlocks(spec, enter, nn.ModuleList(blocks))


class DaViT(nn.Module):
    """Stem, stages, classes. Drop path rises linearly with the units, a unit's two layers alike."""

    def __init__(self, arch: Arch, rates: Rates = Rates()) -> None:
        super().__init__()
        self.arch = arch
        assert isinstance(arch.embed, ConvStem)
        assert isinstance(arch.head, Classify)
        self.embed = ConvEmbed(arch.embed)
        paths = iter(rising(rates.path, sum(stage.depth for stage in arch.stages)))
        before = (None, *arch.stages)
        self.stages = nn.ModuleList(
            stage_blocks(stage, last, rates, list(islice(paths, stage.depth)))
            for stage, last in zip(arch.stages, before, strict=False)
        )
        self.head = ClassifyHead(arch.stages[-1].width, arch.head)

    def features(self, images: Float[Tensor, "batch channels rows columns"]) -> Float[Tensor, "batch tokens width"]:
        """Tokens of the last stage, before they are pooled."""
        x = self.embed(images)
        for stage in self.stages:
            x = stage(x)
        return x

    def forward(self, images: Float[Tensor, "batch channels rows columns"]) -> Float[Tensor, "batch classes"]:
        """Logits of the classes."""
        return self.head(self.features(images))

    def init(self) -> None:
        """timm's defaults: linear maps N(0, 0.02) truncated, biases 0; convolutions as PyTorch starts them."""
        linears(self, std=0.02)
