"""What the figures share: an arm's curve over its seeds, lines through the arms of a sweep, numbers along the axes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from manyheads.experiments.statistics import mean
from manyheads.experiments.verdict import SHARES

from . import words
from .chart import Chart, Dot, Line, Point, thin
from .factors import Sweep
from .gather import ArmRuns, Trained

POINTS = 4000  # of one figure, shared among its lines: a page of thousands of runs stays small
SEEDS = 8  # more lines of single seeds than that hide the mean, and so do those of more arms
LOG = 8.0  # the largest over the smallest x from which on an axis is logarithmic


def lines(arms: Sequence[ArmRuns], points: Callable[[Trained], Sequence[Point]]) -> list[Line]:
    """Each arm's mean over seeds, at the steps that all its seeds have, and the seeds themselves, faint."""
    total = sum(len(arm.runs) + 1 for arm in arms)
    limit = max(8, POINTS // max(1, total))
    made = []
    for colour, arm in enumerate(arms):
        found = {run.seed: (run.state == "done", dict(points(run))) for run in arm.runs}
        curves = {seed: curve for seed, (_, curve) in found.items() if curve}
        if not curves:
            continue
        finished = [curve for done, curve in found.values() if done and curve] or list(curves.values())
        shared = sorted(set.intersection(*(set(curve) for curve in finished)))
        middle = [(x, mean([curve[x] for curve in finished])) for x in shared]
        made.append(Line(thin(middle, limit), colour, title=f"{arm.name}, mean of {len(finished)}"))
        if 1 < len(curves) <= SEEDS and len(arms) <= SEEDS:
            made += [
                Line(thin(sorted(curve.items()), limit), colour, "faint", f"{arm.name}, seed {seed}")
                for seed, curve in curves.items()
            ]
    return made


def through(
    swept: Sweep,
    values: Mapping[str, float],
    spreads: Mapping[str, float],
    text: Callable[[float], str],
    *,
    printed: bool = False,
) -> tuple[list[Line], list[Dot]]:
    """Marks at the arms' values and lines through them, series by series."""
    drawn, dots = [], []
    for colour, name in enumerate(swept.names):
        arms = [arm for arm, series in swept.series.items() if series == name and arm in values]
        arms.sort(key=lambda arm: swept.places[arm])
        points = [(swept.places[arm], values[arm]) for arm in arms]
        if len(points) > 1:
            drawn.append(Line(points, colour, "printed" if printed else "", f"{name}{', paper' * printed}", end=False))
        dots += [
            Dot(
                x, y, colour, spreads.get(arm, 0.0), hollow=printed, title=f"{arm}{', as printed' * printed}: {text(y)}"
            )
            for arm, (x, y) in zip(arms, points, strict=True)
        ]
    return drawn, dots


def swept_chart(
    title: str,
    swept: Sweep,
    y: str,
    drawn: Sequence[Line],
    dots: Sequence[Dot],
    show_y: Callable[[float], str],
    *,
    log_y: bool = False,
) -> Chart:
    """A chart over what the arms differ in."""
    places = sorted(set(swept.places.values()))
    log = places[0] > 0 and places[-1] / places[0] >= LOG
    return Chart(
        title,
        swept.x,
        y,
        drawn,
        dots,
        log_x=log,
        log_y=log_y,
        ticks_x=places,
        keys=swept.names,
        show_x=lambda value: f"{value:g}",
        show_y=show_y,
    )


def axis_name(metric: str) -> str:
    """A metric beside its axis."""
    unit = "%" if metric in SHARES else words.METRICS.get(metric, ("", ""))[0]
    return f"{metric}, {unit}" if unit else metric


def is_kappa(metric: str) -> bool:
    """Whether a metric is a condition number, which an axis shows by its logarithm."""
    return metric.endswith("kappa") and not metric.startswith("log")


def shown(metric: str) -> Callable[[float], str]:
    """How a metric is written at its axis."""
    return (lambda value: f"{100 * value:g}") if metric in SHARES else plain


def whole(value: float) -> str:
    """A number of steps."""
    return f"{value:,.0f}" if value < 1e5 else short(value)


def short(value: float) -> str:
    """A number of parameters."""
    text, _, unit = words.count(value).partition(" ")
    return f"{float(text):g} {unit}".strip()


def plain(value: float) -> str:
    """Any number at an axis."""
    return f"{value:.6g}" if abs(value) < 1e4 else words.power(value)
