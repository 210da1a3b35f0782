"""In what the arms of an experiment differ: the axis and the series of its figure, found in the records and not stated.

Figure 1 of the rank paper varies head_dim, inner and depth; Figure 3 of the first one heads and depth. The fewest
numbers that tell all arms apart are looked for; the one with the most values is the axis, the others name the series.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from manyheads.arch.controls import depths, head_dims, heads, inners, mlp_dims
from manyheads.spec import serialise as record
from manyheads.spec.arch import Arch, editable

from .gather import ArmRuns

Value = float | str
MOST, POINTS, SERIES, SPARSE = 3, 3, 12, 2.5  # factors of a figure; points of a line; lines; cells of the grid an arm
# what a reader looks for first: inner only where heads and head_dim do not say it
ORDER = ("head_dim", "heads", "depth", "mlp_dim", "tokens", "width", "inner")


@dataclass(frozen=True)
class Sweep:
    """Arms as points: x and series of each; `x` names the axis."""

    x: str
    places: dict[str, float]
    series: dict[str, str]

    @property
    def names(self) -> list[str]:
        """The series in the order of their arms."""
        return list(dict.fromkeys(self.series.values()))


def sweep(arms: Sequence[ArmRuns]) -> Sweep | None:
    """The figure that arms make, None where they make none: too few, or no line through them."""
    if len(arms) < POINTS:
        return None
    table = {arm.name: dict(factors(arm)) for arm in arms}
    for names in _choices(table):
        found = _swept(table, names)
        if found is not None:
            return found
    return None


def factors(arm: ArmRuns) -> Iterator[tuple[str, Value]]:
    """Every number and word of an arm by name: its shape, then what its task and recipe say."""
    arch = arm.arch
    shape = {
        "head_dim": head_dims(arch),
        "heads": heads(arch),
        "depth": depths(arch),
        "mlp_dim": mlp_dims(arch),
        "tokens": _stages(arch, "tokens"),
        "width": _stages(arch, "width"),
        "inner": inners(arch),
    }
    for name, values in shape.items():
        yield name, float(values[0]) if len(set(values)) == 1 else ",".join(map(str, values))
    yield from _scalars(record.to_dict(arch)["embed"])
    spec = arm.runs[0].found.spec if arm.runs else None
    if spec is not None:
        yield from _scalars(spec.task)
        yield from _scalars(spec.recipe)


def _stages(arch: Arch, name: str) -> list[int]:
    return [getattr(arch.stages[i], name) for i in editable(arch)]


def _scalars(fields: Mapping[str, Any]) -> Iterator[tuple[str, Value]]:
    for name, value in fields.items():
        if name not in ORDER and isinstance(value, int | float | str):
            yield name, float(value) if isinstance(value, int | float) and not isinstance(value, bool) else str(value)


def _choices(table: Mapping[str, Mapping[str, Value]]) -> list[tuple[str, ...]]:
    """Sets of factors that tell all arms apart, those that make the fullest grid first."""
    arms = list(table.values())
    shared = set.intersection(*(set(arm) for arm in arms))
    values = {name: {arm[name] for arm in arms} for name in sorted(shared)}
    varying = sorted((name for name, found in values.items() if len(found) > 1), key=_preference)
    found = [
        names
        for size in range(1, MOST + 1)
        for names in combinations(varying, size)
        if len({tuple(arm[name] for name in names) for arm in arms}) == len(arms)
    ]
    cells = {names: math.prod(len(values[name]) for name in names) for names in found}
    full = [names for names in found if cells[names] <= SPARSE * len(arms)]
    return sorted(full, key=lambda names: (cells[names], len(names), "inner" in names, list(map(_preference, names))))


def _preference(name: str) -> tuple[int, str]:
    return (ORDER.index(name), "") if name in ORDER else (len(ORDER), name)


def _swept(table: Mapping[str, Mapping[str, Value]], names: tuple[str, ...]) -> Sweep | None:
    numbers = [name for name in names if all(isinstance(arm[name], float) for arm in table.values())]
    counts = {name: len({arm[name] for arm in table.values()}) for name in numbers}
    axis = max(numbers, key=lambda name: counts[name], default="")
    if not axis or counts[axis] < POINTS:
        return None
    places = {arm: float(values[axis]) for arm, values in table.items()}
    series = {
        arm: ", ".join(f"{name} {_text(values[name])}" for name in names if name != axis)
        for arm, values in table.items()
    }
    members = list(series.values())
    in_lines = sum(members.count(name) >= POINTS for name in members)
    return Sweep(axis, places, series) if len(set(members)) <= SERIES and 2 * in_lines >= len(members) else None


def _text(value: Value) -> str:
    return f"{value:g}" if isinstance(value, float) else value
