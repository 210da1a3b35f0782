"""The figures about conditioning: kappa over steps, over what the arms differ in and by layer, beside its
prediction."""

from __future__ import annotations

import math

from manyheads.experiments.statistics import mean

from . import words
from .chart import Chart, Figure, Line, Point
from .curves import lines, plain, swept_chart, through, whole
from .factors import Sweep
from .gather import ArmRuns, Section, Trained
from .measured import LARGEST, LOGS, Probed

LAYERS = 2  # layers from which on their kappas are worth a figure


def kappa_figures(section: Section, swept: Sweep | None) -> list[Figure]:
    """For each kind of attention: over the sweep, over steps, by layer; then what else was probed."""
    kinds = list(dict.fromkeys(kind for run in section.runs for kind in run.measured.probed))
    names = [arm.name for arm in section.arms]
    made = []
    for kind in kinds:
        name = "kappa" if len(kinds) == 1 else f"kappa, {kind}"
        if swept is not None:
            made.append(_over_factor(section, kind, name, swept))
        made += [
            Figure(_over_steps(section, kind, name), STEPS, names),
            Figure(_by_layer(section, kind, name), BY, names),
        ]
    for kind in kinds:
        extra = dict.fromkeys(more for run in section.runs for more in _more(run, kind))
        of = "" if len(kinds) == 1 else f", {kind}"
        made += [
            Figure(_other(section, kind, more, more + of), f"{more}, mean over layers; {kind} attention.", names)
            for more in extra
        ]
    return made


STEPS = (
    "Condition number of the concatenated heads on held-out data: geometric mean over samples and layers, at step 0 "
    "and during training. Dotted: what independent normal entries of the same shape would give."
)
BY = "The same at the last probe, layer by layer: mean over seeds. Layers count from 0."
SWEPT = (
    "kappa at the end: geometric mean over samples, layers and seeds. Dotted: independent normal entries of the same "
    "shape. Dashed: the first paper's statistic, the plain mean over samples and layers."
)


def _of(run: Trained, kind: str) -> Probed | None:
    return run.measured.probed.get(kind)


def _more(run: Trained, kind: str) -> dict[str, list[Point]]:
    found = _of(run, kind)
    return found.more if found else {}


def _exp(points: list[Point]) -> list[Point]:
    return [(x, math.exp(min(log, LARGEST))) for x, log in points]


def _over_steps(section: Section, kind: str, name: str) -> Chart:
    drawn = lines(section.arms, lambda run: _exp(found.kappa) if (found := _of(run, kind)) else [])
    drawn += [line for colour, arm in enumerate(section.arms) if (line := _predicted(arm, colour, kind)) is not None]
    return Chart(f"{name} over steps", "step", name, drawn, log_y=True, whole_x=True, show_x=whole, show_y=plain)


def _predicted(arm: ArmRuns, colour: int, kind: str) -> Line | None:
    known = [found for run in arm.runs if (found := _of(run, kind)) and found.kappa and found.gaussian is not None]
    steps = [step for found in known for step, _ in found.kappa]
    if not known or known[0].gaussian is None:
        return None
    value = math.exp(known[0].gaussian)
    return Line([(min(steps), value), (max(steps), value)], colour, "dotted", f"{arm.name}, Gaussian prediction")


def _by_layer(section: Section, kind: str, name: str) -> Chart:
    every = lines(section.arms, lambda run: _exp(found.layers) if (found := _of(run, kind)) else [])
    drawn = [line for line in every if line.kind != "faint"]
    deep = max((len(line.points) for line in drawn), default=0) >= LAYERS
    return Chart(
        f"{name} by layer", "layer", name, drawn if deep else [], log_y=True, whole_x=True, show_x=plain, show_y=plain
    )


def _over_factor(section: Section, kind: str, name: str, swept: Sweep) -> Figure:
    values: dict[str, dict[str, float]] = {"ours": {}, "paper": {}, "gaussian": {}}
    for arm in section.arms:
        done = [found for run in arm.done if (found := _of(run, kind)) and found.kappa]
        if done:
            values["ours"][arm.name] = mean([found.kappa[-1][1] for found in done])
        if done and all(found.mean for found in done):
            values["paper"][arm.name] = mean([found.mean[-1][1] for found in done])
        if done and done[0].gaussian is not None:
            values["gaussian"][arm.name] = done[0].gaussian
    shown = {what: {arm: math.exp(min(log, LARGEST)) for arm, log in found.items()} for what, found in values.items()}
    drawn, dots = through(swept, shown["ours"], {}, _text)
    for what, printed in (("paper", True), ("gaussian", False)):
        for line in through(swept, shown[what], {}, _text, printed=printed)[0]:
            said = "plain mean" if printed else "Gaussian prediction"
            drawn.append(Line(line.points, line.colour, "printed" if printed else "dotted", said, end=False))
    return Figure(
        swept_chart(f"{name} over {swept.x}", swept, name, drawn, dots, plain, log_y=True), SWEPT, swept.names
    )


def _text(value: float) -> str:
    return words.kappa(math.log(value))


def _other(section: Section, kind: str, more: str, name: str) -> Chart:
    log = more in LOGS
    drawn = lines(
        section.arms, lambda run: _exp(points) if (points := _more(run, kind).get(more, [])) and log else points
    )
    return Chart(f"{name} over steps", "step", name, drawn, log_y=log, whole_x=True, show_x=whole, show_y=plain)
