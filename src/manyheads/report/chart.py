"""What a figure shows, as a record: drawn as SVG on the page and as files beside it, written out as a table of
numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

Point = tuple[float, float]
Kind = Literal["", "faint", "dotted", "printed"]


@dataclass(frozen=True)
class Line:
    """A line in the colour of arm or series number `colour`; `faint` is one seed among several, `dotted` a prediction,
    `printed` what the paper has. `end` puts a mark at the end of a strong one."""

    points: Sequence[Point]
    colour: int
    kind: Kind = ""
    title: str = ""
    end: bool = True


@dataclass(frozen=True)
class Dot:
    """A mark in the colour and shape of arm or series number `colour`, with a bar of `error` to both sides and a label.
    `faint` is one seed among several, `hollow` what the paper printed."""

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
    """What is drawn, and what its axes are. `show_x` and `show_y` write a number at a tick; `ticks_x` are all values of
    x where they are few; with `whole_x` they count steps or layers. `keys` names the series where these are not the
    arms."""

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
    """A chart, what to know about it, and the names of its colours."""

    chart: Chart
    caption: str
    names: Sequence[str]


def thin(points: Sequence[Point], limit: int) -> list[Point]:
    """At most `limit` of the points, evenly chosen, both ends among them; those that are not finite are left out."""
    kept = [point for point in points if math.isfinite(point[0]) and math.isfinite(point[1])]
    if len(kept) <= limit:
        return kept
    return [kept[round(i * (len(kept) - 1) / (limit - 1))] for i in range(limit)]


def numbers(figure: Figure) -> list[list[str]]:
    """The numbers of a figure, one row a point: series, what it is, x, y, error. Percent are shares here."""
    chart, names = figure.chart, figure.chart.keys or figure.names
    rows = [["series", "kind", chart.x, chart.y.removesuffix(", %"), "error"]]
    for line in chart.lines:
        rows += [[_name(names, line.colour), line.title or line.kind, repr(x), repr(y), ""] for x, y in line.points]
    for dot in chart.dots:
        kind = "printed" if dot.hollow else "seed" if dot.faint else "mean"
        rows.append([_name(names, dot.colour), kind, repr(dot.x), repr(dot.y), repr(dot.error) if dot.error else ""])
    return rows


def _name(names: Sequence[str], colour: int) -> str:
    return names[colour] if colour < len(names) else ""
