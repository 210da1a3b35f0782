"""Readings of a printed row: the models that its authors may have counted, and which of them print the same figure.

A row states depth and heads, but not head_dim, and its MLP width need not be the one that was counted. So a grid of
models is tried. The grid of a vision or language row is {head_dim kept, inner kept, head_dim 64} x {the stated MLP,
half multiples of the width, powers of two; for staged families one ratio for all stages, or the stated one halved in
some}. For the Long-Range Arena rows it is {1, 2} layers x {2, 4, 6, 8} heads x head_dim {32, 64} x MLP {128, 256} x
convolution {35 taps, none}.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import ROUND_DOWN, ROUND_HALF_EVEN, ROUND_HALF_UP, Decimal
from functools import cache
from itertools import product

from manyheads.arch.controls import head_dims, inners
from manyheads.arch.count import params
from manyheads.arch.redesign import policy_of, redesign
from manyheads.spec.arch import Arch
from manyheads.spec.errors import UserError

from .rows import BY_ID, Numbers, Row


@dataclass(frozen=True)
class Reading:
    """One way to build a row: how it differs from what the row states, its policy, its exact count."""

    label: str
    arch: Arch
    policy: str
    params: int
    changes: tuple[str, ...]  # what it needs beyond the stated configuration; empty for a reading as stated


def agrees(count: int, printed: str, unit: str) -> str:
    """`rounds` or `truncates` if `count` prints as `printed`, or nothing."""
    value = Decimal(count) / (1_000_000 if unit == "M" else 1_000)
    step = Decimal(1).scaleb(-_decimals(printed))
    if Decimal(printed) in (value.quantize(step, ROUND_HALF_UP), value.quantize(step, ROUND_HALF_EVEN)):
        return "rounds"
    return "truncates" if value.quantize(step, ROUND_DOWN) == Decimal(printed) else ""


def _decimals(printed: str) -> int:
    return len(printed.partition(".")[2])


@cache
def readings(row_id: str) -> tuple[Reading, ...]:
    """All readings of the row's grid, those as stated first, then by how much they change."""
    row = BY_ID[row_id]
    grid = _lra(row) if row.table == 3 else _general(row)
    unique: dict[Arch, Reading] = {}
    for reading in sorted(grid, key=lambda r: len(r.changes)):
        unique.setdefault(reading.arch, reading)
    return tuple(unique.values())


def matching(row: Row) -> tuple[Reading, ...]:
    """The readings whose count prints as the row's figure."""
    figure = row.figure
    if figure is None:
        return ()
    return tuple(r for r in readings(row.id) if agrees(r.params, figure, row.unit))


def _reading(base: Arch, arch: Arch, label: str, changes: list[str]) -> Reading:
    return Reading(label, arch, policy_of(base, arch), params(arch).total, tuple(changes))


def _general(row: Row) -> Iterator[Reading]:
    for mlp, mlp_change in _mlp_widths(row):
        base = row.model.make(mlp)
        for label, arch in _policies(row, base):
            mlp_text = "" if row.mlp is None and not mlp_change else f", MLP {_show(mlp)}"
            yield _reading(base, arch, label + mlp_text, [mlp_change] if mlp_change else [])


def _policies(row: Row, base: Arch) -> Iterator[tuple[str, Arch]]:
    """The row's depth and heads on `base`: head_dim kept, inner kept where that is whole, head_dim 64."""
    if row.role == "original":
        dims = head_dims(base)
        yield f"head_dim {_show(tuple(dims))}", base
        return
    counts = [row.heads] if isinstance(row.heads, int) else list(row.heads)
    same = head_dims(base)
    split = [inner // count for inner, count in zip(inners(base), counts, strict=True)]
    if row.model.floors:
        split = [stage.width // count for stage, count in zip(base.stages, counts, strict=True)]
    tried: list[list[int]] = []
    for dims in (same, split, [64] * len(counts)):
        if dims in tried:
            continue
        tried.append(dims)
        try:
            arch = redesign(base, depth=row.depth, heads=row.heads, head_dim=dims)
        except UserError:
            continue
        if (
            dims == split
            and any(inner % n for inner, n in zip(inners(base), counts, strict=True))
            and not row.model.floors
        ):
            continue  # a code that splits refuses such a head count
        yield f"head_dim {_show(tuple(dims))}", arch


def _mlp_widths(row: Row) -> Iterator[tuple[Numbers, str]]:
    """MLP widths to try, and what each changes about the row."""
    widths = row.model.widths
    if isinstance(widths, int):
        default = row.mlp if isinstance(row.mlp, int) else row.model.mlp_ratio * widths
        yield default, ""
        tried = {default}
        halves = [widths * k // 2 for k in range(1, 9)]
        for mlp in (*sorted(halves, reverse=True), 256, 512, 1024, 2048, 4096, 8192):
            if mlp not in tried and mlp <= 8 * widths:
                tried.add(mlp)
                yield mlp, f"MLP {mlp} in place of {default}"
        return
    assert isinstance(row.mlp, tuple)
    yield row.mlp, ""
    seen = {row.mlp}
    for ratio in (4, 3, 2, 1):
        uniform = tuple(ratio * width for width in widths)
        if uniform not in seen:
            seen.add(uniform)
            yield uniform, f"MLP ratio {ratio}"
    for halved in product((1, 2), repeat=len(widths)):
        cut = tuple(m // h for m, h in zip(row.mlp, halved, strict=True))
        if cut not in seen:
            seen.add(cut)
            yield cut, f"MLP halved in stage {', '.join(str(i + 1) for i, h in enumerate(halved) if h == 2)}"


def _lra(row: Row) -> Iterator[Reading]:
    base = row.model.make(128)
    for depth, count, dim, mlp, conv in product((1, 2), (2, 4, 6, 8), (32, 64), (128, 256), (35, 0)):
        arch = redesign(row.model.make(mlp, conv), depth=depth, heads=count, head_dim=dim)
        changes = [
            text
            for text, differs in (
                (f"{depth} layer{'s' * (depth > 1)}", depth != row.depth),
                (f"{count} heads", count != row.heads),
                (f"head_dim {dim}", dim != 32),
                (f"block MLP {mlp}", mlp != 128),
            )
            if differs
        ]
        label = f"({depth},{count}) x {dim}, {'conv 35' if conv else 'no conv'}" + (
            f", MLP {mlp}" if mlp != 128 else ""
        )
        yield _reading(base, arch, label, changes)


def _show(numbers: Numbers) -> str:
    if isinstance(numbers, int):
        return str(numbers)
    return str(numbers[0]) if len(set(numbers)) == 1 else "[" + ",".join(map(str, numbers)) + "]"
