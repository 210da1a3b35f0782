"""What a figure shows, as a record: its lines, marks and axes. It is drawn as SVG and PNG and written as CSV."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

Point = tuple[float, float]
Kind = Literal["", "faint", "dotted", "printed"]
TICK_ROOM = 0.075  # share of an axis that the number at a tick takes


@dataclass(frozen=True)
class Line:
    """A line in the colour of arm or series number `colour`. A `faint` one is one seed among several, a `dotted` one a
    prediction, a `printed` one what the paper has; others end in a mark if `end` is set."""

    points: Sequence[Point]
    colour: int
    kind: Kind = ""
    title: str = ""
    end: bool = True


@dataclass(frozen=True)
class Dot:
    """A mark in the colour and shape of arm or series number `colour`, with a label and a bar of `error` to both sides.
    A `faint` one is one seed among several, a `hollow` one what the paper printed."""

    x: float
    y: float
    colour: int
    error: float = 0.0
    label: str = ""
    faint: bool = False
    hollow: bool = False
    title: str = ""


@dataclass(frozen=True)
class Chart:
    """Lines and marks between two axes. `x` and `y` name the axes, `show_x` and `show_y` write a number at a tick.
    `ticks_x` holds all values of x where these are few; with `whole_x` they count steps or layers. `keys` names the
    series where these are not the arms."""

    title: str
    x: str
    y: str
    lines: Sequence[Line] = ()
    dots: Sequence[Dot] = ()
    log_x: bool = False
    log_y: bool = False
    ticks_x: Sequence[float] = ()
    whole_x: bool = False
    keys: Sequence[str] = ()
    show_x: Callable[[float], str] = field(default=lambda value: f"{value:g}")
    show_y: Callable[[float], str] = field(default=lambda value: f"{value:g}")


@dataclass(frozen=True)
class Figure:
    """A chart with its caption and the names of its colours."""

    chart: Chart
    caption: str
    names: Sequence[str]

    @property
    def series(self) -> Sequence[str]:
        """The name of each colour: the chart's own series, or the arms."""
        return self.chart.keys or self.names


def thin(points: Sequence[Point], limit: int) -> list[Point]:
    """At most `limit` of the finite points, evenly spaced, both ends among them."""
    finite = [point for point in points if math.isfinite(point[0]) and math.isfinite(point[1])]
    if len(finite) <= limit:
        return finite
    return [finite[round(i * (len(finite) - 1) / (limit - 1))] for i in range(limit)]


def numbers(figure: Figure) -> list[list[str]]:
    """The numbers of a figure, one row per point: series, kind, x, y, error. Percentages are written as shares."""
    chart, series = figure.chart, dict(enumerate(figure.series))
    rows = [["series", "kind", chart.x, chart.y.removesuffix(", %"), "error"]]
    for line in chart.lines:
        name = series.get(line.colour, "")
        rows += [[name, line.title or line.kind, repr(x), repr(y), ""] for x, y in line.points]
    for dot in chart.dots:
        kind = "printed" if dot.hollow else "seed" if dot.faint else "mean"
        error = repr(dot.error) if dot.error else ""
        rows.append([series.get(dot.colour, ""), kind, repr(dot.x), repr(dot.y), error])
    return rows


@dataclass(frozen=True)
class Axis:
    """Maps values from `low` to `high` to places from 0 to 1, on a linear or a logarithmic scale."""

    low: float
    high: float
    log: bool = False

    @classmethod
    def over(cls, values: Sequence[float], *, log: bool = False, room: float = 0.0) -> Axis:
        """An axis that holds all values, with a share of its length as room at both ends. It is linear, whatever `log`
        says, where a value is not above 0."""
        log = log and min(values) > 0
        low, high = (math.log10(value) if log else value for value in (min(values), max(values)))
        pad = (high - low) * room or (0.0 if high > low else abs(high) * 0.05 or 0.5)
        low, high = low - pad, high + pad
        return cls(10**low, 10**high, True) if log else cls(low, high)

    def share(self, value: float) -> float:
        """Where along the axis a value is, 0 to 1."""
        if self.log:
            return (math.log10(value) - math.log10(self.low)) / (math.log10(self.high) - math.log10(self.low))
        return (value - self.low) / (self.high - self.low)

    def ticks(self, *, whole: bool = False) -> list[float]:
        """Round values to mark; with `whole`, whole numbers alone, since there is no half a layer or step."""
        values = log_ticks(self.low, self.high) if self.log else ticks(self.low, self.high)
        return [value for value in values if value == round(value)] if whole else values

    def spaced(self, values: Sequence[float]) -> list[float]:
        """As many of the values, from the smallest up, as have room for their numbers beside each other."""
        spaced: list[float] = []
        for value in sorted(set(values)):
            if not spaced or self.share(value) - self.share(spaced[-1]) >= TICK_ROOM:
                spaced.append(value)
        return spaced


def ticks(low: float, high: float, about: int = 5) -> list[float]:
    """Round numbers between `low` and `high`, `about` so many."""
    if not high > low:
        return [low]
    raw = (high - low) / about
    power = 10.0 ** math.floor(math.log10(raw))
    step = min((m * power for m in (1, 2, 2.5, 5, 10)), key=lambda step: abs(step - raw))
    first = math.ceil(low / step - 1e-9)
    return [round(i * step, 12) for i in range(first, math.floor(high / step + 1e-9) + 1)]


def log_ticks(low: float, high: float) -> list[float]:
    """1, 2 and 5 times powers of ten between `low` and `high`: powers alone over more than four decades, and evenly
    spaced numbers where fewer than three such values lie between."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    factors = (1, 2, 5) if len(powers) <= 4 else (1,)
    values = [m * 10.0**p for p in powers for m in factors if low <= m * 10.0**p <= high]
    step = max(1, math.ceil(len(values) / 7))
    return values[::step] if len(values) > 2 else ticks(low, high, 4)
