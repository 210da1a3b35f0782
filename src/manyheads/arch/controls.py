"""Controls: the further models (arms) that an honest comparison of an original and its lean redesign needs.

A lean design has more heads *and* fewer layers; the controls take these apart. Each control says what it matches and by
how much it misses (`residual`, relative). One that cannot come within 1 % of what it matches is refused (2 % for
`split`, the tolerance at which a pair is called split)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from manyheads.spec.arch import Arch, attentions, editable, mlps
from manyheads.spec.errors import UserError
from manyheads.spec.parts import (
    Attention,
    ClassAttention,
    ConvStem,
    Mlp,
    Nested,
    Points,
    Residual,
    Softmax,
    Stage,
    Token,
)

from .count import params
from .redesign import policy_of, redesign

LIMIT = 0.01


@dataclass(frozen=True)
class Control:
    """One arm: its record, what it has in common with the lean design or the original, and the relative miss.

    `same_as` names an earlier arm with the very same record: if lean is split, its `wide_heads` is its `depth_only`."""

    name: str
    arch: Arch = field(repr=False)
    matches: str
    residual: float
    same_as: str = ""


def _column(arch: Arch, what: Callable[[Stage], int]) -> list[int]:
    return [what(arch.stages[i]) for i in editable(arch)]


def depths(arch: Arch) -> list[int]:
    """Depth of each editable stage."""
    return _column(arch, lambda stage: stage.depth)


def heads(arch: Arch) -> list[int]:
    """Heads of each editable stage."""
    return _column(arch, lambda stage: attentions(stage)[0].heads)


def head_dims(arch: Arch) -> list[int]:
    """head_dim of each editable stage."""
    return _column(arch, lambda stage: attentions(stage)[0].head_dim)


def inners(arch: Arch) -> list[int]:
    """Inner width of each editable stage."""
    return _column(arch, lambda stage: attentions(stage)[0].inner)


def mlp_dims(arch: Arch) -> list[int]:
    """MLP width of each editable stage; 0 where it has no MLP."""
    return _column(arch, lambda stage: next((op.mlp_dim for op in mlps(stage)), 0))


def per_stage(values: Sequence[object]) -> str:
    """The value that all stages share, or one value per stage: 7, or 1,1,5,1."""
    return str(values[0]) if len(set(values)) == 1 else ",".join(map(str, values))


def depth_only(original: Arch, lean: Arch) -> Control:
    """Lean's depth and MLP with the original heads: what fewer layers do alone."""
    arch = redesign(original, depth=depths(lean), mlp_dim=mlp_dims(lean))
    return Control("depth_only", arch, "lean's depth", 0.0)


def heads_only(original: Arch, lean: Arch) -> Control:
    """The original depth and MLP with lean's heads: what more heads do alone."""
    arch = redesign(lean, depth=depths(original), mlp_dim=mlp_dims(original))
    return Control("heads_only", arch, "the original depth", 0.0)


def split(original: Arch, lean: Arch) -> Control:
    """Lean with its heads split from the original inner width; head_dim is rounded to the nearest one that works."""
    dims, miss = _nearest_dims(inners(original), heads(lean), lean)
    arch = redesign(lean, heads=heads(lean), head_dim=dims)
    return _within(Control("split", arch, "the original inner width", miss), 2 * LIMIT)


def fixed(original: Arch, lean: Arch) -> Control:
    """Lean with its heads at the original head_dim."""
    arch = redesign(lean, heads=heads(lean), head_dim=head_dims(original))
    return Control("fixed", arch, "the original head_dim", 0.0)


def wide_heads(original: Arch, lean: Arch) -> Control:
    """Lean's inner width (heads x head_dim) with the original number of heads: larger heads in place of more."""
    dims, miss = _nearest_dims(inners(lean), heads(original), lean)
    arch = redesign(depth_only(original, lean).arch, heads=heads(original), head_dim=dims)
    return _within(Control("wide_heads", arch, "lean's inner width", miss))


def _nearest_dims(targets: list[int], counts: list[int], arch: Arch) -> tuple[list[int], float]:
    """head_dims that bring `counts` heads nearest to inner widths `targets`, and the largest relative miss."""
    ops = [attentions(arch.stages[i])[0] for i in editable(arch)]
    step = 2 if any(isinstance(op.mix, Softmax) and op.mix.rope is not None for op in ops) else 1
    dims = [max(step, step * round(target / count / step)) for target, count in zip(targets, counts, strict=True)]
    misses = [count * dim / target - 1 for target, count, dim in zip(targets, counts, dims, strict=True)]
    return dims, max(misses, key=abs)


def mlp_matched(original: Arch, lean: Arch) -> Control:
    """Lean's depth with the original heads, and the MLP widened until the parameters are lean's."""
    base = depth_only(original, lean).arch
    target, start = params(lean).total, mlp_dims(lean)

    def at(scale: int) -> Arch:
        return redesign(base, mlp_dim=[max(1, round(m * scale / 4096)) for m in start])

    return _within(_search("mlp_matched", at, 64, 4096 * 64, target))


def params_matched(original: Arch, lean: Arch) -> Control:
    """The original depth at a smaller width: head_dim kept, heads and MLP scaled with the width.

    The width is a multiple of 8 in every stage; the MLP is then trimmed to meet the parameters."""
    target = params(lean).total
    narrowest = min(stage.width for stage in original.stages)
    near = _search("", lambda eighths: at_width(original, 8 * eighths / narrowest), 1, narrowest // 4, target).arch

    def trimmed(scale: int) -> Arch:
        return redesign(near, mlp_dim=[max(1, round(m * scale / 1024)) for m in mlp_dims(near)])

    return _within(_search("params_matched", trimmed, 64, 4096, target))


def makers(original: Arch, lean: Arch) -> dict[str, Callable[[Arch, Arch], Control]]:
    """The function that makes each control of a pair, by name."""
    policy = fixed if policy_of(original, lean) == "split" else split
    functions: list[Callable[[Arch, Arch], Control]] = [depth_only, heads_only, policy, wide_heads, mlp_matched]
    if not isinstance(original.embed, Points):  # points enter at their own dimension: no other width is possible
        functions.append(params_matched)
    return {make.__name__: make for make in functions}


def controls(original: Arch, lean: Arch) -> dict[str, Control]:
    """All controls of a pair by name. The policy control is `fixed` for a split lean, and `split` for any other."""
    arms: dict[str, Control] = {}
    seen: list[tuple[str, Arch]] = [("original", original), ("lean", lean)]
    for name, make in makers(original, lean).items():
        if name in ("mlp_matched", "params_matched") and not all(mlp_dims(lean)):
            continue
        control = make(original, lean)
        twin = next((name for name, arch in seen if arch == control.arch), "")
        arms[control.name] = replace(control, same_as=twin)
        seen.append((control.name, control.arch))
    return arms


def at_width(arch: Arch, ratio: float) -> Arch:
    """`arch` at another width: every width, MLP and stem channel scaled, head_dim kept, heads in proportion."""

    def scaled(number: int) -> int:
        return max(1, round(number * ratio))

    def layer(item: Any) -> Any:
        if isinstance(item, Nested):
            return replace(item, outer=layer(item.outer))
        return tuple(replace(branch, op=_op(branch)) for branch in item)

    def _op(branch: Residual) -> Any:
        match branch.op:
            case Mlp() as op:
                return replace(op, mlp_dim=scaled(op.mlp_dim))
            case Attention() as op:
                kv = op.kv_heads
                if kv is None:
                    return replace(op, heads=scaled(op.heads))
                group = op.heads // kv
                return replace(op, heads=scaled(kv) * group, kv_heads=scaled(kv))
            case ClassAttention() as op:
                return replace(op, heads=scaled(op.heads))
            case op:
                return op

    stages = tuple(
        replace(stage, width=scaled(stage.width), unit=tuple(layer(item) for item in stage.unit))
        for stage in arch.stages
    )
    embed = arch.embed
    if isinstance(embed, Token) and embed.scale == arch.stages[0].width ** 0.5:  # it follows from the width
        embed = replace(embed, scale=stages[0].width ** 0.5)
    if isinstance(embed, ConvStem):
        convs = [replace(conv, out=scaled(conv.out)) for conv in embed.convs]
        convs[-1] = replace(convs[-1], out=stages[0].width)
        embed = replace(embed, convs=tuple(convs))
    return replace(arch, embed=embed, stages=stages)


def _search(name: str, at: Callable[[int], Arch], low: int, high: int, target: int) -> Control:
    """The design nearest to `target` parameters, by bisection over a number that they grow with."""
    first, last = low, high
    while high - low > 1:
        middle = (low + high) // 2
        if params(at(middle)).total < target:
            low = middle
        else:
            high = middle
    near = [at(number) for number in range(max(first, low - 4), min(last, high + 4) + 1)]
    best = min(near, key=lambda arch: abs(params(arch).total - target))
    return Control(name, best, "lean's parameters", params(best).total / target - 1)


def _within(control: Control, limit: float = LIMIT) -> Control:
    if abs(control.residual) > limit:
        raise UserError(
            f"control {control.name} comes no closer than {control.residual:+.2%} to {control.matches}; "
            f"{limit:.0%} is the limit. Choose a lean design whose numbers divide better"
        )
    return control
