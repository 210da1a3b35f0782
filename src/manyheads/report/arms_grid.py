"""What the arms of an experiment differ in, which is read from their records: the axis and the series of its figures.

Figure 1 of the rank paper varies head_dim, inner and depth; Figure 3 of the first paper heads and depth. `arms_grid`
looks for the fewest factors that distinguish all arms. The factor with the most values is the axis; the others name the
series."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from manyheads.arch.controls import depths, head_dims, heads, inners, mlp_dims
from manyheads.spec import serialise
from manyheads.spec.arch import Arch, editable
from manyheads.spec.serialise import to_dict

from .chart import Chart, Dot, Line
from .read_runs import ArmRuns

Value = float | str
FACTORS, POINTS, SERIES = 3, 3, 12  # at most so many factors in a figure; at least so many points in a line; most lines
SPARSE = 2.5  # at most so many cells of the grid for each arm
LOG = 8.0  # the axis is logarithmic if its largest value is so many times its smallest
# what a reader looks for first; inner only where heads and head_dim do not distinguish the arms
ORDER = ("head_dim", "heads", "depth", "mlp_dim", "tokens", "width", "inner")


@dataclass(frozen=True)
class ArmsGrid:
    """Arms as points: the place along the axis and the series of each; `x` names the axis."""

    x: str
    places: dict[str, float]
    series: dict[str, str]

    @property
    def names(self) -> list[str]:
        """The series in the order of their arms."""
        return list(dict.fromkeys(self.series.values()))

    def draw(
        self,
        values: Mapping[str, float],
        spreads: Mapping[str, float],
        text: Callable[[float], str],
        *,
        printed: bool = False,
    ) -> tuple[list[Line], list[Dot]]:
        """Marks at the arms' values and lines through them, series by series."""
        lines, dots = [], []
        for colour, name in enumerate(self.names):
            arms = [arm for arm, series in self.series.items() if series == name and arm in values]
            arms.sort(key=lambda arm: self.places[arm])
            points = [(self.places[arm], values[arm]) for arm in arms]
            if len(points) > 1:
                title = f"{name}{', paper' * printed}"
                lines.append(Line(points, colour, "printed" if printed else "", title, end=False))
            for arm, (x, y) in zip(arms, points, strict=True):
                title = f"{arm}{', as printed' * printed}: {text(y)}"
                dots.append(Dot(x, y, colour, spreads.get(arm, 0.0), hollow=printed, title=title))
        return lines, dots

    def chart(
        self,
        title: str,
        y: str,
        lines: Sequence[Line],
        dots: Sequence[Dot],
        show_y: Callable[[float], str],
        *,
        log_y: bool = False,
    ) -> Chart:
        """A chart over the axis of the grid."""
        places = sorted(set(self.places.values()))
        log_x = places[0] > 0 and places[-1] / places[0] >= LOG
        return Chart(
            title, self.x, y, lines, dots, log_x=log_x, log_y=log_y, ticks_x=places, keys=self.names, show_y=show_y
        )


def arms_grid(arms: Sequence[ArmRuns]) -> ArmsGrid | None:
    """The grid that the arms make. None where they are too few or no line goes through them."""
    if len(arms) < POINTS:
        return None
    table = {arm.name: dict(factors(arm)) for arm in arms}
    grids = (_grid(table, names) for names in _choices(table))
    return next((grid for grid in grids if grid is not None), None)


def factors(arm: ArmRuns) -> Iterator[tuple[str, Value]]:
    """Every number and word of an arm by name: its shape, then what its task and recipe say."""
    arch = arm.arch
    shape = {
        "head_dim": head_dims(arch),
        "heads": heads(arch),
        "depth": depths(arch),
        "mlp_dim": mlp_dims(arch),
        "tokens": [stage.tokens for stage in _stages(arch)],
        "width": [stage.width for stage in _stages(arch)],
        "inner": inners(arch),
    }
    for name, values in shape.items():
        yield name, float(values[0]) if len(set(values)) == 1 else ",".join(map(str, values))
    yield from _scalars(serialise.to_dict(arch)["embed"])
    spec = arm.runs[0].folder.spec if arm.runs else None
    if spec is not None:
        yield from _scalars(to_dict(spec.task))
        yield from _scalars(to_dict(spec.recipe))


def _stages(arch: Arch) -> list[Any]:
    return [arch.stages[i] for i in editable(arch)]


def _scalars(fields: Mapping[str, Any]) -> Iterator[tuple[str, Value]]:
    for name, value in fields.items():
        if name not in ORDER and isinstance(value, int | float | str):
            yield name, float(value) if isinstance(value, int | float) and not isinstance(value, bool) else str(value)


def _choices(table: Mapping[str, Mapping[str, Value]]) -> list[tuple[str, ...]]:
    """Sets of factors that distinguish all arms, those that make the fullest grid first."""
    arms = list(table.values())
    shared = set.intersection(*(set(arm) for arm in arms))
    values = {name: {arm[name] for arm in arms} for name in sorted(shared)}
    varying = sorted((name for name, different in values.items() if len(different) > 1), key=_preference)
    choices = [
        names
        for size in range(1, FACTORS + 1)
        for names in combinations(varying, size)
        if len({tuple(arm[name] for name in names) for arm in arms}) == len(arms)
    ]
    cells = {names: math.prod(len(values[name]) for name in names) for names in choices}
    full = [names for names in choices if cells[names] <= SPARSE * len(arms)]
    return sorted(full, key=lambda names: (cells[names], len(names), "inner" in names, list(map(_preference, names))))


def _preference(name: str) -> tuple[int, str]:
    return (ORDER.index(name), "") if name in ORDER else (len(ORDER), name)


def _grid(table: Mapping[str, Mapping[str, Value]], names: tuple[str, ...]) -> ArmsGrid | None:
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
    return ArmsGrid(axis, places, series) if len(set(members)) <= SERIES and 2 * in_lines >= len(members) else None


def _text(value: Value) -> str:
    return f"{value:g}" if isinstance(value, float) else value
