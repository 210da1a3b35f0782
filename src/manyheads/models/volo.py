"""VOLO (2106.13112): outlook attention on a fine grid, softmax attention on a coarse one, then class attention."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from manyheads.nn import stem
from manyheads.nn.attention import SoftmaxAttention
from manyheads.nn.branch import Branch
from manyheads.nn.class_attention import ClassAttentionBlock
from manyheads.nn.downsample import DownsampleBlock
from manyheads.nn.drop_path import rising
from manyheads.nn.heads import ClassifyHead
from manyheads.nn.mlp import MlpBlock
from manyheads.nn.outlook import OutlookAttention
from manyheads.spec.arch import Arch, attentions, class_attentions, layers
from manyheads.spec.parts import (
    Attention,
    ClassAttention,
    Classify,
    ClassToken,
    ConvStem,
    Downsample,
    Layer,
    Mlp,
    Outlook,
    Stage,
)
from manyheads.spec.rates import Rates

from .init import linears, truncated


class Block(nn.Module):
    """Outlook or softmax attention, then MLP, each a residual branch."""

    def __init__(self, width: int, tokens: int, layer: Layer, rates: Rates, path: float) -> None:
        super().__init__()
        attention, mlp = layer
        assert isinstance(attention.op, Attention)
        assert isinstance(mlp.op, Mlp)
        mixer: nn.Module
        if isinstance(attention.op.mix, Outlook):
            mixer = OutlookAttention(width, attention.op, tokens, rates)
        else:
            mixer = SoftmaxAttention(width, attention.op, rates)
        self.attention = Branch(width, attention, mixer, path)
        self.mlp = Branch(width, mlp, MlpBlock(width, mlp.op, rates), path)

    def forward(self, x: Float[Tensor, "batch tokens width"]) -> Float[Tensor, "batch tokens width"]:
        """Tokens of a square grid, row by row."""
        return self.mlp(self.attention(x))


class ClassBlock(nn.Module):
    """The class token asks all tokens and passes through the MLP; the other tokens stay as they are."""

    def __init__(self, width: int, layer: Layer, rates: Rates) -> None:
        super().__init__()
        attention, mlp = layer
        assert isinstance(attention.op, ClassAttention)
        assert isinstance(mlp.op, Mlp)
        self.attention = Branch(width, attention, ClassAttentionBlock(width, attention.op, rates))
        self.mlp = Branch(width, mlp, MlpBlock(width, mlp.op, rates))

    def forward(self, x: Float[Tensor, "batch tokens width"]) -> Float[Tensor, "batch tokens width"]:
        """Tokens with the class token in front."""
        answer = self.attention.op(self.attention.norm(x))
        answer = answer if self.attention.scale is None else answer * self.attention.scale
        return torch.cat((self.mlp(x[:, :1] + answer), x[:, 1:]), dim=1)


class JoinClass(nn.Module):
    """A learned class token joins in front of the tokens."""

    group = "embedding"

    def __init__(self, width: int) -> None:
        super().__init__()
        self.class_token = nn.Parameter(torch.zeros(1, width))

    def forward(self, x: Float[Tensor, "batch tokens width"]) -> Float[Tensor, "batch more width"]:
        """One token more."""
        return torch.cat((self.class_token.expand(x.shape[0], -1, -1), x), dim=1)


class StageBlocks(nn.Module):
    """What enters the stage, then its blocks; `paths` has a drop-path rate for each."""

    def __init__(self, spec: Stage, before: Stage | None, rates: Rates, paths: list[float]) -> None:
        super().__init__()
        self.spec = spec
        self.enter: nn.Module
        match spec.enter:
            case Downsample():
                assert before is not None
                self.enter = DownsampleBlock(before.width, spec.width, spec.enter, before.tokens, rates)
            case ClassToken():
                self.enter = JoinClass(spec.width)
            case _:
                self.enter = nn.Identity()
        every = [layer for _ in range(spec.depth) for layer in layers(spec)]
        if class_attentions(spec):
            self.blocks = nn.ModuleList(ClassBlock(spec.width, layer, rates) for layer in every)
        else:
            paired = zip(every, paths, strict=True)
            self.blocks = nn.ModuleList(Block(spec.width, spec.tokens, layer, rates, path) for layer, path in paired)

    def forward(self, x: Float[Tensor, "batch before width"]) -> Float[Tensor, "batch tokens width"]:
        """Tokens of the stage before to tokens of this one."""
        x = self.enter(x)
        for block in self.blocks:
            x = block(x)
        return x


def paths(arch: Arch, rate: float) -> list[list[float]]:
    """Drop-path rates of every stage's blocks: linear in depth with class layers not counted; outlook layers count, but
    have none, as in the original."""
    depths = [stage.depth * len(stage.unit) for stage in arch.stages]
    mixes = [next((op.mix for op in attentions(stage)), None) for stage in arch.stages]
    rates = rising(rate, sum(depth for depth, mix in zip(depths, mixes, strict=True) if mix is not None))
    found, start = [], 0
    for depth, mix in zip(depths, mixes, strict=True):
        found.append([0.0] * depth if mix is None or isinstance(mix, Outlook) else rates[start : start + depth])
        start += depth
    return found


class VOLO(nn.Module):
    """Stem, stages, classes. The patch tokens' vote enters the logits in training as well."""

    def __init__(self, arch: Arch, rates: Rates = Rates()) -> None:
        super().__init__()
        self.arch = arch
        assert isinstance(arch.embed, ConvStem)
        assert isinstance(arch.head, Classify)
        self.embed = stem.ConvStem(arch.embed)
        before = (None, *arch.stages)
        self.stages = nn.ModuleList(
            StageBlocks(stage, last, rates, own)
            for stage, last, own in zip(arch.stages, before, paths(arch, rates.path), strict=False)
        )
        self.head = ClassifyHead(arch.stages[-1].width, arch.head)

    def features(self, images: Float[Tensor, "batch channels height width"]) -> Float[Tensor, "batch tokens width"]:
        """Class token and patch tokens after the last block, before the final norm."""
        x = self.embed(images)
        for stage in self.stages:
            x = stage(x)
        return x

    def forward(self, images: Float[Tensor, "batch channels height width"]) -> Float[Tensor, "batch classes"]:
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
