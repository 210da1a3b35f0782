"""Line and point charts as inline SVG. Colours are the page's CSS variables, so that a chart is light or dark with it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from html import escape

WIDTH, HEIGHT = 400, 290
LEFT, RIGHT, TOP, BOTTOM = 56, 20, 14, 44
COLOURS = 8
ASIDE = 14.0
LABEL = 15.0  # height of a line of labels
SHAPES = ("circle", "square", "triangle", "diamond")
Point = tuple[float, float]


@dataclass(frozen=True)
class Line:
    """A line in the colour of arm number `colour`; `faint` for one seed among several, `dotted` for a prediction."""

    points: Sequence[Point]
    colour: int
    faint: bool = False
    dotted: bool = False
    title: str = ""


@dataclass(frozen=True)
class Dot:
    """A mark in the colour and shape of arm number `colour`, with a bar of `error` to both sides and a label."""

    x: float
    y: float
    colour: int
    error: float = 0.0
    label: str = ""
    faint: bool = False
    title: str = ""


@dataclass(frozen=True)
class Chart:
    """What is drawn, and what its axes are. `show_x` and `show_y` write a number at a tick."""

    title: str
    x: str
    y: str
    lines: Sequence[Line] = ()
    dots: Sequence[Dot] = ()
    log_y: bool = False
    show_x: Callable[[float], str] = field(default=lambda value: f"{value:g}")
    show_y: Callable[[float], str] = field(default=lambda value: f"{value:g}")


def thin(points: Sequence[Point], limit: int) -> list[Point]:
    """At most `limit` of the points, evenly chosen, both ends among them; those that are not finite are left out."""
    kept = [point for point in points if math.isfinite(point[0]) and math.isfinite(point[1])]
    if len(kept) <= limit:
        return kept
    return [kept[round(i * (len(kept) - 1) / (limit - 1))] for i in range(limit)]


def ticks(low: float, high: float, wanted: int = 5) -> list[float]:
    """Round numbers between `low` and `high`, about as many as wanted."""
    if not high > low:
        return [low]
    raw = (high - low) / wanted
    power = 10.0 ** math.floor(math.log10(raw))
    step = min((m * power for m in (1, 2, 2.5, 5, 10)), key=lambda step: abs(step - raw))
    first = math.ceil(low / step - 1e-9)
    return [round(i * step, 12) for i in range(first, math.floor(high / step + 1e-9) + 1)]


def log_ticks(low: float, high: float) -> list[float]:
    """1, 2 and 5 times powers of ten between `low` and `high`; powers alone where those are many."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    few = len(powers) <= 4
    found = [m * 10.0**p for p in powers for m in ((1, 2, 5) if few else (1,)) if low <= m * 10.0**p <= high]
    step = max(1, math.ceil(len(found) / 7))
    return found[::step] if len(found) > 1 else [low, high]


class _Frame:
    """Where data lie on the drawing."""

    def __init__(self, chart: Chart) -> None:
        points = [point for line in chart.lines for point in line.points]
        points += [(dot.x, dot.y + sign * dot.error) for dot in chart.dots for sign in (-1, 1)]
        points = points or [(0.0, 1.0)]
        self.log = chart.log_y and min(y for _, y in points) > 0
        self.x = _padded([x for x, _ in points], 0.1 if chart.dots else 0.0)
        self.y = _padded([self._y(y) for _, y in points], 0.06)
        self.aside = _aside(chart.dots)

    def _y(self, value: float) -> float:
        return math.log10(value) if self.log else value

    def at(self, x: float, y: float) -> Point:
        """Place of a value."""
        (x0, x1), (y0, y1) = self.x, self.y
        right, down = (x - x0) / (x1 - x0), 1 - (self._y(y) - y0) / (y1 - y0)
        return LEFT + right * (WIDTH - LEFT - RIGHT), TOP + down * (HEIGHT - TOP - BOTTOM)

    def ticks_y(self) -> list[float]:
        """Values worth a line across."""
        return log_ticks(10 ** self.y[0], 10 ** self.y[1]) if self.log else ticks(*self.y)


def _aside(dots: Sequence[Dot]) -> dict[tuple[float, int], float]:
    """How far, in units of the drawing, the marks of an arm step aside where several arms have the same x."""
    columns: dict[float, list[int]] = {}
    for dot in dots:
        mine = columns.setdefault(dot.x, [])
        if dot.colour not in mine:
            mine.append(dot.colour)
    return {(x, colour): ASIDE * (at - (len(mine) - 1) / 2)
            for x, mine in columns.items() for at, colour in enumerate(mine)}  # fmt: skip


def _padded(values: Sequence[float], share: float) -> Point:
    low, high = min(values), max(values)
    room = (high - low) * share or (0.0 if high > low else abs(high) * 0.05 or 0.5)
    return low - room, high + room


def draw(chart: Chart, key: str) -> str:
    """The chart as an SVG element; `key` makes the names inside it unique on the page."""
    frame = _Frame(chart)
    parts = [f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-labelledby="{key}"><title id="{key}">'
             f'{escape(chart.title)}</title>']  # fmt: skip
    bottom = HEIGHT - BOTTOM
    for value in frame.ticks_y():
        _, y = frame.at(frame.x[0], value)
        parts.append(f'<path class="grid" d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}"/>'
                     f'<text x="{LEFT - 7}" y="{y + 4:.1f}" text-anchor="end">{escape(chart.show_y(value))}</text>')
    for value in ticks(*frame.x):
        x, _ = frame.at(value, 10 ** frame.y[0] if frame.log else frame.y[0])
        parts.append(f'<path class="axis" d="M{x:.1f} {bottom}v4"/>'
                     f'<text x="{x:.1f}" y="{bottom + 18}" text-anchor="middle">{escape(chart.show_x(value))}</text>')
    parts.append(f'<path class="axis" d="M{LEFT} {bottom}H{WIDTH - RIGHT}"/>')
    for place, name in ((f"translate({(LEFT + WIDTH - RIGHT) / 2} {HEIGHT - 6})", chart.x),
                        (f"translate(13 {(TOP + bottom) / 2}) rotate(-90)", chart.y)):  # fmt: skip
        parts.append(f'<text transform="{place}" text-anchor="middle">{escape(name)}</text>')
    parts += [_line(line, frame) for line in sorted(chart.lines, key=lambda line: (not line.faint, not line.dotted))]
    parts += [_dot(dot, frame) for dot in sorted(chart.dots, key=lambda dot: not dot.faint)]
    parts += _labels([dot for dot in chart.dots if dot.label], frame)
    parts.append("</svg>")
    return "".join(parts)


def _line(line: Line, frame: _Frame) -> str:
    if not line.points:
        return ""
    kind = " ".join(filter(None, ["line", f"c{line.colour % COLOURS}", "faint" * line.faint, "dotted" * line.dotted]))
    places = [frame.at(*point) for point in line.points]
    path = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in places)
    title = f"<title>{escape(line.title)}</title>" if line.title else ""
    end = "" if line.faint or line.dotted else mark(*places[-1], line.colour, 4.0)
    return f'<path class="{kind}" d="{path}">{title}</path>{end}'


def _dot(dot: Dot, frame: _Frame) -> str:
    x, y = frame.at(dot.x, dot.y)
    x += frame.aside[dot.x, dot.colour]
    bar = ""
    if dot.error:
        low, high = frame.at(dot.x, dot.y - dot.error)[1], frame.at(dot.x, dot.y + dot.error)[1]
        bar = f'<path class="bar c{dot.colour % COLOURS}" d="M{x:.1f} {low:.1f}V{high:.1f}"/>'
    return bar + mark(x, y, dot.colour, 3.0 if dot.faint else 5.0, dot.title, faint=dot.faint)


def _labels(dots: Sequence[Dot], frame: _Frame) -> list[str]:
    """Names beside the marks, on the side that has room, moved down where they would cover each other."""
    placed: list[tuple[float, float, float]] = []
    out = []
    for dot in sorted(dots, key=lambda dot: -dot.y):
        x, y = frame.at(dot.x, dot.y)
        x += frame.aside[dot.x, dot.colour]
        left = x > WIDTH * 0.66
        start = x - 10 - 7.2 * len(dot.label) if left else x + 10
        end, y = start + 7.2 * len(dot.label), y + 4
        while any(start < b and a < end and abs(y - row) < LABEL for a, b, row in placed):
            y += 2
        placed.append((start, end, y))
        out.append(f'<text class="label" x="{x + (-10 if left else 10):.1f}" y="{y:.1f}" '
                   f'text-anchor="{"end" if left else "start"}">{escape(dot.label)}</text>')
    return out


def mark(x: float, y: float, colour: int, size: float, title: str = "", *, faint: bool = False) -> str:
    """A mark in the shape and colour of arm number `colour`: told apart by more than colour."""
    r = size
    path = {
        "circle": f"M{x - r:.1f} {y:.1f}a{r} {r} 0 1 0 {2 * r} 0a{r} {r} 0 1 0 {-2 * r} 0z",
        "square": f"M{x - r * 0.9:.1f} {y - r * 0.9:.1f}h{1.8 * r:.1f}v{1.8 * r:.1f}h{-1.8 * r:.1f}z",
        "triangle": f"M{x:.1f} {y - 1.15 * r:.1f}l{1.1 * r:.1f} {1.95 * r:.1f}h{-2.2 * r:.1f}z",
        "diamond": f"M{x:.1f} {y - 1.25 * r:.1f}l{1.25 * r:.1f} {1.25 * r:.1f}l{-1.25 * r:.1f} {1.25 * r:.1f}"
                   f"l{-1.25 * r:.1f} {-1.25 * r:.1f}z",
    }[SHAPES[colour % len(SHAPES)]]  # fmt: skip
    name = f"<title>{escape(title)}</title>" if title else ""
    return f'<path class="mark c{colour % COLOURS}{" faint" if faint else ""}" d="{path}">{name}</path>'
