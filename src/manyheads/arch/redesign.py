"""More heads, fewer layers: a redesign edits attention, depth and MLP width of a record, and nothing else.

"More heads" is two interventions. Policy `fixed` keeps head_dim, so that inner = heads x head_dim grows; `split` keeps
inner and makes every head thinner. Class attention and TNT's inner transformer have types of their own, so that no
redesign changes them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

from manyheads.spec.arch import Arch, Sketch, attentions, editable, layers, mlps, side
from manyheads.spec.arch_rules import conv_side, divisors, nearest_divisors
from manyheads.spec.errors import UserError
from manyheads.spec.field_checks import shown, whole
from manyheads.spec.parts import (
    Attention,
    ClassToken,
    ConvStem,
    Downsample,
    Layer,
    Mlp,
    Nested,
    Patch,
    Pixel,
    Residual,
    Softmax,
    Stage,
    Token,
)

Policy = Literal["fixed", "split"]
Setting = int | Sequence[int] | None
SPLIT_TOLERANCE = 0.02  # a pair whose inner widths agree this closely is called split


def redesign(
    arch: Arch,
    *,
    depth: Setting = None,
    heads: Setting = None,
    policy: Policy = "fixed",
    head_dim: Setting = None,
    mlp_dim: Setting = None,
    kv_heads: int | None = None,
    tokens: int | None = None,
) -> Arch:
    """A copy of `arch` with other depth, heads or MLP width. Staged families take one number per stage.

    `head_dim`, where given, is used as it stands; otherwise it follows from `policy`. `tokens` sets the context length
    of a language model."""
    if policy not in ("fixed", "split"):
        raise UserError(f"policy is {policy!r}; write 'fixed' (keep head_dim) or 'split' (keep inner)")
    if not isinstance(arch, Arch):
        raise UserError(f"arch is {shown(arch)}; write an Arch, such as zoo.get('vit_b')")
    for name, number in (("kv_heads", kv_heads), ("tokens", tokens)):
        if number is not None:
            whole(name, number)
    stages = [arch.stages[i] for i in editable(arch)]
    depths, counts, dims, hidden = (
        _spread(value, stages, name)
        for value, name in ((depth, "depth"), (heads, "heads"), (head_dim, "head_dim"), (mlp_dim, "mlp_dim"))
    )
    if dims is None and counts is not None:
        dims = [_head_dim(stage, count, policy) for stage, count in zip(stages, counts, strict=True)]
    if dims is not None and head_dim is not None and policy == "split":
        _insist_on_split(stages, counts, dims)
    base = arch if tokens is None else _at_tokens(arch, tokens)
    if policy == "split" and kv_heads is None and counts is not None and dims is not None:
        kv_heads = _split_kv(stages[0], counts[0], dims[0])
    new = edit(base, depth=depths, heads=counts, head_dim=dims, mlp_dim=hidden, kv_heads=kv_heads)
    stages_now = tuple(map(_averaged, new.stages)) if arch.family == "nearest_neighbor" else new.stages
    return replace(arch, embed=new.embed, stages=stages_now, head=new.head)


def edit(
    arch: Arch | Sketch,
    *,
    depth: Sequence[Any] | None = None,
    heads: Sequence[Any] | None = None,
    head_dim: Sequence[Any] | None = None,
    mlp_dim: Sequence[Any] | None = None,
    kv_heads: Any = None,
) -> Sketch:
    """The edit behind `redesign`, without its checks: one entry per editable stage, which may be an array or a
    symbol."""
    stages = list(arch.stages)
    for at, i in enumerate(editable(arch)):
        stage = stages[i]
        change: dict[str, Any] = {}
        if heads is not None:
            change["heads"] = heads[at]
        if head_dim is not None:
            change["head_dim"] = head_dim[at]
        if kv_heads is not None:
            change["kv_heads"] = kv_heads
        unit = tuple(_edit_item(item, change, None if mlp_dim is None else mlp_dim[at]) for item in stage.unit)
        stages[i] = replace(stage, unit=unit, depth=stage.depth if depth is None else depth[at])
    return Sketch(arch.embed, tuple(stages), arch.head)


def _edit_item(item: Layer | Nested, change: dict[str, Any], mlp_dim: Any) -> Layer | Nested:
    if isinstance(item, Nested):
        return replace(item, outer=_edit_layer(item.outer, change, mlp_dim))
    return _edit_layer(item, change, mlp_dim)


def _edit_layer(layer: Layer, change: dict[str, Any], mlp_dim: Any) -> Layer:
    def branch(residual: Residual) -> Residual:
        match residual.op:
            case Attention() as op if change:
                return replace(residual, op=replace(op, **change))
            case Mlp() as op if mlp_dim is not None and residual.rows == "all":
                return replace(residual, op=replace(op, mlp_dim=mlp_dim))
            case _:
                return residual

    return tuple(branch(residual) for residual in layer)


def _spread(value: Setting, stages: list[Stage], name: str) -> list[int] | None:
    """One number per editable stage."""
    if value is None:
        return None
    if not isinstance(value, int | Sequence) or isinstance(value, str | bytes):
        raise UserError(f"{name} is {shown(value)}; write a whole number from 1 up, or one for each stage")
    values = [value] * len(stages) if isinstance(value, int) else list(value)
    if isinstance(value, int) and len(stages) > 1 and (name == "depth" or not _alike(stages)):
        raise UserError(
            f"{name} is {value}, but this family has {len(stages)} stages; write one number per stage, "
            f"e.g. {','.join(str(_current(stage, name)) for stage in stages)}"
        )
    if len(values) != len(stages):
        raise UserError(
            f"{name} has {len(values)} numbers and the model has {len(stages)} stages; write one per stage, "
            f"e.g. {','.join(str(_current(stage, name)) for stage in stages)}"
        )
    if name == "mlp_dim" and not all(mlps(stage) for stage in stages):
        if not any(values):
            return None
        raise UserError("mlp_dim: this model has layers without an MLP; leave it out")
    for number in values:
        if isinstance(number, bool) or not isinstance(number, int) or number < 1:
            raise UserError(f"{name} is {shown(number)}; write whole numbers from 1 up")
    return values


def _alike(stages: list[Stage]) -> bool:
    """Whether stages differ in nothing that a redesign sets but depth, as those of a model some of whose layers have
    windows."""
    kinds = {
        (stage.width, op.heads, op.head_dim, op.kv_heads, tuple(mlp.mlp_dim for mlp in mlps(stage)[:1]))
        for stage in stages
        for op in attentions(stage)
    }
    return len(kinds) == 1


def _current(stage: Stage, name: str) -> int:
    if name == "depth":
        return stage.depth
    if name == "mlp_dim":
        return next((op.mlp_dim for op in mlps(stage)), 0)
    return int(getattr(attentions(stage)[0], name))


def _head_dim(stage: Stage, heads: int, policy: Policy) -> int:
    """head_dim that `policy` gives `heads` heads; refused, with numbers that work, where it is not whole."""
    op = attentions(stage)[0]
    if policy == "fixed":
        return op.head_dim
    inner = op.inner
    if inner % heads == 0:
        return inner // heads
    step = 2 if isinstance(op.mix, Softmax) and op.mix.rope is not None else 1
    near = [
        d
        for d in range(inner // heads - 1, inner // heads + 3)
        if d > 0 and d % step == 0 and abs(d * heads / inner - 1) <= SPLIT_TOLERANCE
    ]
    options = [f"head_dim={d} (inner {d * heads}, {d * heads / inner - 1:+.1%})" for d in near]
    state = f"State {' or '.join(options)}, or split" if options else "Split"
    raise UserError(
        f"inner {inner} does not split into {heads} heads: {inner}/{heads} is not whole. {state} into "
        f"{' or '.join(map(str, nearest_divisors(inner, heads)))} heads, or keep head_dim {op.head_dim} with policy "
        f"'fixed' (inner {op.head_dim * heads})"
    )


def _split_kv(stage: Stage, heads: int, head_dim: int) -> int | None:
    """Key and value heads that keep their inner width as well when heads are split; refused where none do."""
    op = attentions(stage)[0]
    if op.kv_heads is None:
        return None
    if op.kv_inner % head_dim or heads % (op.kv_inner // head_dim):
        raise UserError(
            f"heads of {head_dim} do not keep the {op.kv_inner} columns of keys and values that {op.kv_heads} "
            f"kv_heads of {op.head_dim} have; state kv_heads, one of {divisors(heads)}"
        )
    return op.kv_inner // head_dim


def _averaged(stage: Stage) -> Stage:
    """The rank experiments average attentions of the model's width: the output's scale follows from inner."""

    def branch(residual: Residual) -> Residual:
        if not isinstance(residual.op, Attention):
            return residual
        return replace(residual, op=replace(residual.op, out_scale=stage.width / residual.op.inner))

    return replace(stage, unit=tuple(tuple(map(branch, layer)) for layer in layers(stage)))


def _insist_on_split(stages: list[Stage], counts: list[int] | None, dims: list[int]) -> None:
    for at, stage in enumerate(stages):
        op = attentions(stage)[0]
        heads = op.heads if counts is None else counts[at]
        if abs(heads * dims[at] / op.inner - 1) > SPLIT_TOLERANCE:
            raise UserError(
                f"policy 'split' keeps inner {op.inner}, but {heads} heads of {dims[at]} give "
                f"{heads * dims[at]}; leave out head_dim, or write policy 'fixed'"
            )


def _at_tokens(arch: Arch, tokens: int) -> Arch:
    if not isinstance(arch.embed, Token):
        raise UserError("tokens can be set for language models; an image model's follow from its image size")
    stages = tuple(replace(stage, tokens=tokens) for stage in arch.stages)
    return replace(arch, stages=stages)


def policy_of(original: Arch, other: Arch) -> str:
    """What `other` did to the heads of `original`: `same`, `split`, `fixed`, `head_dim` or `kv_heads` where only these
    moved, `other` when heads and head_dim both did, `mixed` when stages differ."""
    kinds = {_pair_policy(a, b) for a, b in zip(_heads(original), _heads(other), strict=False)} - {"same"}
    if not kinds:
        return "same"
    return kinds.pop() if len(kinds) == 1 else "mixed"


def _heads(arch: Arch) -> list[Attention]:
    return [op for i in editable(arch) for op in attentions(arch.stages[i])]


def _pair_policy(a: Attention, b: Attention) -> str:
    if (a.heads, a.head_dim) == (b.heads, b.head_dim):
        return "same" if a.kv_inner == b.kv_inner else "kv_heads"
    if a.heads == b.heads:
        return "head_dim"
    if abs(b.inner / a.inner - 1) <= SPLIT_TOLERANCE:
        return "split"
    return "fixed" if a.head_dim == b.head_dim else "other"


def at_image(arch: Arch, image: int) -> Arch:
    """`arch` for images of `image` x `image` pixels: the numbers of tokens follow, nothing else changes."""
    embed = arch.embed
    match embed:
        case Patch():
            tokens = (image // embed.patch) ** 2 + embed.prefix
        case Pixel():
            tokens = (image // embed.patch) ** 2 + 1
        case ConvStem():
            grid = image
            for conv in embed.convs:
                grid = conv_side(grid, conv)
            tokens = grid**2
        case _:
            raise UserError("this is no image model: set tokens instead of an image size")
    stages = []
    for stage in arch.stages:
        match stage.enter:
            case Downsample(kernel=kernel):
                tokens = (-(-side(tokens) // kernel)) ** 2
            case ClassToken():
                tokens = tokens + 1
        stages.append(replace(stage, tokens=tokens))
    return replace(arch, embed=replace(embed, image=image), stages=tuple(stages))
