"""Bytes of training memory in closed form: what autograd keeps for the backward pass, and the optimizer's state.

Activations are counted tensor by tensor, as an eager PyTorch module saves them, in three kinds that differ in
precision: `stream` (the residual stream and what norms read), `compute` (inputs of matrix products and convolutions,
queries, keys, values, hidden units) and `maps` (attention probabilities). Temporary buffers, the allocator's slack and
the CUDA context are not in here; on one GPU they add a few GB.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from manyheads.spec.arch import Arch, Sketch, attentions, side
from manyheads.spec.check import conv_side
from manyheads.spec.parts import (
    Attention,
    Channel,
    ClassAttention,
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
    Residual,
    Softmax,
    Stage,
    Token,
    Window,
)

from .flops import padded
from .params import params

Num = Any
Precision = Literal["fp32", "amp", "bf16"]
# bytes a number of the residual stream, of a product's input, of an attention map: autocast computes softmax in float32
# and keeps that beside its half-precision copy
BYTES: dict[Precision, tuple[int, int, int]] = {"fp32": (4, 4, 4), "amp": (4, 2, 6), "bf16": (2, 2, 2)}


@dataclass(frozen=True)
class Saved:
    """Numbers kept for the backward pass, by kind."""

    stream: Num = 0
    compute: Num = 0
    maps: Num = 0

    def __add__(self, other: Saved) -> Saved:
        return Saved(self.stream + other.stream, self.compute + other.compute, self.maps + other.maps)

    def times(self, n: Num) -> Saved:
        """These numbers, n times."""
        return Saved(n * self.stream, n * self.compute, n * self.maps)

    def in_compute(self) -> Saved:
        """The same with the residual stream in the precision of products."""
        return Saved(0, self.stream + self.compute, self.maps)

    def bytes(self, precision: Precision) -> Num:
        """Their size in memory."""
        stream, compute, maps = BYTES[precision]
        return stream * self.stream + compute * self.compute + maps * self.maps


def activation_bytes(arch: Arch | Sketch, batch: Num = 1, precision: Precision = "fp32", fused: bool = False) -> Num:
    """Bytes kept for the backward pass over `batch` examples; `fused` attention keeps no token x token map.

    Autocast's half-precision copies of the weights are not in here: see `state_bytes`."""
    total = embed_saved(arch.embed, arch.stages[0])
    before = None
    for stage in arch.stages:
        kept = unit_saved(stage, fused).times(stage.depth)
        # a convolution hands its own precision on; learned positions in float32 would lift it again
        half = isinstance(stage.enter, Downsample) and not stage.enter.positions
        total += enter_saved(stage, before) + (kept.in_compute() if half else kept)
        before = stage
    if isinstance(arch.head, Pair):
        total = total.times(2)
    return batch * (total + head_saved(arch.head, arch.embed, arch.stages[-1])).bytes(precision)


def state_bytes(arch: Arch | Sketch, precision: Precision = "fp32", gradients: bool = True) -> Num:
    """Weights, gradients and AdamW's two moments in float32, 16 bytes a parameter; autocast adds a half-precision copy
    of the weights. Without `gradients` (one process that drops them after each step) the peak comes before they
    exist."""
    return ((16 if gradients else 12) + (2 if precision == "amp" else 0)) * params(arch).total


def training_bytes(
    arch: Arch | Sketch, batch: Num = 1, precision: Precision = "fp32", fused: bool = False, gradients: bool = True
) -> Num:
    """Activations, optimizer state and what a vocabulary's loss needs on top: the peak of a training step, other
    temporary buffers left out."""
    kept = activation_bytes(arch, batch, precision, fused) + state_bytes(arch, precision, gradients)
    return kept + loss_bytes(arch, batch)


def loss_bytes(arch: Arch | Sketch, batch: Num = 1) -> Num:
    """Gradients of log-probabilities and of logits, in float32, while a language model's loss is differentiated."""
    if not isinstance(arch.head, Lm | Masked):
        return 0
    assert isinstance(arch.embed, Token)
    return 8 * batch * arch.stages[-1].tokens * arch.embed.vocab


def kv_bytes(arch: Arch | Sketch, bytes_per_number: int = 2) -> Num:
    """Bytes of key-value cache one token of context costs; 0 for a model that does not generate."""
    if not isinstance(arch.head, Lm):
        return 0
    return sum(2 * bytes_per_number * stage.depth * op.kv_inner for stage in arch.stages for op in attentions(stage))


def unit_saved(stage: Stage, fused: bool) -> Saved:
    """Numbers kept by one repetition of a stage's unit."""
    total = Saved()
    for item in stage.unit:
        if isinstance(item, Nested):
            patches = stage.tokens - 1
            projected = 0 if item.fuse.legacy else patches * stage.width
            total += layer_saved(item.inner, item.width, item.tokens, fused).times(patches)
            total += Saved(stream=projected, compute=patches * item.width * item.tokens)
            total += layer_saved(item.outer, stage.width, stage.tokens, fused)
        else:
            total += layer_saved(item, stage.width, stage.tokens, fused)
    return total


def layer_saved(layer: Layer, width: Num, tokens: Num, fused: bool) -> Saved:
    """Numbers kept by one layer."""
    total = Saved()
    for branch in layer:
        total += _around(branch, width, tokens)
        match branch.op:
            case Attention() as op:
                total += attention_saved(op, width, tokens, fused)
            case ClassAttention() as op:
                total += Saved(compute=(2 * tokens + 2) * op.inner, maps=op.heads * tokens)
            case Mlp() as op:
                total += Saved(compute=(1 if branch.rows == "class" else tokens) * _hidden(op))
            case Depthwise():
                total += Saved(compute=tokens * width)
            case LocalPatch():
                total += Saved(compute=3 * tokens * width)
    return total


def _around(branch: Residual, width: Num, tokens: Num) -> Saved:
    """What a norm reads, what it hands on, and what a layer scale multiplies."""
    rows = 1 if branch.rows == "class" and isinstance(branch.op, Mlp) else tokens
    once = rows * width
    normed = once if branch.norm is not None else 0
    return Saved(stream=normed, compute=normed + (once if branch.scaled is not None else 0))


def _hidden(op: Mlp) -> Num:
    """Units kept per token: an activation keeps its input and its output, ReLU and tanh the output alone."""
    if op.gated:
        return 4 * op.mlp_dim
    return op.mlp_dim if op.act in ("relu", "tanh") else 2 * op.mlp_dim


def attention_saved(op: Attention, width: Num, tokens: Num, fused: bool) -> Saved:
    """Numbers kept between an attention's two projections."""
    qkv_out = 2 * op.inner + 2 * op.kv_inner
    match op.mix:
        case Softmax():
            return Saved(compute=tokens * qkv_out, maps=0 if fused else op.heads * tokens * tokens)
        case CrossCovariance():
            return Saved(compute=7 * tokens * op.inner, maps=2 * op.inner * op.head_dim)
        case Channel():
            return Saved(compute=tokens * qkv_out, maps=op.inner * op.head_dim)
        case Window(size=size):
            rows = padded(tokens, size)
            return Saved(
                compute=rows * qkv_out + (rows - tokens) * width, maps=0 if fused else op.heads * rows * size**2
            )
        case Outlook(kernel=kernel, stride=stride):
            spots = (-(-side(tokens) // stride)) ** 2
            values = spots * op.inner * kernel**2 + tokens * op.inner
            return Saved(compute=values + spots * width, maps=spots * op.heads * kernel**4)
        case Nystrom(landmarks=landmarks, iterations=iterations, conv=conv):
            # computed in float32 whatever autocast says: all of it counts as stream
            squares = op.heads * (2 + 4 * iterations) * landmarks**2
            maps = squares if fused else squares + 2 * op.heads * tokens * landmarks
            taps = 2 * tokens * op.inner if conv else 0
            return Saved(stream=tokens * qkv_out + 5 * landmarks * op.inner + maps, compute=taps)


def enter_saved(stage: Stage, before: Stage | None) -> Saved:
    """Numbers kept by a down-sampling convolution and the norm before it."""
    match stage.enter:
        case Downsample(norm=norm):
            assert before is not None
            entering = before.tokens * before.width
            return Saved(stream=entering if norm is not None else 0, compute=entering)
        case _:
            return Saved()


def embed_saved(embed: Embed, first: Stage) -> Saved:
    """Numbers kept by what makes the tokens."""
    match embed:
        case Patch():  # the images themselves, and their patches
            pixels = embed.channels * embed.image**2
            return Saved(stream=pixels, compute=pixels)
        case ConvStem():
            grid, kept = embed.image, embed.channels * embed.image**2  # the images themselves
            for i, conv in enumerate(embed.convs):
                grid = conv_side(grid, conv)
                tensors = (conv.norm is not None) + (conv.act in ("gelu", "gelu_tanh", "silu"))
                kept = kept + grid**2 * conv.out * (tensors + (i + 1 < len(embed.convs)))
            return Saved(compute=kept)
        case Pixel():
            nested = first.unit[0]
            assert isinstance(nested, Nested)
            patches = first.tokens - 1
            pixels = embed.channels * embed.image**2 + patches * nested.width * nested.tokens
            return Saved(stream=patches * (nested.width * nested.tokens + first.width), compute=pixels)
        case Token(norm=norm):
            return Saved(stream=first.tokens * first.width if norm is not None else 0)
        case _:
            return Saved()


def head_saved(head: Head, embed: Embed, last: Stage) -> Saved:
    """Numbers kept by the final norm and the head: a language model's logits and log-probabilities are most of it."""
    entering = last.tokens * last.width
    match head:
        case Lm() | Masked():
            assert isinstance(embed, Token)
            transform = isinstance(head, Masked) and head.transform
            extra = Saved(stream=entering, compute=2 * entering) if transform else Saved()
            logits = last.tokens * embed.vocab
            return extra + Saved(stream=entering + logits, compute=entering + logits)
        case _:
            return Saved(stream=entering)
