"""Layers one by one: a model's record as a list of layers, and what becomes of a layer when it is folded with others,
gets heads, loses some, or is padded.

Stages hold layers that are alike. Where layers differ, every run of equal ones is a stage of its own. The weights follow
in the package `transplant`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby

from manyheads.spec.arch import Arch, layers
from manyheads.spec.errors import UserError
from manyheads.spec.parts import Attention, Layer, Mlp, Nested, Norm, Residual, Same, Softmax, Stage

BIASED = ("layer",)  # norms with a bias


def layer_list(arch: Arch) -> list[Layer]:
    """Every layer of a model that is a plain list of layers over the same tokens; other models are refused."""
    first = arch.stages[0]
    for stage in arch.stages:
        if any(isinstance(item, Nested) for item in stage.unit):
            raise UserError(f"a {arch.family} model has a transformer inside each layer, which cannot be taken apart")
        if not isinstance(stage.enter, Same) or (stage.width, stage.tokens) != (first.width, first.tokens):
            raise UserError(
                f"a {arch.family} model changes its tokens or its width between stages; layers can be folded or dropped "
                "in models whose layers all work on the same tokens, such as ViT, BERT, GPT-2 and Llama"
            )
    return [layer for stage in arch.stages for _ in range(stage.depth) for layer in layers(stage)]


def with_layers(arch: Arch, new: Sequence[Layer]) -> Arch:
    """`arch` with these layers; each run of equal layers is a stage."""
    first = arch.stages[0]
    if not new:
        raise UserError("no layer is left; keep at least one")
    runs = [(layer, len(list(run))) for layer, run in groupby(new)]
    return replace(arch, stages=tuple(Stage(first.width, first.tokens, depth, (layer,)) for layer, depth in runs))


def attention_and_mlp(layer: Layer) -> tuple[Residual, Residual]:
    """The two branches of a layer that is softmax attention, then an MLP; other layers are refused."""
    kinds = [type(branch.op).__name__ for branch in layer]
    if kinds != ["Attention", "Mlp"]:
        raise UserError(f"a layer of {', '.join(kinds)} is not attention and an MLP; it can be dropped, not folded")
    attention, mlp = layer
    assert isinstance(attention.op, Attention)
    if not isinstance(attention.op.mix, Softmax):
        raise UserError(
            f"{type(attention.op.mix).__name__} attention has more weights than its projections; such layers can be "
            "dropped, not folded"
        )
    return attention, mlp


def heads_of(residual: Residual) -> Attention:
    """The attention of a branch that `attention_and_mlp` gave."""
    assert isinstance(residual.op, Attention)
    return residual.op


def mlp_of(residual: Residual) -> Mlp:
    """The MLP of a branch that `attention_and_mlp` gave."""
    assert isinstance(residual.op, Mlp)
    return residual.op


def folded(group: Sequence[Layer]) -> Layer:
    """The layer that computes all attentions of a group side by side, then all its MLPs. Why it is none is said."""
    pairs = [attention_and_mlp(layer) for layer in group]
    first_attention, first_mlp = pairs[0]
    for branches in pairs:
        for branch in branches:
            _foldable(branch)
    for attention, mlp in pairs[1:]:
        _alike(_bare(heads_of(first_attention)), _bare(heads_of(attention)), "attentions")
        _alike(replace(mlp_of(first_mlp), mlp_dim=1, bias=True), replace(mlp_of(mlp), mlp_dim=1, bias=True), "MLPs")
        _alike(first_attention.norm, attention.norm, "norms")
        _alike(first_mlp.norm, mlp.norm, "norms")
    ops = [heads_of(attention) for attention, _ in pairs]
    group_sizes = {op.inner // op.kv_inner for op in ops}
    if len(group_sizes) > 1:
        raise UserError(
            f"layers whose key and value heads serve {' and '.join(map(str, sorted(group_sizes)))} heads of queries do "
            "not fold; fold layers that are grouped alike, or drop one"
        )
    heads = replace(
        ops[0],
        heads=sum(op.heads for op in ops),
        kv_heads=None if ops[0].kv_heads is None else sum(op.kv_heads or op.heads for op in ops),
        qkv_bias=any(op.qkv_bias for op in ops) or _biased(first_attention.norm),
        out_bias=any(op.out_bias for op in ops),
        out_scale=1.0,
    )
    mlps = [mlp_of(mlp) for _, mlp in pairs]
    units = replace(
        mlps[0], mlp_dim=sum(op.mlp_dim for op in mlps), bias=any(op.bias for op in mlps) or _biased(first_mlp.norm)
    )
    return (replace(first_attention, op=heads, scaled=None), replace(first_mlp, op=units, scaled=None))


def _foldable(branch: Residual) -> None:
    if branch.place == "post":
        raise UserError(
            "the norms of this model stand behind its residual branches, and layers fold only where norms stand in front "
            "(pre-norm); drop layers instead"
        )
    if branch.rows != "all":
        raise UserError("a branch that updates the class token alone does not fold; drop layers instead")


def _biased(norm: Norm | None) -> bool:
    return norm is not None and norm.kind in BIASED


def _bare(op: Attention) -> Attention:
    """What the attentions of a group have to share."""
    return replace(op, heads=1, kv_heads=None, qkv_bias=True, out_bias=True, out_scale=1.0)


def _alike(one: object, other: object, what: str) -> None:
    if one != other:
        raise UserError(
            f"the {what} of these layers differ ({one} and {other}); fold layers that share them, or drop one"
        )


def with_more_heads(layer: Layer, heads: int, of: Layer | None = None) -> Layer:
    """`layer` with `heads` more heads. Where they are those of the layer `of`, the norm's bias of either layer becomes a
    bias of the projection."""
    attention, mlp = attention_and_mlp(layer)
    op = heads_of(attention)
    biased = op.qkv_bias
    if of is not None:
        other, _ = attention_and_mlp(of)
        _alike(_bare(op), _bare(heads_of(other)), "attentions")
        _alike(attention.norm, other.norm, "norms")
        biased = biased or heads_of(other).qkv_bias or _biased(attention.norm)
    size = op.inner // op.kv_inner
    if heads % size:
        raise UserError(
            f"{heads} heads cannot be added where each head of keys and values serves {size} of queries; write a multiple "
            f"of {size}"
        )
    kv = None if op.kv_heads is None else op.kv_heads + heads // size
    return (replace(attention, op=replace(op, heads=op.heads + heads, kv_heads=kv, qkv_bias=biased)), mlp)


def with_cuts(layer: Layer, heads: Sequence[int], units: Sequence[int]) -> Layer:
    """`layer` without these heads and MLP units. Heads that share keys and values go together."""
    attention, mlp = attention_and_mlp(layer)
    op, hidden = heads_of(attention), mlp_of(mlp)
    size = op.inner // op.kv_inner
    for name, numbers, count in (("heads", heads, op.heads), ("units", units, hidden.mlp_dim)):
        if numbers and max(numbers) >= count:
            raise UserError(f"{name} {max(numbers)} cannot be cut from a layer of {count}; they count from 0")
        if len(numbers) >= count:
            raise UserError(f"all {count} {name} of a layer cannot be cut; drop the layer instead")
    groups = {number // size for number in heads}
    if len(groups) * size != len(heads):
        raise UserError(
            f"heads that share keys and values are cut together, {size} at a time: 0 to {size - 1}, and so on"
        )
    kv = None if op.kv_heads is None else op.kv_heads - len(groups)
    return (
        replace(attention, op=replace(op, heads=op.heads - len(heads), kv_heads=kv)),
        replace(mlp, op=replace(hidden, mlp_dim=hidden.mlp_dim - len(units))),
    )


def padded(group: Sequence[Layer]) -> Layer:
    """The layer that every layer of `group` becomes when zero heads and units fill it up to the largest."""
    pairs = [attention_and_mlp(layer) for layer in group]
    first_attention, first_mlp = pairs[0]
    for attention, mlp in pairs[1:]:
        for one, other, what in ((first_attention, attention, "attention branches"), (first_mlp, mlp, "MLP branches")):
            _alike(_without_sizes(one), _without_sizes(other), what)
    ops, mlps = [heads_of(attention) for attention, _ in pairs], [mlp_of(mlp) for _, mlp in pairs]
    sizes = {op.inner // op.kv_inner for op in ops}
    if len(sizes) > 1:
        raise UserError(
            "layers whose key and value heads serve different numbers of heads cannot be padded to one size"
        )
    most = max(op.heads for op in ops)
    heads = replace(
        ops[0],
        heads=most,
        kv_heads=None if ops[0].kv_heads is None else most // sizes.pop(),
        qkv_bias=any(op.qkv_bias for op in ops),
        out_bias=any(op.out_bias for op in ops),
    )
    units = replace(mlps[0], mlp_dim=max(op.mlp_dim for op in mlps), bias=any(op.bias for op in mlps))
    scales = [_largest_scale(column) for column in zip(*pairs, strict=True)]
    return (replace(first_attention, op=heads, scaled=scales[0]), replace(first_mlp, op=units, scaled=scales[1]))


def _largest_scale(branches: Sequence[Residual]) -> float | None:
    return max((branch.scaled for branch in branches if branch.scaled is not None), default=None)


def _without_sizes(branch: Residual) -> Residual:
    op = branch.op
    if isinstance(op, Attention):
        return replace(branch, op=replace(op, heads=1, kv_heads=None, qkv_bias=True, out_bias=True), scaled=None)
    assert isinstance(op, Mlp)
    return replace(branch, op=replace(op, mlp_dim=1, bias=True), scaled=None)
