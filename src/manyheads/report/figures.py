"""The figures of a section: the headline over steps, kappa over steps beside its prediction, the headline against size."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from manyheads.arch.params import params
from manyheads.experiments.statistics import mean, spread
from manyheads.experiments.verdict import SHARES

from . import words
from .gather import ArmRuns, Section, Trained
from .svg import Chart, Dot, Line, Point, thin

POINTS = 4000  # of one figure, shared among its lines: a page of thousands of runs stays small
SEEDS = 8  # more lines of single seeds than that hide the mean


def figures(section: Section) -> list[tuple[Chart, str]]:
    """Every figure that the section's runs have numbers for, with its caption."""
    metric, _ = section.headline
    made = [over_steps(section, metric), *kappas(section), against_params(section, metric)]
    return [(chart, caption) for chart, caption in made if chart.lines or chart.dots]


def _lines(arms: Sequence[ArmRuns], points: Callable[[Trained], Sequence[Point]]) -> list[Line]:
    """Each arm's mean over seeds, at the steps that all its seeds have, and the seeds themselves, faint."""
    total = sum(len(arm.runs) + 1 for arm in arms)
    limit = max(8, POINTS // max(1, total))
    lines = []
    for colour, arm in enumerate(arms):
        curves = {run.seed: dict(points(run)) for run in arm.runs if points(run)}
        if not curves:
            continue
        finished = [curves[run.seed] for run in arm.done if run.seed in curves] or list(curves.values())
        shared = sorted(set.intersection(*(set(curve) for curve in finished)))
        middle = [(x, mean([curve[x] for curve in finished])) for x in shared]
        lines.append(Line(thin(middle, limit), colour, title=f"{arm.name}, mean of {len(finished)}"))
        if 1 < len(curves) <= SEEDS:
            lines += [Line(thin(sorted(curve.items()), limit), colour, faint=True, title=f"{arm.name}, seed {seed}")
                      for seed, curve in curves.items()]
    return lines


def over_steps(section: Section, metric: str) -> tuple[Chart, str]:
    """The headline metric at each evaluation."""
    percent = metric in SHARES
    lines = _lines(section.arms, lambda run: run.measured.curve)
    chart = Chart(f"{metric} over steps", "step", f"{metric}, %" if percent else metric, lines,
                  show_x=_whole, show_y=_percent if percent else _plain)  # fmt: skip
    return chart, f"{metric} on held-out data. Strong lines are means over seeds, faint ones single seeds."


def kappas(section: Section) -> list[tuple[Chart, str]]:
    """kappa over steps, one figure for each kind of attention; the prediction of each arm dotted."""
    kinds = list(dict.fromkeys(kind for run in section.runs for kind in run.measured.kappa))
    made = []
    for kind in kinds:
        lines = _lines(section.arms, lambda run, kind=kind: _kappas(run, kind))  # type: ignore[misc]
        lines += [line for colour, arm in enumerate(section.arms) if (line := _predicted(arm, colour, kind)) is not None]
        name = "kappa" if len(kinds) == 1 else f"kappa, {kind}"
        chart = Chart(f"{name} over steps", "step", name, lines, log_y=True, show_x=_whole, show_y=_plain)
        made.append((chart, "Condition number of the concatenated heads on held-out data: geometric mean over samples and "
                            "layers, at step 0 and during training. Dotted: what independent normal entries of the same "
                            "shape would give."))  # fmt: skip
    return made


def _kappas(run: Trained, kind: str) -> list[Point]:
    return [(step, math.exp(min(log, 300.0))) for step, log in run.measured.kappa.get(kind, [])]


def _predicted(arm: ArmRuns, colour: int, kind: str) -> Line | None:
    known = [run for run in arm.runs if kind in run.measured.gaussian and run.measured.kappa.get(kind)]
    if not known:
        return None
    steps = [step for run in known for step, _ in run.measured.kappa[kind]]
    value = math.exp(known[0].measured.gaussian[kind])
    return Line([(min(steps), value), (max(steps), value)], colour, dotted=True, title=f"{arm.name}, Gaussian prediction")


def against_params(section: Section, metric: str) -> tuple[Chart, str]:
    """The final headline of each arm against its parameters."""
    percent = metric in SHARES
    dots = []
    for colour, arm in enumerate(section.arms):
        values = list(arm.values(metric).values())
        if not values:
            continue
        size = float(params(arm.arch).total)
        label = arm.name if len(section.arms) <= 12 else ""
        title = f"{arm.name}: {words.with_spread(values, metric)}"
        dots.append(Dot(size, mean(values), colour, spread(values), label, title=title))
        if len(values) > 1:
            dots += [Dot(size, value, colour, faint=True) for value in values[:SEEDS]]
    chart = Chart(f"{metric} against parameters", "parameters", f"{metric}, %" if percent else metric, dots=dots,
                  show_x=_short, show_y=_percent if percent else _plain)  # fmt: skip
    return chart, f"Final {metric} of each arm: mean, standard deviation over seeds as a bar, single seeds as small marks."


def _whole(value: float) -> str:
    return f"{value:,.0f}" if value < 1e5 else _short(value)


def _short(value: float) -> str:
    number, _, unit = words.count(value).partition(" ")
    return f"{float(number):g} {unit}".strip()


def _percent(value: float) -> str:
    return f"{100 * value:g}"


def _plain(value: float) -> str:
    return f"{value:g}" if abs(value) < 1e4 else words.power(value)
