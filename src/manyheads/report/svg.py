"""Charts as SVG: on the page, in its light or dark colours, and as files of their own, light and with title and
legend."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from html import escape
from importlib.resources import files

from .chart import Axis, Chart, Dot, Figure, Line, Point

WIDTH, HEIGHT = 400, 290
LEFT, RIGHT, TOP, BOTTOM = 70, 20, 14, 44
COLOURS = 8
STEP_ASIDE = 14.0  # between marks of several arms at the same x
LABEL = 15.0  # height of a line of labels
TITLE_HEIGHT, LEGEND_ROW, LETTER = (
    26,
    18,
    6.3,
)  # of a file: height of title and of a row of the legend, width of a letter
SHAPES = ("circle", "square", "triangle", "diamond")


@cache
def resource(name: str) -> str:
    """The text of a script or style sheet that is packed beside this module."""
    return (files(__package__) / name).read_text(encoding="utf-8")


@cache
def palette() -> dict[str, str]:
    """The light colours by name: c0 to c7 for arms, ink, dim, rule, back. They stand in page.css, before the dark
    ones."""
    light, _, _ = resource("page.css").partition("@media")
    return dict(re.findall(r"--(\w+): (#\w+);", light))


class _Frame:
    """Where values lie on the drawing."""

    def __init__(self, chart: Chart) -> None:
        xs = [x for line in chart.lines for x, _ in line.points] + [dot.x for dot in chart.dots]
        ys = [y for line in chart.lines for _, y in line.points]
        ys += [dot.y + sign * dot.error for dot in chart.dots for sign in (-1, 1)]
        self.x = Axis.over(xs or [0.0, 1.0], log=chart.log_x, room=0.1 if chart.dots else 0.0)
        self.y = Axis.over(ys or [0.0, 1.0], log=chart.log_y, room=0.06)
        # marks on lines and over few values of x stay where they are
        self.aside = {} if chart.ticks_x or chart.lines else _aside(chart.dots)

    def at(self, x: float, y: float) -> Point:
        """Place of a value."""
        return LEFT + self.x.share(x) * (WIDTH - LEFT - RIGHT), TOP + (1 - self.y.share(y)) * (HEIGHT - TOP - BOTTOM)

    def of(self, dot: Dot) -> Point:
        """Place of a mark, which steps aside where several arms have the same x."""
        x, y = self.at(dot.x, dot.y)
        return x + self.aside.get((dot.x, dot.colour), 0.0), y


def _aside(dots: Sequence[Dot]) -> dict[tuple[float, int], float]:
    """How far the marks of an arm step aside where several arms have the same x, in units of the drawing."""
    columns: dict[float, list[int]] = {}
    for dot in dots:
        arms = columns.setdefault(dot.x, [])
        if dot.colour not in arms:
            arms.append(dot.colour)
    return {
        (x, colour): STEP_ASIDE * (at - (len(arms) - 1) / 2)
        for x, arms in columns.items()
        for at, colour in enumerate(arms)
    }


def draw(chart: Chart, key: str) -> str:
    """The chart as an SVG element; `key` makes the names inside it unique on the page."""
    start = f'<svg class="plot" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-labelledby="{key}"><title id="{key}">'
    return f"{start}{escape(chart.title)}</title>{_inside(chart)}</svg>"


def _inside(chart: Chart) -> str:
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
    lines = sorted(chart.lines, key=lambda line: (line.kind != "faint", not line.kind))
    parts += [_line(line, frame) for line in lines]
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
    """Names beside the marks: on the side that has room, in the nearest free row above the axis."""
    placed: list[tuple[float, float, int]] = []
    labels = []
    for dot in sorted(dots, key=lambda dot: -dot.y):
        x, y = frame.of(dot)
        left = x > WIDTH * 0.66
        start = x - 10 - 7.2 * len(dot.label) if left else x + 10
        end = start + 7.2 * len(dot.label)
        taken = [row for a, b, row in placed if start < b and a < end]
        free = [row for row in range(TOP, HEIGHT - BOTTOM - 3) if all(abs(row - other) >= LABEL for other in taken)]
        row = min((abs(row - y - 4), row) for row in free)[1] if free else round(y) + 4
        placed.append((start, end, row))
        labels.append(
            f'<text class="label" data-k="{dot.colour}" x="{x + (-10 if left else 10):.1f}" y="{row}" '
            f'text-anchor="{"end" if left else "start"}">{escape(dot.label)}</text>'
        )
    return labels


def shape(colour: int) -> str:
    """The shape of arm number `colour`: unique among 32 arms together with its colour."""
    return SHAPES[(colour + colour // COLOURS) % len(SHAPES)]


def mark(x: float, y: float, colour: int, size: float, title: str = "", kind: str = "") -> str:
    """A mark in the shape and colour of arm number `colour`: arms differ in more than colour."""
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


def standalone(figure: Figure) -> str:
    """A figure as an SVG file: light, title above, legend below. page.js draws the same from the page."""
    ink, back = palette()["ink"], palette()["back"]
    legend, bottom = _legend(figure.series, TITLE_HEIGHT + HEIGHT + LEGEND_ROW)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{2 * WIDTH}" height="{2 * bottom}" '
        f'viewBox="0 0 {WIDTH} {bottom}"><style>{_standalone_style()}</style>'
        f'<rect width="{WIDTH}" height="{bottom}" fill="{back}"/>'
        f'<text x="12" y="19" style="font-size:14px;fill:{ink}">{escape(figure.chart.title)}</text>'
        f'<g transform="translate(0 {TITLE_HEIGHT})">{_inside(figure.chart)}</g>{legend}</svg>\n'
    )


def _legend(names: Sequence[str], top: float) -> tuple[str, float]:
    """The legend in as many rows as it needs, and where it ends."""
    if not any(names):
        return "", top
    x, y, parts = 12.0, top, []
    for colour, name in enumerate(names):
        width = 26 + LETTER * len(name)
        if x + width > WIDTH - 4 and x > 12:
            x, y = 12.0, y + LEGEND_ROW
        style = f"font-size:11px;fill:{palette()['ink']}"
        text = f'<text x="{x + 17:.1f}" y="{y}" style="{style}">{escape(name)}</text>'
        parts.append(mark(x + 6, y - 4, colour, 5.0) + text)
        x += width
    return "".join(parts), y + 12


@cache
def _standalone_style() -> str:
    """The style of a figure in a file: figure.css in light colours and without variables, which not every reader of SVG
    knows."""
    rules = re.findall(r"^[^\n{}/]+\{[^}]*\}", resource("figure.css"), flags=re.MULTILINE)
    style = [f"svg {{ font: 13px sans-serif; fill: {palette()['dim']}; }}"]
    for rule in rules:
        selector, _, body = rule.partition(" {")
        if "var(--c)" not in body:
            style.append(rule)
            continue
        style += [f"{selector}.c{i} {{{body.replace('var(--c)', f'var(--c{i})')}" for i in range(COLOURS)]
    return re.sub(r"var\(--(\w+)\)", lambda name: palette()[name[1]], "".join(style))
