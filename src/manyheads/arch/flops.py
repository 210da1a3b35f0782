"""Floating-point operations of one forward pass over one example, in closed form.

Counted as PyTorch's FlopCounterMode counts: 2 per multiply-add of matrix products, convolutions and attention;
element-wise work, softmax and look-ups are free; a causal mask saves nothing. Training costs 3 forwards.
Numbers may be ints, arrays or symbols, except `tokens` where a grid is needed (windows, outlook, down-sampling).
"""

from __future__ import annotations

from typing import Any

from manyheads.spec.arch import Arch, Sketch, side
from manyheads.spec.check import conv_side
from manyheads.spec.parts import (
    Attention,
    Channel,
    ClassAttention,
    Classify,
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
    Nystrom,
    Outlook,
    Pair,
    Patch,
    Pixel,
    Softmax,
    Stage,
    Token,
    Window,
)

Num = Any


def forward_flops(arch: Arch | Sketch) -> Num:
    """Operations of one forward pass over one example (both sequences of a pair)."""
    body = embed_flops(arch.embed, arch.stages[0])
    before = None
    for stage in arch.stages:
        body = body + enter_flops(stage, before) + stage.depth * unit_flops(stage)
        before = stage
    sequences = 2 if isinstance(arch.head, Pair) else 1
    return sequences * body + head_flops(arch.head, arch.embed, arch.stages[-1])


def training_flops(arch: Arch | Sketch) -> Num:
    """Operations of one training step over one example: a forward, and twice that backward."""
    return 3 * forward_flops(arch)


def matmul(rows: Num, inputs: Num, outputs: Num) -> Num:
    """Operations of a (rows x inputs) by (inputs x outputs) product."""
    return 2 * rows * inputs * outputs


def unit_flops(stage: Stage) -> Num:
    """Operations of one repetition of a stage's unit."""
    total: Num = 0
    for item in stage.unit:
        if isinstance(item, Nested):
            patches = stage.tokens - 1
            total = total + patches * layer_flops(item.inner, item.width, item.tokens)
            total = total + matmul(patches, item.width * item.tokens, stage.width)
            total = total + layer_flops(item.outer, stage.width, stage.tokens)
        else:
            total = total + layer_flops(item, stage.width, stage.tokens)
    return total


def layer_flops(layer: Layer, width: Num, tokens: Num) -> Num:
    """Operations of one layer over `tokens` tokens."""
    total: Num = 0
    for branch in layer:
        rows = 1 if branch.rows == "class" else tokens
        match branch.op:
            case Attention() as op:
                total = total + attention_flops(op, width, tokens)
            case ClassAttention() as op:
                projections = matmul(1, width, op.inner) + matmul(tokens, width, 2 * op.inner)
                total = total + projections + 2 * matmul(1, op.inner, tokens) + matmul(1, op.inner, width)
            case Mlp(mlp_dim=hidden, gated=gated):
                total = total + matmul(rows, width, (3 if gated else 2) * hidden)
            case Depthwise(kernel=kernel):
                total = total + 2 * tokens * width * kernel**2
            case LocalPatch(kernel=kernel):
                total = total + 4 * tokens * width * kernel**2
    return total


def attention_flops(op: Attention, width: Num, tokens: Num) -> Num:
    """Operations of one attention: projections in and out, and the mixing between them."""
    match op.mix:
        case Softmax():
            mixing = 2 * matmul(tokens, op.inner, tokens)
        case CrossCovariance() | Channel():
            mixing = 2 * matmul(tokens, op.inner, op.head_dim)
        case Window(size=size):
            rows = padded(tokens, size)
            projections = matmul(rows, width, op.inner + 2 * op.kv_inner) + matmul(rows, op.inner, width)
            return projections + 2 * matmul(rows, op.inner, size**2)
        case Outlook(kernel=kernel, stride=stride):
            spots = (-(-side(tokens) // stride)) ** 2
            weights = matmul(spots, width, op.heads * kernel**4)
            values = matmul(tokens, width, op.inner) + matmul(tokens, op.inner, width)
            return values + weights + matmul(spots, op.inner, kernel**4)
        case Nystrom():
            mixing = nystrom_flops(op, op.mix, tokens)
    return matmul(tokens, width, op.inner + 2 * op.kv_inner) + mixing + matmul(tokens, op.inner, width)


def padded(tokens: int, size: int) -> int:
    """Tokens of a grid padded up to whole windows."""
    return (-(-side(tokens) // size) * size) ** 2


def nystrom_flops(op: Attention, mix: Nystrom, tokens: Num) -> Num:
    """Kernels to and between landmarks, the iterated pseudo-inverse, and right-associated products."""
    conv = 2 * tokens * op.inner * mix.conv
    if isinstance(tokens, int) and tokens == mix.landmarks:
        return 2 * matmul(tokens, op.inner, tokens) + conv
    landmarks = mix.landmarks
    kernels = 2 * matmul(tokens, op.inner, landmarks) + matmul(landmarks, op.inner, landmarks)
    inverse = mix.iterations * 4 * op.heads * matmul(landmarks, landmarks, landmarks)
    products = 2 * matmul(tokens, op.inner, landmarks) + matmul(landmarks, op.inner, landmarks)
    return kernels + inverse + products + conv


def enter_flops(stage: Stage, before: Stage | None) -> Num:
    """Operations of a down-sampling convolution."""
    match stage.enter:
        case Downsample(kernel=kernel):
            assert before is not None
            return matmul(stage.tokens, before.width * kernel**2, stage.width)
        case _:
            return 0


def embed_flops(embed: Embed, first: Stage) -> Num:
    """Operations that make the tokens of the first stage; look-ups are free."""
    match embed:
        case Patch():
            return matmul(first.tokens - embed.class_tokens, embed.patch**2 * embed.channels, first.width)
        case ConvStem():
            total: Num = matmul(first.tokens, 2 * embed.fourier, first.width)
            grid, channels = embed.image, embed.channels
            for conv in embed.convs:
                grid = conv_side(grid, conv)
                total = total + matmul(grid**2, channels * conv.kernel**2, conv.out)
                channels = conv.out
            return total
        case Pixel():
            nested = first.unit[0]
            assert isinstance(nested, Nested)
            patches = first.tokens - 1
            pixels = matmul(patches * nested.tokens, embed.channels * embed.kernel**2, nested.width)
            return pixels + matmul(patches, nested.width * nested.tokens, first.width)
        case _:
            return 0


def head_flops(head: Head, embed: Embed, last: Stage) -> Num:
    """Operations that read the tokens of the last stage."""
    width = last.width
    match head:
        case Classify(hidden=0):
            aux = matmul(last.tokens - 1, width, head.classes) if head.aux else 0
            return (1 + head.distill) * matmul(1, width, head.classes) + aux
        case Classify():
            return matmul(1, width, head.hidden) + matmul(1, head.hidden, head.classes)
        case Lm():
            assert isinstance(embed, Token)
            return matmul(last.tokens, width, embed.vocab)
        case Masked():
            assert isinstance(embed, Token)
            transform = matmul(last.tokens, width, width) if head.transform else 0
            return transform + matmul(last.tokens, width, embed.vocab)
        case Pair():
            return matmul(1, 4 * width, head.hidden) + matmul(1, head.hidden, head.classes)
        case _:
            return 0
