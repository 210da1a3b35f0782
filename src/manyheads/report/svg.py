"""Line and point charts as SVG elements. Colours are the page's CSS variables, so that a chart is light or dark with
it."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from .chart import Chart, Dot, Line, Point
from .scale import Axis

WIDTH, HEIGHT = 400, 290
LEFT, RIGHT, TOP, BOTTOM = 70, 20, 14, 44
COLOURS = 8
ASIDE = 14.0
LABEL = 15.0  # height of a line of labels
SHAPES = ("circle", "square", "triangle", "diamond")


class _Frame:
    """Where data lie on the drawing."""

    def __init__(self, chart: Chart) -> None:
        xs = [x for line in chart.lines for x, _ in line.points] + [dot.x for dot in chart.dots]
        ys = [y for line in chart.lines for _, y in line.points]
        ys += [dot.y + sign * dot.error for dot in chart.dots for sign in (-1, 1)]
        self.x = Axis.over(xs or [0.0, 1.0], log=chart.log_x, room=0.1 if chart.dots else 0.0)
        self.y = Axis.over(ys or [0.0, 1.0], log=chart.log_y, room=0.06)
        self.aside = {} if chart.ticks_x or chart.lines else _aside(chart.dots)  # lines lead to where marks belong

    def at(self, x: float, y: float) -> Point:
        """Place of a value."""
        return LEFT + self.x.share(x) * (WIDTH - LEFT - RIGHT), TOP + (1 - self.y.share(y)) * (HEIGHT - TOP - BOTTOM)

    def of(self, dot: Dot) -> Point:
        """Place of a mark, which steps aside where several arms have the same x."""
        x, y = self.at(dot.x, dot.y)
        return x + self.aside.get((dot.x, dot.colour), 0.0), y


def _aside(dots: Sequence[Dot]) -> dict[tuple[float, int], float]:
    """How far, in units of the drawing, the marks of an arm step aside where several arms have the same x."""
    columns: dict[float, list[int]] = {}
    for dot in dots:
        mine = columns.setdefault(dot.x, [])
        if dot.colour not in mine:
            mine.append(dot.colour)
    return {
        (x, colour): ASIDE * (at - (len(mine) - 1) / 2) for x, mine in columns.items() for at, colour in enumerate(mine)
    }


def draw(chart: Chart, key: str) -> str:
    """The chart as an SVG element; `key` makes the names inside it unique on the page."""
    start = f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-labelledby="{key}"><title id="{key}">'
    return f"{start}{escape(chart.title)}</title>{inside(chart)}</svg>"


def inside(chart: Chart) -> str:
    """Everything inside the SVG element."""
    frame = _Frame(chart)
    parts, bottom = [], HEIGHT - BOTTOM
    for value in frame.y.ticks():
        _, y = frame.at(frame.x.low, value)
        parts.append(
            f'<path class="grid" d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}"/>'
            f'<text x="{LEFT - 7}" y="{y + 4:.1f}" text-anchor="end">{escape(chart.show_y(value))}</text>'
        )
    for value in frame.x.spaced(chart.ticks_x) if chart.ticks_x else frame.x.ticks(whole=chart.whole_x):
        x, _ = frame.at(value, frame.y.low)
        parts.append(
            f'<path class="axis" d="M{x:.1f} {bottom}v4"/>'
            f'<text x="{x:.1f}" y="{bottom + 18}" text-anchor="middle">{escape(chart.show_x(value))}</text>'
        )
    parts.append(f'<path class="axis" d="M{LEFT} {bottom}H{WIDTH - RIGHT}"/>')
    for place, name in (
        (f"translate({(LEFT + WIDTH - RIGHT) / 2} {HEIGHT - 6})", chart.x),
        (f"translate(11 {(TOP + bottom) / 2}) rotate(-90)", chart.y),
    ):
        parts.append(f'<text transform="{place}" text-anchor="middle">{escape(name)}</text>')
    parts += [
        _line(line, frame) for line in sorted(chart.lines, key=lambda line: (line.kind != "faint", not line.kind))
    ]
    parts += [_dot(dot, frame) for dot in sorted(chart.dots, key=lambda dot: not dot.faint)]
    parts += _labels([dot for dot in chart.dots if dot.label], frame)
    return "".join(parts)


def _line(line: Line, frame: _Frame) -> str:
    if not line.points:
        return ""
    kind = " ".join(filter(None, ["line", f"c{line.colour % COLOURS}", line.kind]))
    places = [frame.at(*point) for point in line.points]
    path = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in places)
    title = f"<title>{escape(line.title)}</title>" if line.title else ""
    end = mark(*places[-1], line.colour, 4.0) if line.end and not line.kind else ""
    return f'<path class="{kind}" data-k="{line.colour}" d="{path}">{title}</path>{end}'


def _dot(dot: Dot, frame: _Frame) -> str:
    x, y = frame.of(dot)
    bar = ""
    if dot.error:
        low, high = (frame.at(dot.x, dot.y + sign * dot.error)[1] for sign in (-1, 1))
        bar = f'<path class="bar c{dot.colour % COLOURS}" data-k="{dot.colour}" d="M{x:.1f} {low:.1f}V{high:.1f}"/>'
    kind = "faint" if dot.faint else "hollow" if dot.hollow else ""
    return bar + mark(x, y, dot.colour, 3.0 if dot.faint else 5.0, dot.title, kind)


def _labels(dots: Sequence[Dot], frame: _Frame) -> list[str]:
    """Names beside the marks, on the side that has room, in the nearest row above the axis where they cover no
    other."""
    placed: list[tuple[float, float, int]] = []
    out = []
    for dot in sorted(dots, key=lambda dot: -dot.y):
        x, y = frame.of(dot)
        left = x > WIDTH * 0.66
        start = x - 10 - 7.2 * len(dot.label) if left else x + 10
        end = start + 7.2 * len(dot.label)
        taken = [row for a, b, row in placed if start < b and a < end]
        free = [row for row in range(TOP, HEIGHT - BOTTOM - 3) if all(abs(row - other) >= LABEL for other in taken)]
        row = min((abs(row - y - 4), row) for row in free)[1] if free else round(y) + 4
        placed.append((start, end, row))
        out.append(
            f'<text class="label" data-k="{dot.colour}" x="{x + (-10 if left else 10):.1f}" y="{row}" '
            f'text-anchor="{"end" if left else "start"}">{escape(dot.label)}</text>'
        )
    return out


def shape(colour: int) -> str:
    """The shape of arm number `colour`: with its colour it is unique among 32."""
    return SHAPES[(colour + colour // COLOURS) % len(SHAPES)]


def mark(x: float, y: float, colour: int, size: float, title: str = "", kind: str = "") -> str:
    """A mark in the shape and colour of arm number `colour`: told apart by more than colour."""
    r = size
    path = {
        "circle": f"M{x - r:.1f} {y:.1f}a{r} {r} 0 1 0 {2 * r} 0a{r} {r} 0 1 0 {-2 * r} 0z",
        "square": f"M{x - r * 0.9:.1f} {y - r * 0.9:.1f}h{1.8 * r:.1f}v{1.8 * r:.1f}h{-1.8 * r:.1f}z",
        "triangle": f"M{x:.1f} {y - 1.15 * r:.1f}l{1.1 * r:.1f} {1.95 * r:.1f}h{-2.2 * r:.1f}z",
        "diamond": f"M{x:.1f} {y - 1.25 * r:.1f}l{1.25 * r:.1f} {1.25 * r:.1f}l{-1.25 * r:.1f} {1.25 * r:.1f}"
        f"l{-1.25 * r:.1f} {-1.25 * r:.1f}z",
    }[shape(colour)]
    name = f"<title>{escape(title)}</title>" if title else ""
    classes = " ".join(filter(None, ["mark", f"c{colour % COLOURS}", kind]))
    return f'<path class="{classes}" data-k="{colour}" d="{path}">{name}</path>'
