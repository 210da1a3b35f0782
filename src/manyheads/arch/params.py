"""Parameters of a record, group by group, in closed form.

The numbers of the record may be ints, arrays or symbols: only + - * // touch them, and branches look at kinds.
Groups: `embedding` (what makes tokens), `attention`, `mlp`, `norm` (norms and layer scales), `local` (convolutions
between tokens, down-sampling, TNT's fusion) and `head` (what reads the result; a tied head adds nothing).
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from manyheads.spec.arch import Arch, Sketch
from manyheads.spec.parts import (
    Attention,
    ClassAttention,
    Classify,
    ClassToken,
    ConvStem,
    CrossCovariance,
    Depthwise,
    Downsample,
    Embed,
    Head,
    Layer,
    Lm,
    LocalPatch,
    Masked,
    Mlp,
    Nested,
    Norm,
    Nystrom,
    Outlook,
    Pair,
    Patch,
    Pixel,
    Points,
    Stage,
    Token,
)

Num = Any  # an int, an array or a symbol


@dataclass(frozen=True)
class Params:
    """Parameters by group. `non_embedding` is what stands between the embedding and the head."""

    embedding: Num = 0
    attention: Num = 0
    mlp: Num = 0
    norm: Num = 0
    local: Num = 0
    head: Num = 0

    @property
    def total(self) -> Num:
        """All parameters, each counted once."""
        return self.embedding + self.non_embedding + self.head

    @property
    def non_embedding(self) -> Num:
        """Parameters of the layers alone: what depth, heads and MLP width decide."""
        return self.attention + self.mlp + self.norm + self.local

    def __add__(self, other: Params) -> Params:
        return Params(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))

    def times(self, n: Num) -> Params:
        """These parameters, n times."""
        return Params(*(n * getattr(self, f.name) for f in fields(self)))


def params(arch: Arch | Sketch) -> Params:
    """Parameters of `arch` by group."""
    total = embed_params(arch.embed, arch.stages[0])
    before = None
    for stage in arch.stages:
        total += enter_params(stage, before) + unit_params(stage).times(stage.depth)
        before = stage
    return total + head_params(arch.head, arch.embed, arch.stages[-1])


def linear(inputs: Num, outputs: Num, bias: bool) -> Num:
    """A matrix and, with `bias`, a vector."""
    return inputs * outputs + outputs if bias else inputs * outputs


def norm_params(norm: Norm | None, width: Num) -> Num:
    """Two vectors (layer, batch), one (rms) or one scalar (unit)."""
    if norm is None:
        return 0
    match norm.kind:
        case "unit":
            return 1
        case "rms":
            return width
        case _:
            return 2 * width


def attention_params(op: Attention, width: Num) -> Num:
    """Projections of one attention and what its way of mixing adds."""
    out = linear(op.inner, width, op.out_bias)
    if isinstance(op.mix, Outlook):
        weights = op.heads * op.mix.kernel**4
        return linear(width, op.inner, op.qkv_bias) + linear(width, weights, True) + out
    total = linear(width, op.inner + 2 * op.kv_inner, op.qkv_bias) + out
    match op.mix:
        case CrossCovariance():
            total = total + op.heads
        case Nystrom(conv=taps):
            total = total + op.heads * taps
    return total


def unit_params(stage: Stage) -> Params:
    """Parameters of one repetition of a stage's unit."""
    total = Params()
    for item in stage.unit:
        if isinstance(item, Nested):
            flat = item.width * item.tokens
            inner_norm = item.width if item.fuse.legacy else flat
            outer_norm = None if item.fuse.legacy else item.fuse.norm
            total += layer_params(item.inner, item.width)
            total += Params(
                local=linear(flat, stage.width, item.fuse.legacy),
                norm=norm_params(item.fuse.norm, inner_norm) + norm_params(outer_norm, stage.width),
            )
            total += layer_params(item.outer, stage.width)
        else:
            total += layer_params(item, stage.width)
    return total


def layer_params(layer: Layer, width: Num) -> Params:
    """Parameters of one layer."""
    total = Params()
    for branch in layer:
        norm = norm_params(branch.norm, width)
        if branch.scaled is not None:
            norm = norm + width
        match branch.op:
            case Attention() as op:
                if op.qk_norm is not None:
                    norm = norm + 2 * norm_params(op.qk_norm, op.head_dim)
                total += Params(attention=attention_params(op, width), norm=norm)
            case ClassAttention() as op:
                qkv = linear(width, 3 * op.inner, op.qkv_bias)
                total += Params(attention=qkv + linear(op.inner, width, op.out_bias), norm=norm)
            case Mlp(mlp_dim=hidden, gated=gated, bias=bias):
                first = linear(width, 2 * hidden if gated else hidden, bias)
                total += Params(mlp=first + linear(hidden, width, bias), norm=norm)
            case Depthwise(kernel=kernel):
                total += Params(local=width * (kernel**2 + 1), norm=norm)
            case LocalPatch(kernel=kernel):
                total += Params(local=2 * width * (kernel**2 + 1), norm=norm + 2 * width)
    return total


def enter_params(stage: Stage, before: Stage | None) -> Params:
    """What stands between two stages."""
    match stage.enter:
        case Downsample(kernel=kernel, norm=norm, positions=positions):
            assert before is not None
            return Params(
                local=linear(before.width * kernel**2, stage.width, True),
                norm=norm_params(norm, before.width),
                embedding=stage.tokens * stage.width if positions else 0,
            )
        case ClassToken():
            return Params(embedding=stage.width)
        case _:
            return Params()


def embed_params(embed: Embed, first: Stage) -> Params:
    """What makes the tokens of the first stage."""
    width = first.width
    match embed:
        case Patch():
            projection = linear(embed.patch**2 * embed.channels, width, True)
            positions = first.tokens if embed.class_positions else first.tokens - embed.class_tokens
            return Params(embedding=projection + (positions + embed.class_tokens) * width)
        case ConvStem():
            total, channels = Params(), embed.channels
            for conv in embed.convs:
                kernel = linear(channels * conv.kernel**2, conv.out, conv.bias)
                total += Params(embedding=kernel, norm=norm_params(conv.norm, conv.out))
                channels = conv.out
            return total + Params(embedding=linear(2 * embed.fourier, width, True) if embed.fourier else 0)
        case Pixel():
            nested = first.unit[0]
            assert isinstance(nested, Nested)
            flat = nested.width * nested.tokens
            pixels = linear(embed.channels * embed.kernel**2, nested.width, True) + flat
            patches = linear(flat, width, True) + width + first.tokens * width
            return Params(
                embedding=pixels + patches, norm=norm_params(embed.norm, flat) + norm_params(embed.norm, width)
            )
        case Token():
            table = (embed.vocab + embed.positions + embed.types) * width
            return Params(embedding=table + 1 if embed.sinusoid else table, norm=norm_params(embed.norm, width))
        case Points(positions="concat"):
            return Params(embedding=first.tokens * (width - embed.dim))
        case Points(positions="add"):
            return Params(embedding=first.tokens * width)
        case _:
            return Params()


def head_params(head: Head, embed: Embed, last: Stage) -> Params:
    """What reads the tokens of the last stage."""
    width = last.width
    match head:
        case Classify():
            norm = norm_params(head.norm, width)
            if head.hidden:
                return Params(
                    norm=norm, head=linear(width, head.hidden, True) + linear(head.hidden, head.classes, True)
                )
            count = 1 + head.distill + head.aux
            return Params(norm=norm, head=count * linear(width, head.classes, True))
        case Lm():
            assert isinstance(embed, Token)
            matrix = 0 if head.tied else width * embed.vocab
            return Params(norm=norm_params(head.norm, width), head=matrix + (embed.vocab if head.bias else 0))
        case Masked():
            assert isinstance(embed, Token)
            norm, dense = norm_params(head.norm, width), embed.vocab if head.bias else 0
            if head.transform:
                norm, dense = norm + 2 * width, dense + linear(width, width, True)
            return Params(norm=norm, head=dense)
        case Pair():
            dense = linear(4 * width, head.hidden, True) + linear(head.hidden, head.classes, True)
            return Params(norm=norm_params(head.norm, width), head=dense)
        case _:
            return Params()
