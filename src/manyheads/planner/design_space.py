"""The designs that are searched, as three axes: depths, attention (heads and head_dim), MLP widths.

For a flat model the axes hold every depth, every pair of heads and head_dim that the policies give, every MLP width.
The stages of a staged model move together: a design keeps at least some share of every stage's depth, gives at least
some factor of heads to each stage of a chosen subset, and keeps at least some share of every MLP. The cheapest way to
meet such a target is the cheapest depth, heads or MLP of each stage by itself; the axes hold these for every target.
Outlook attention is split or left alone, never widened."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from math import ceil

import numpy as np
from numpy.typing import NDArray

from manyheads.arch.controls import depths as depths_of
from manyheads.arch.controls import head_dims as head_dims_of
from manyheads.arch.controls import heads as heads_of
from manyheads.arch.controls import mlp_dims as mlp_dims_of
from manyheads.arch.redesign import SPLIT_TOLERANCE, edit, redesign
from manyheads.arch.thresholds import KERNELS
from manyheads.spec.arch import Arch, Sketch, attentions, editable
from manyheads.spec.arch_rules import divisors
from manyheads.spec.errors import UserError
from manyheads.spec.mixing import turned
from manyheads.spec.parts import Attention, Outlook, Softmax, Stage

from .constraints import Limits

Ints = NDArray[np.int64]
MOST_VALUES, MOST_DESIGNS = 10_000, 4_000_000_000  # on one axis; in all
HeadShape = tuple[int, int]  # heads, head_dim
MOST = 4  # heads go up to this multiple of the original's
LEAST_MLP = Fraction(1, 4)
SHARES = tuple(Fraction(k, 8) for k in range(2, 9))  # of a staged model's MLPs
GROWTHS = tuple(Fraction(k, 8) for k in range(9, 8 * MOST + 1))  # of a staged model's heads


@dataclass(frozen=True, eq=False)
class Space:
    """Every combination of a row of `depths`, a row of `heads` and `head_dims` (and `kv`) and a row of `mlps`, with one
    column for each stage."""

    original: Arch
    depths: Ints
    heads: Ints
    head_dims: Ints
    kv: Ints | None
    mlps: Ints | None

    @property
    def shape(self) -> tuple[int, int, int]:
        """Depths, attentions, MLPs."""
        return len(self.depths), len(self.heads), 1 if self.mlps is None else len(self.mlps)

    @property
    def size(self) -> int:
        """Number of designs."""
        return int(np.prod(self.shape))

    def sketch(self, which: slice) -> Sketch:
        """The designs with the attentions in `which`, as one record whose numbers are arrays: depths x attentions x
        MLPs."""
        depth, attention, mlp = (slice(None), None, None), (None, which, None), (None, None, slice(None))
        return self._edited(
            [column[depth] for column in self.depths.T],
            [column[attention] for column in self.heads.T],
            [column[attention] for column in self.head_dims.T],
            None if self.kv is None else self.kv[attention],
            None if self.mlps is None else [column[mlp] for column in self.mlps.T],
        )

    def rows(self, at: tuple[Ints, Ints, Ints]) -> Sketch:
        """The designs at these indices, as one record whose numbers are arrays."""
        depth, attention, mlp = at
        return self._edited(
            list(self.depths[depth].T),
            list(self.heads[attention].T),
            list(self.head_dims[attention].T),
            None if self.kv is None else self.kv[attention],
            None if self.mlps is None else list(self.mlps[mlp].T),
        )

    def _edited(
        self, depth: list[Ints], heads: list[Ints], dims: list[Ints], kv: Ints | None, mlp: list[Ints] | None
    ) -> Sketch:
        return edit(self.original, depth=depth, heads=heads, head_dim=dims, mlp_dim=mlp, kv_heads=kv)

    def arch(self, depth: int, attention: int, mlp: int) -> Arch:
        """One design as a record."""
        own = attentions(self.original.stages[editable(self.original)[0]])[0].kv_heads
        kv = None if self.kv is None else int(self.kv[attention])
        if own is None and kv == self.heads[attention, 0]:
            kv = None
        return redesign(
            self.original,
            depth=self.depths[depth].tolist(),
            heads=self.heads[attention].tolist(),
            head_dim=self.head_dims[attention].tolist(),
            kv_heads=kv,
            mlp_dim=None if self.mlps is None else self.mlps[mlp].tolist(),
        )

    def find(self, arch: Arch) -> tuple[int, int, int] | None:
        """The indices of `arch` on the axes, or None if it is not on them."""
        if len(editable(arch)) != self.depths.shape[1]:
            return None
        same = (self.heads == heads_of(arch)).all(1) & (self.head_dims == head_dims_of(arch)).all(1)
        first = attentions(arch.stages[editable(arch)[0]])[0]
        if self.kv is not None:
            same &= self.kv == (first.heads if first.kv_heads is None else first.kv_heads)
        spots = [np.flatnonzero((self.depths == depths_of(arch)).all(1)), np.flatnonzero(same)]
        spots.append(np.array([0]) if self.mlps is None else np.flatnonzero((self.mlps == mlp_dims_of(arch)).all(1)))
        if any(len(indices) == 0 for indices in spots):
            return None
        at = tuple(int(indices[0]) for indices in spots)
        return (at[0], at[1], at[2]) if self.arch(*at) == arch else None


def space(original: Arch, limits: Limits) -> Space:
    """The designs that `limits` allow."""
    stages = [original.stages[i] for i in editable(original)]
    if len(stages) == 1:
        heads, dims, kv = _attentions(stages[0], limits)
        heads, dims = heads[:, None], dims[:, None]
    else:
        heads, dims, kv = *_themes(stages, limits), None
    found = Space(original, _depths(original, limits), heads, dims, kv, _mlps(original, limits))
    if found.size > MOST_DESIGNS:
        raise UserError(
            f"the limits leave {found.size:,} designs, and at most {MOST_DESIGNS:,} are searched; write narrower ones, "
            "such as fewer heads, mlp='held' or a larger mlp_multiple"
        )
    return found


def _few(name: str, values: range) -> range:
    """`values` themselves where a search can go through all of them."""
    if len(values) > MOST_VALUES:
        raise UserError(
            f"{name} from {values[0]:,} to {values[-1]:,} are {len(values):,} values, and at most {MOST_VALUES:,} are "
            "searched; write narrower limits"
        )
    return values


def _depths(original: Arch, limits: Limits) -> Ints:
    full = depths_of(original)
    deepest = max(full)
    most = deepest if limits.max_depth is None else limits.max_depth
    if len(full) == 1:
        top = min(most, deepest - 1 if limits.max_depth is None and deepest > 1 else deepest)
        if limits.min_depth > top:
            raise UserError(
                f"min_depth {limits.min_depth} leaves no depth to cut, since the original has {deepest} layers; "
                f"write at most {top}"
            )
        return np.array(_few("depth", range(limits.min_depth, top + 1)), np.int64)[:, None]
    _few("depth", range(1, deepest + 1))
    shares = sorted({Fraction(k, d) for d in full for k in range(1, d + 1)})
    depths = [tuple(min(max(ceil(share * d), min(limits.min_depth, d)), most) for d in full) for share in shares]
    rows = sorted(set(depths) - ({tuple(full)} if limits.max_depth is None and deepest > 1 else set()))
    if not rows:
        raise UserError(f"min_depth {limits.min_depth} leaves no depth to cut from {full}; write a smaller one")
    return np.array(rows, np.int64)


def _mlps(original: Arch, limits: Limits) -> Ints | None:
    full = mlp_dims_of(original)
    if not all(full):
        return None
    if limits.mlp == "held":
        return np.array([full], np.int64)
    step = limits.mlp_multiple
    if len(full) == 1:
        low = ceil(LEAST_MLP * full[0] / step) * step
        return np.array(sorted({*_few("mlp", range(low, full[0] + 1, step)), full[0]}), np.int64)[:, None]
    shares = {tuple(min(m, ceil(share * m / step) * step) for m in full) for share in SHARES}
    return np.array(sorted(shares), np.int64)


def pairs(stage: Stage, limits: Limits) -> Iterator[HeadShape]:
    """Heads and head_dim that the limits allow in a stage, among them the original's."""
    op = attentions(stage)[0]
    low, high = limits.heads or (op.heads, max(MOST * op.heads, 8))
    seen = set()
    for heads in _few("heads", range(low, high + 1)):
        if heads % limits.heads_multiple and heads != op.heads:
            continue
        for dim in sorted({*limits.head_dims, op.head_dim, *_split_dims(op, heads)}):
            if _allowed(op, heads, dim, limits) and (heads, dim) not in seen:
                seen.add((heads, dim))
                yield heads, dim


def _split_dims(op: Attention, heads: int) -> range:
    """head_dims near inner / heads."""
    return range(max(1, op.inner // heads - 1), op.inner // heads + 3)


def _allowed(op: Attention, heads: int, dim: int, limits: Limits) -> bool:
    split = heads != op.heads and abs(heads * dim / op.inner - 1) <= SPLIT_TOLERANCE
    fixed = dim == op.head_dim
    if (heads, dim) == (op.heads, op.head_dim):
        return not limits.head_dims or dim in limits.head_dims
    if isinstance(op.mix, Outlook) and not split:
        return False
    rope = op.mix.rope if isinstance(op.mix, Softmax) else None
    if rope is not None and (dim % 2 or not turned(rope, dim)):
        return False
    neat = heads * dim == op.inner or dim in KERNELS
    usual = fixed or (split and neat and dim % limits.head_dim_multiple == 0)
    listed = dim in limits.head_dims if limits.head_dims else usual
    return listed and (limits.policy is None or (split if limits.policy == "split" else fixed))


def _attentions(stage: Stage, limits: Limits) -> tuple[Ints, Ints, Ints | None]:
    """Heads, head_dim and (for grouped queries) kv_heads of a flat model's attention."""
    op = attentions(stage)[0]
    grouped = op.kv_heads is not None or limits.kv_heads != "keep"
    if grouped and not isinstance(op.mix, Softmax):
        raise UserError(
            f"kv_heads {limits.kv_heads!r}: only softmax attention shares keys and values, not "
            f"{type(op.mix).__name__}; leave it out"
        )
    rows = []
    for heads, dim in pairs(stage, limits):
        for kv in _kv(op, heads, dim, limits) if grouped else (heads,):
            own = (op.heads, op.head_dim, op.kv_heads or op.heads)
            if limits.heads is not None or (heads > op.heads and (heads, dim, kv) != own):
                rows.append((heads, dim, kv))
    if not rows:
        raise UserError(
            "no heads are left: the limits on policy, head_dims, heads, kv_heads and multiples exclude every "
            f"design with more than {op.heads} heads; loosen one of these limits"
        )
    table = np.array(rows, np.int64)
    return table[:, 0], table[:, 1], table[:, 2] if grouped else None


def _kv(op: Attention, heads: int, dim: int, limits: Limits) -> list[int]:
    """Key and value heads for a number of heads."""
    match limits.kv_heads:
        case "any":
            return divisors(heads)
        case "keep":
            if op.kv_heads is None:
                return [heads]
            # fixed keeps their number, split keeps their columns, as `redesign` does
            split = op.kv_inner // dim if op.kv_inner % dim == 0 else 0
            kv = op.kv_heads if dim == op.head_dim else split
            return [kv] if kv and heads % kv == 0 else []
        case number:
            return [number] if heads % number == 0 else []


def _themes(stages: list[Stage], limits: Limits) -> tuple[Ints, Ints]:
    """Heads and head_dims of a staged model. Each row is a theme: a policy, a factor of heads and the stages that get
    it."""
    if limits.kv_heads != "keep":
        raise UserError(
            f"kv_heads {limits.kv_heads!r}: grouped queries are searched for flat models only; leave it out"
        )
    own: list[HeadShape] = [(op.heads, op.head_dim) for op in (attentions(stage)[0] for stage in stages)]
    options = [
        [pair for pair in pairs(stage, limits) if pair[0] > op[0]] for stage, op in zip(stages, own, strict=True)
    ]
    columns: set[tuple[HeadShape | None, ...]] = set()
    for growth in GROWTHS:
        wide = [_cheapest(shapes, base, growth, fixed=True) for shapes, base in zip(options, own, strict=True)]
        thin = [_cheapest(shapes, base, growth, fixed=False) for shapes, base in zip(options, own, strict=True)]
        columns |= {tuple(wide), tuple(thin)}
    themes = {
        tuple(pair if i in chosen and pair is not None else own[i] for i, pair in enumerate(column))
        for column in columns
        for size in range(1, len(stages) + 1)
        for chosen in combinations(range(len(stages)), size)
    } - {tuple(own)}
    if not themes:
        raise UserError(
            "no heads are left: the limits on policy, head_dims, heads and multiples exclude every design with "
            "more heads; loosen one of these limits"
        )
    table = np.array(sorted(themes), np.int64)
    return table[:, :, 0], table[:, :, 1]


def _cheapest(shapes: list[HeadShape], own: HeadShape, growth: Fraction, *, fixed: bool) -> HeadShape | None:
    """With `fixed` head_dim, the fewest heads from `growth` times the original's on; else exactly that many, split."""
    if fixed:
        return min((pair for pair in shapes if pair[1] == own[1] and pair[0] >= growth * own[0]), default=None)
    return min((pair for pair in shapes if pair[1] != own[1] and pair[0] == growth * own[0]), default=None)
