"""What a layer costs: each kind of branch, the norm and layer scale around it, and TNT's nested layers."""

from __future__ import annotations

from manyheads.spec.parts import Attention, ClassAttention, Depthwise, Layer, LocalPatch, Mlp, Nested, Residual, Stage

from .attention_cost import (
    attention_flops,
    attention_params,
    attention_saved,
    class_attention_flops,
    class_attention_params,
    class_attention_saved,
)
from .quantities import Formulas, Num, Params, Saved, linear, matmul, norm_params


# ------------------------------------------------------------------------------------------------------------ MLP
def mlp_params(op: Mlp, width: Num) -> Params:
    """Two matrices; a gated MLP's first is twice as wide."""
    first = linear(width, 2 * op.mlp_dim if op.gated else op.mlp_dim, op.bias)
    return Params(mlp=first + linear(op.mlp_dim, width, op.bias))


def mlp_flops(op: Mlp, width: Num, tokens: Num, rows: Num) -> Num:
    """Two products, or three when gated."""
    return matmul(rows, width, (3 if op.gated else 2) * op.mlp_dim)


def mlp_saved(op: Mlp, width: Num, tokens: Num, rows: Num, fused: bool) -> Saved:
    """Hidden units: an activation keeps its input and its output, ReLU and tanh the output alone."""
    if op.gated:
        return Saved(compute=rows * 4 * op.mlp_dim)
    return Saved(compute=rows * (op.mlp_dim if op.act in ("relu", "tanh") else 2 * op.mlp_dim))


# -------------------------------------------------------------------------------------- convolutions between tokens
def depthwise_params(op: Depthwise, width: Num) -> Params:
    """A kernel and a bias a channel."""
    return Params(local=width * (op.kernel**2 + 1))


def depthwise_flops(op: Depthwise, width: Num, tokens: Num, rows: Num) -> Num:
    """One kernel a token and channel."""
    return 2 * tokens * width * op.kernel**2


def depthwise_saved(op: Depthwise, width: Num, tokens: Num, rows: Num, fused: bool) -> Saved:
    """The convolution's input."""
    return Saved(compute=tokens * width)


def local_patch_params(op: LocalPatch, width: Num) -> Params:
    """Two depthwise convolutions and a batch norm."""
    return Params(local=2 * width * (op.kernel**2 + 1), norm=2 * width)


def local_patch_flops(op: LocalPatch, width: Num, tokens: Num, rows: Num) -> Num:
    """Two kernels a token and channel."""
    return 4 * tokens * width * op.kernel**2


def local_patch_saved(op: LocalPatch, width: Num, tokens: Num, rows: Num, fused: bool) -> Saved:
    """The inputs of both convolutions and of the activation between them."""
    return Saved(compute=3 * tokens * width)


# params(op, width), flops(op, width, tokens, rows), saved(op, width, tokens, rows, fused); `rows` are the tokens that
# the branch updates
OPS: dict[type, Formulas] = {
    Attention: Formulas(attention_params, attention_flops, attention_saved),
    ClassAttention: Formulas(class_attention_params, class_attention_flops, class_attention_saved),
    Mlp: Formulas(mlp_params, mlp_flops, mlp_saved),
    Depthwise: Formulas(depthwise_params, depthwise_flops, depthwise_saved),
    LocalPatch: Formulas(local_patch_params, local_patch_flops, local_patch_saved),
}


# --------------------------------------------------------------------------------------------------- branch and layer
def layer_params(layer: Layer, width: Num) -> Params:
    """Parameters of one layer: of each branch, its norm and its layer scale."""
    total = Params()
    for branch in layer:
        scale = 0 if branch.scaled is None else width
        norm = norm_params(branch.norm, width) + norm_params(branch.after, width)
        total += OPS[type(branch.op)].params(branch.op, width) + Params(norm=norm + scale)
    return total


def layer_flops(layer: Layer, width: Num, tokens: Num) -> Num:
    """Operations of one layer over `tokens` tokens."""
    return sum(OPS[type(branch.op)].flops(branch.op, width, tokens, _rows(branch, tokens)) for branch in layer)


def layer_saved(layer: Layer, width: Num, tokens: Num, fused: bool) -> Saved:
    """What one layer keeps for the backward pass."""
    total = Saved()
    for branch in layer:
        total += _around(branch, width, tokens)
        total += OPS[type(branch.op)].saved(branch.op, width, tokens, _rows(branch, tokens), fused)
    return total


def _rows(branch: Residual, tokens: Num) -> Num:
    return 1 if branch.rows == "class" else tokens


def _around(branch: Residual, width: Num, tokens: Num) -> Saved:
    """What a norm reads, what it hands on, and what a layer scale multiplies. Class attention's norm reads all
    tokens."""
    rows = _rows(branch, tokens) if isinstance(branch.op, Mlp) else tokens
    once = rows * width
    normed = 0 if branch.norm is None else once
    after = 0 if branch.after is None else once  # a norm reads in the stream's precision, also what a product made
    return Saved(stream=normed + after, compute=normed + (0 if branch.scaled is None else once))


# ------------------------------------------------------------------------------------------- TNT's nested layers
def nested_params(nested: Nested, stage: Stage) -> Params:
    """The inner layer, the projection of a patch's pixels with its norms (one on each side, or a narrow one before it
    in the legacy block), the outer layer."""
    flat, fuse = nested.width * nested.tokens, nested.fuse
    before = norm_params(fuse.norm, nested.width if fuse.legacy else flat)
    after = 0 if fuse.legacy else norm_params(fuse.norm, stage.width)
    fusing = Params(local=linear(flat, stage.width, fuse.legacy), norm=before + after)
    return layer_params(nested.inner, nested.width) + fusing + layer_params(nested.outer, stage.width)


def nested_flops(nested: Nested, stage: Stage) -> Num:
    """The inner layer for every patch, the projection, the outer layer. The class token has no pixels."""
    patches = stage.tokens - 1
    inner = patches * layer_flops(nested.inner, nested.width, nested.tokens)
    fusing = matmul(patches, nested.width * nested.tokens, stage.width)
    return inner + fusing + layer_flops(nested.outer, stage.width, stage.tokens)


def nested_saved(nested: Nested, stage: Stage, fused: bool) -> Saved:
    """What the inner layer keeps for every patch, the projection's input and (in the current block) its norm's, and
    what the outer layer keeps."""
    patches = stage.tokens - 1
    inner = layer_saved(nested.inner, nested.width, nested.tokens, fused).times(patches)
    projected = 0 if nested.fuse.legacy else patches * stage.width
    fusing = Saved(stream=projected, compute=patches * nested.width * nested.tokens)
    return inner + fusing + layer_saved(nested.outer, stage.width, stage.tokens, fused)


# --------------------------------------------------------------------------------------- one repetition of a stage's unit
def unit_params(stage: Stage) -> Params:
    """Parameters of one repetition of a stage's unit."""
    parts = (
        nested_params(item, stage) if isinstance(item, Nested) else layer_params(item, stage.width)
        for item in stage.unit
    )
    return sum(parts, Params())


def unit_flops(stage: Stage) -> Num:
    """Operations of one repetition of a stage's unit."""
    return sum(
        nested_flops(item, stage) if isinstance(item, Nested) else layer_flops(item, stage.width, stage.tokens)
        for item in stage.unit
    )


def unit_saved(stage: Stage, fused: bool) -> Saved:
    """What one repetition of a stage's unit keeps for the backward pass."""
    parts = (
        nested_saved(item, stage, fused)
        if isinstance(item, Nested)
        else layer_saved(item, stage.width, stage.tokens, fused)
        for item in stage.unit
    )
    return sum(parts, Saved())
