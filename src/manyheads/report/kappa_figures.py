"""Curves over steps, and the figures about conditioning: kappa over steps, over what the arms differ in and by layer,
beside the prediction for independent normal entries."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from manyheads.experiments.statistics import mean
from manyheads.experiments.verdict import LARGEST

from . import number_text
from .arms_grid import ArmsGrid
from .chart import Chart, Figure, Line, Point, thin
from .number_text import plain, steps
from .read_runs import ArmRuns, ReportedRun, Section
from .run_measurements import LOGARITHMS, ProbeCurves

POINTS = 4000  # of one figure, shared among its lines, so that a page of thousands of runs stays small
SEEDS = 8  # more lines of single seeds than that hide the mean; so do single seeds of more arms
LAYERS = 2  # fewest layers of a figure by layer

OVER_STEPS = (
    "kappa, the condition number of the concatenated heads, on held-out data: geometric mean over samples and layers, "
    "at step 0 and during training. Dotted: what independent normal entries of the same shape would have."
)
BY_LAYER = "kappa at the last probe, layer by layer: mean over seeds. Layers count from 0."
OVER_FACTOR = (
    "kappa at the end of training: geometric mean over samples, layers and seeds. Dotted: independent normal entries of "
    "the same shape. Dashed: the first paper's statistic, the plain mean over samples and layers."
)


def arm_curves(arms: Sequence[ArmRuns], points: Callable[[ReportedRun], Sequence[Point]]) -> list[Line]:
    """Each arm's mean over seeds, at the steps that all its seeds have, and the single seeds, faint."""
    total = sum(len(arm.runs) + 1 for arm in arms)
    limit = max(8, POINTS // max(1, total))
    lines = []
    for colour, arm in enumerate(arms):
        runs = {run.seed: (run.state == "done", dict(points(run))) for run in arm.runs}
        curves = {seed: curve for seed, (_, curve) in runs.items() if curve}
        if not curves:
            continue
        finished = [curve for done, curve in runs.values() if done and curve] or list(curves.values())
        shared = sorted(set.intersection(*(set(curve) for curve in finished)))
        middle = [(x, mean([curve[x] for curve in finished])) for x in shared]
        lines.append(Line(thin(middle, limit), colour, title=f"{arm.name}, mean of {len(finished)}"))
        if 1 < len(curves) <= SEEDS and len(arms) <= SEEDS:
            lines += [
                Line(thin(sorted(curve.items()), limit), colour, "faint", f"{arm.name}, seed {seed}")
                for seed, curve in curves.items()
            ]
    return lines


def kappa_figures(section: Section, grid: ArmsGrid | None) -> list[Figure]:
    """For each kind of attention kappa over the grid, over steps and by layer; then whatever else was probed."""
    kinds = list(dict.fromkeys(kind for run in section.runs for kind in run.measured.probes))
    names = [arm.name for arm in section.arms]
    figures = []
    for kind in kinds:
        name = "kappa" if len(kinds) == 1 else f"kappa, {kind}"
        if grid is not None:
            figures.append(_over_factor(section, kind, name, grid))
        figures += [
            Figure(_over_steps(section, kind, name), OVER_STEPS, names),
            Figure(_by_layer(section, kind, name), BY_LAYER, names),
        ]
    for kind in kinds:
        probed = dict.fromkeys(more for run in section.runs for more in _more(run, kind))
        of_kind = "" if len(kinds) == 1 else f", {kind}"
        figures += [
            Figure(_other(section, kind, more, more + of_kind), f"{more}, mean over layers; {kind} attention.", names)
            for more in probed
        ]
    return figures


def _of(run: ReportedRun, kind: str) -> ProbeCurves | None:
    return run.measured.probes.get(kind)


def _more(run: ReportedRun, kind: str) -> dict[str, list[Point]]:
    probe = _of(run, kind)
    return probe.more if probe else {}


def _exp(points: list[Point]) -> list[Point]:
    return [(x, math.exp(min(log, LARGEST))) for x, log in points]


def _over_steps(section: Section, kind: str, name: str) -> Chart:
    lines = arm_curves(section.arms, lambda run: _exp(probe.log_kappa) if (probe := _of(run, kind)) else [])
    lines += [line for colour, arm in enumerate(section.arms) if (line := _predicted(arm, colour, kind)) is not None]
    return Chart(f"{name} over steps", "step", name, lines, log_y=True, whole_x=True, show_x=steps, show_y=plain)


def _predicted(arm: ArmRuns, colour: int, kind: str) -> Line | None:
    probes = [probe for run in arm.runs if (probe := _of(run, kind)) and probe.log_kappa and probe.gaussian is not None]
    at_steps = [step for probe in probes for step, _ in probe.log_kappa]
    if not probes or probes[0].gaussian is None:
        return None
    value = math.exp(min(probes[0].gaussian, LARGEST))
    return Line([(min(at_steps), value), (max(at_steps), value)], colour, "dotted", f"{arm.name}, Gaussian prediction")


def _by_layer(section: Section, kind: str, name: str) -> Chart:
    every = arm_curves(section.arms, lambda run: _exp(probe.layers) if (probe := _of(run, kind)) else [])
    lines = [line for line in every if line.kind != "faint"]
    deep = max((len(line.points) for line in lines), default=0) >= LAYERS
    return Chart(
        f"{name} by layer", "layer", name, lines if deep else [], log_y=True, whole_x=True, show_x=plain, show_y=plain
    )


def _over_factor(section: Section, kind: str, name: str, grid: ArmsGrid) -> Figure:
    logs: dict[str, dict[str, float]] = {"geometric": {}, "plain": {}, "gaussian": {}}
    for arm in section.arms:
        probes = [probe for run in arm.done if (probe := _of(run, kind)) and probe.log_kappa]
        if probes:
            logs["geometric"][arm.name] = mean([probe.log_kappa[-1][1] for probe in probes])
        if probes and all(probe.log_mean_kappa for probe in probes):
            logs["plain"][arm.name] = mean([probe.log_mean_kappa[-1][1] for probe in probes])
        if probes and probes[0].gaussian is not None:
            logs["gaussian"][arm.name] = probes[0].gaussian
    kappas = {which: {arm: math.exp(min(log, LARGEST)) for arm, log in of.items()} for which, of in logs.items()}
    lines, dots = grid.draw(kappas["geometric"], {}, _text)
    for line in grid.draw(kappas["plain"], {}, _text, printed=True)[0]:
        lines.append(Line(line.points, line.colour, "printed", "plain mean", end=False))
    for line in grid.draw(kappas["gaussian"], {}, _text)[0]:
        lines.append(Line(line.points, line.colour, "dotted", "Gaussian prediction", end=False))
    chart = grid.chart(f"{name} over {grid.x}", name, lines, dots, plain, log_y=True)
    return Figure(chart, OVER_FACTOR, grid.names)


def _text(value: float) -> str:
    return number_text.kappa(math.log(value))


def _other(section: Section, kind: str, more: str, name: str) -> Chart:
    log = more in LOGARITHMS

    def points(run: ReportedRun) -> list[Point]:
        curve = _more(run, kind).get(more, [])
        return _exp(curve) if log else curve

    lines = arm_curves(section.arms, points)
    return Chart(f"{name} over steps", "step", name, lines, log_y=log, whole_x=True, show_x=steps, show_y=plain)
