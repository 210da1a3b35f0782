"""More heads, fewer layers: a redesign edits attention, depth and MLP width of a record, and nothing else.

"More heads" is two interventions. Policy `fixed` keeps head_dim, so that inner = heads x head_dim grows; `split` keeps
inner and makes every head thinner. Class attention and TNT's inner transformer are never touched, by type.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

from .errors import UserError
from .parts import Attention, Layer, Mlp, Nested, Outlook, Residual, Softmax, Stage, Token
from .spec import Arch, Sketch, attentions, editable, mlps

Policy = Literal["fixed", "split"]
Setting = int | Sequence[int] | None
SPLIT_TOLERANCE = 0.02  # inner widths that agree this closely are called split


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
    new = edit(base, depth=depths, heads=counts, head_dim=dims, mlp_dim=hidden, kv_heads=kv_heads)
    return Arch(arch.family, new.embed, new.stages, new.head)


def edit(
    arch: Arch | Sketch,
    *,
    depth: Sequence[Any] | None = None,
    heads: Sequence[Any] | None = None,
    head_dim: Sequence[Any] | None = None,
    mlp_dim: Sequence[Any] | None = None,
    kv_heads: Any = None,
) -> Sketch:
    """The bare edit behind `redesign`, one entry per editable stage: entries may be arrays or symbols."""
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
    values = [value] * len(stages) if isinstance(value, int) else list(value)
    if isinstance(value, int) and len(stages) > 1:
        raise UserError(f"{name} is {value}, but this family has {len(stages)} stages; write one number per stage, "
                        f"e.g. {','.join(str(_current(stage, name)) for stage in stages)}")
    if len(values) != len(stages):
        raise UserError(f"{name} has {len(values)} numbers and the model has {len(stages)} stages; write one per stage, "
                        f"e.g. {','.join(str(_current(stage, name)) for stage in stages)}")
    for number in values:
        if isinstance(number, bool) or not isinstance(number, int) or number < 1:
            raise UserError(f"{name} is {number!r}; write whole numbers from 1 up")
    return values


def _current(stage: Stage, name: str) -> int:
    if name == "depth":
        return stage.depth
    return mlps(stage)[0].mlp_dim if name == "mlp_dim" else int(getattr(attentions(stage)[0], name))


def _head_dim(stage: Stage, heads: int, policy: Policy) -> int:
    """head_dim that `policy` gives `heads` heads; refused, with numbers that work, where it is not whole."""
    op = attentions(stage)[0]
    if policy == "fixed":
        return op.head_dim
    inner = op.inner
    if inner % heads == 0:
        return inner // heads
    down, up = inner // heads, inner // heads + 1
    options = [f"head_dim={d} (inner {d * heads}, {d * heads / inner - 1:+.1%})" for d in (down, up) if d]
    whole = [h for h in range(1, 4 * heads) if inner % h == 0]
    close = sorted(sorted(whole, key=lambda h: abs(h - heads))[:2])
    raise UserError(
        f"inner {inner} does not split into {heads} heads: {inner}/{heads} is not whole. State {' or '.join(options)}, "
        f"split into {' or '.join(map(str, close))} heads, or keep head_dim {op.head_dim} with policy 'fixed' "
        f"(inner {op.head_dim * heads})"
    )


def _insist_on_split(stages: list[Stage], counts: list[int] | None, dims: list[int]) -> None:
    for at, stage in enumerate(stages):
        op = attentions(stage)[0]
        heads = op.heads if counts is None else counts[at]
        if abs(heads * dims[at] / op.inner - 1) > SPLIT_TOLERANCE:
            raise UserError(f"policy 'split' keeps inner {op.inner}, but {heads} heads of {dims[at]} give "
                            f"{heads * dims[at]}; leave out head_dim, or write policy 'fixed'")


def _at_tokens(arch: Arch, tokens: int) -> Arch:
    if not isinstance(arch.embed, Token):
        raise UserError("tokens can be set for language models; an image model's follow from its image size")
    stages = tuple(replace(stage, tokens=tokens) for stage in arch.stages)
    return replace(arch, stages=stages)


def policy_of(original: Arch, other: Arch) -> str:
    """What `other` did to the heads of `original`: `same`, `split`, `fixed`, or `other` when both sizes moved."""
    kinds = {_pair_policy(a, b) for a, b in zip(_heads(original), _heads(other), strict=False)} - {"same"}
    if not kinds:
        return "same"
    return kinds.pop() if len(kinds) == 1 else "mixed"


def _heads(arch: Arch) -> list[Attention]:
    return [op for i in editable(arch) for op in attentions(arch.stages[i])]


def _pair_policy(a: Attention, b: Attention) -> str:
    if (a.heads, a.head_dim) == (b.heads, b.head_dim):
        return "same"
    if a.heads != b.heads and abs(b.inner / a.inner - 1) <= SPLIT_TOLERANCE:
        return "split"
    return "fixed" if a.head_dim == b.head_dim else "other"


def main_attention(arch: Arch) -> tuple[Stage, Attention]:
    """The stage and attention that speak for a model: the deepest stage, token-mixing attention first."""
    stage = max((arch.stages[i] for i in editable(arch)), key=lambda s: s.depth)
    ops = attentions(stage)
    return stage, next((op for op in ops if isinstance(op.mix, Softmax)), ops[0])


def is_outlook(stage: Stage) -> bool:
    """Whether a stage mixes by outlook: there inner stays below tokens, and widening it does not help conditioning."""
    return any(isinstance(op.mix, Outlook) for op in attentions(stage))
