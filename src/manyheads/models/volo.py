"""VOLO (2106.13112): outlook attention on a fine grid, softmax attention on a coarse one, then class attention."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from manyheads.nn import Part
from manyheads.nn.attention_variants import ClassBlock, OutlookAttention
from manyheads.nn.block import StageBlocks, TransformerBlock
from manyheads.nn.convolution import ConvEmbed, DownsampleBlock
from manyheads.nn.heads import ClassifyHead
from manyheads.nn.residual import rising
from manyheads.spec.arch import Arch, attentions, layers
from manyheads.spec.parts import (
    Attention,
    ClassAttention,
    Classify,
    ClassToken,
    ConvStem,
    Downsample,
    Layer,
    Outlook,
    Stage,
)
from manyheads.spec.recipe import Rates

from .build import linears, truncated


class JoinClass(Part):
    """A learned class token joins in front of the tokens."""

    group = "embedding"

    def __init__(self, width: int) -> None:
        super().__init__()
        self.class_token = nn.Parameter(torch.zeros(1, width))

    def forward(self, x: Float[Tensor, "batch tokens width"]) -> Float[Tensor, "batch more width"]:
        """One token more."""
        return torch.cat((self.class_token.expand(x.shape[0], -1, -1), x), dim=1)


def enter(spec: Stage, before: Stage | None, rates: Rates) -> nn.Module:
    """What makes a stage's tokens of those before."""
    match spec.enter:
        case Downsample():
            assert before is not None
            return DownsampleBlock(before.width, spec.width, spec.enter, before.tokens, rates)
        case ClassToken():
            return JoinClass(spec.width)
        case _:
            return nn.Identity()


def block(spec: Stage, layer: Layer, rates: Rates, path: float) -> nn.Module:
    """Outlook, softmax or class attention, then MLP, each a residual branch."""
    op = layer[0].op
    if isinstance(op, ClassAttention):
        return ClassBlock(spec.width, layer, rates)
    assert isinstance(op, Attention)
    outlook = isinstance(op.mix, Outlook)
    mixer = OutlookAttention(spec.width, op, spec.tokens, rates) if outlook else None
    return TransformerBlock(spec.width, layer, rates, path, mixer=mixer)


def stage_blocks(spec: Stage, before: Stage | None, rates: Rates, paths: list[float]) -> StageBlocks:
    """A stage; `paths` has a drop-path rate for each of its blocks."""
    records = [layer for _ in range(spec.depth) for layer in layers(spec)]
    blocks = [block(spec, layer, rates, path) for layer, path in zip(records, paths, strict=True)]
    return StageBlocks(spec, enter(spec, before, rates), nn.ModuleList(blocks))


def paths(arch: Arch, rate: float) -> list[list[float]]:
    """Drop-path rates of every stage's blocks: linear in depth with class layers not counted; outlook layers count, but
    have none, as in the original."""
    depths = [stage.depth * len(stage.unit) for stage in arch.stages]
    mixes = [next((op.mix for op in attentions(stage)), None) for stage in arch.stages]
    rates = rising(rate, sum(depth for depth, mix in zip(depths, mixes, strict=True) if mix is not None))
    result, start = [], 0
    for depth, mix in zip(depths, mixes, strict=True):
        result.append([0.0] * depth if mix is None or isinstance(mix, Outlook) else rates[start : start + depth])
        start += depth
    return result


class VOLO(nn.Module):
    """Stem, stages, classes. The patch tokens' vote enters the logits in training as well."""

    def __init__(self, arch: Arch, rates: Rates = Rates()) -> None:
        super().__init__()
        self.arch = arch
        assert isinstance(arch.embed, ConvStem)
        assert isinstance(arch.head, Classify)
        self.embed = ConvEmbed(arch.embed)
        before = (None, *arch.stages)
        self.stages = nn.ModuleList(
            stage_blocks(stage, last, rates, own)
            for stage, last, own in zip(arch.stages, before, paths(arch, rates.path), strict=False)
        )
        self.head = ClassifyHead(arch.stages[-1].width, arch.head)

    def features(self, images: Float[Tensor, "batch channels rows columns"]) -> Float[Tensor, "batch tokens width"]:
        """Class token and patch tokens after the last block, before the final norm."""
        x = self.embed(images)
        for stage in self.stages:
            x = stage(x)
        return x

    def forward(self, images: Float[Tensor, "batch channels rows columns"]) -> Float[Tensor, "batch classes"]:
        """Logits of the classes."""
        return self.head(self.features(images))

    def init(self) -> None:
        """timm's defaults: linear maps, positions and class token N(0, 0.02) truncated, biases 0; convolutions as
        PyTorch starts them."""
        linears(self, std=0.02)
        for part in self.modules():
            if isinstance(part, JoinClass):
                truncated(part.class_token, 0.02)
            elif isinstance(part, DownsampleBlock) and part.positions is not None:
                truncated(part.positions, 0.02)
