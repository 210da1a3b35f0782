"""The figures of a section: the headline over what the arms differ in, over steps, against size and against kappa."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from manyheads.arch.params import params
from manyheads.experiments.statistics import mean, spread
from manyheads.experiments.trend import LEAST, trend
from manyheads.experiments.verdict import seeds

from . import words
from .chart import Chart, Dot, Figure, Line, Point
from .curves import SEEDS, axis_name, is_kappa, lines, plain, short, shown, swept_chart, through, whole
from .factors import Sweep, sweep
from .figures_kappa import kappa_figures
from .gather import ArmRuns, Section
from .measured import KIND, LARGEST

NAMED, MEASURES = 8, 8  # arms that have room for their names in a figure; figures of measurements without training
STRETCH = 4.0  # by how much the paper's values may stretch an axis


def figures(section: Section) -> list[Figure]:
    """Every figure that the section's runs have numbers for."""
    metric, _ = section.headline
    swept = sweep(section.arms)
    trained = any(run.measured.curve for run in section.runs)
    every = dict.fromkeys([metric, *(name for run in section.runs for name in run.measured.scores)])
    shown = [metric] if trained else [name for name in every if not is_kappa(name)][:MEASURES]  # kappa has its own figures
    made = [over_factor(section, name, swept) for name in shown] if swept else []
    made += [over_steps(section, metric), *(against_params(section, name) for name in shown if trained or not swept),
             *kappa_figures(section, swept), against_kappa(section, metric), as_printed(section, metric)]  # fmt: skip
    return [figure for figure in made if figure.chart.dots or _runs_along(figure.chart)]


def _runs_along(chart: Chart) -> bool:
    """Whether its lines lead anywhere: a single step is no curve."""
    return any(len({x for x, _ in line.points}) > 1 for line in chart.lines)


def over_steps(section: Section, metric: str) -> Figure:
    """The headline metric at each evaluation."""
    drawn = lines(section.arms, lambda run: run.measured.curve)
    return _figure(section, Chart(f"{metric} over steps", "step", axis_name(metric), drawn, log_y=is_kappa(metric),
                                  show_x=whole, show_y=shown(metric)),
                   f"{metric} on held-out data. Strong lines are means over seeds, faint ones single seeds.")  # fmt: skip


def over_factor(section: Section, metric: str, swept: Sweep) -> Figure:
    """The final headline against what the arms differ in, a line for each series, the paper's values hollow."""
    found = {arm.name: list(arm.values(metric).values()) for arm in section.arms}
    means = {name: mean(values) for name, values in found.items() if values}
    spreads = {name: spread(values) for name, values in found.items()}
    paper, said = paper_values(section, metric, list(means.values()))
    drawn, dots = through(swept, means, spreads, lambda value: words.score(value, metric))
    paper_lines, paper_dots = through(swept, paper, {}, lambda value: words.score(value, metric), printed=True)
    return Figure(swept_chart(f"{metric} over {swept.x}", swept, axis_name(metric), [*drawn, *paper_lines],
                              [*dots, *paper_dots], shown(metric)),
                  f"Final {metric}: mean over seeds, their standard deviation as a bar.{said}", swept.names)  # fmt: skip


def paper_values(section: Section, metric: str, measured: Sequence[float]) -> tuple[dict[str, float], str]:
    """What the paper printed for the arms that are here, and a sentence about it. Values that would squeeze what was
    measured into a strip are told, not drawn: at a small scale another task is trained."""
    printed = dict(section.experiment.printed) if section.experiment and metric == section.headline[0] else {}
    here = {arm.name: printed[arm.name] for arm in section.arms if arm.name in printed}
    if not here or not measured:
        return {}, ""
    own = max(measured) - min(measured)
    if max(*measured, *here.values()) - min(*measured, *here.values()) <= max(STRETCH * own, 0.1 * max(map(abs, measured))):
        return here, " Hollow: what the paper printed for the arm of the same name, in its own setting."
    ends = sorted({words.score(value, metric) for value in (min(here.values()), max(here.values()))})
    return {}, f" The paper printed {' to '.join(ends)}, off this scale: its setting is another."


def as_printed(section: Section, metric: str) -> Figure:
    """What the paper printed, at the paper's own designs: its figure, beside a smaller experiment of the same name."""
    known = section.experiment
    beside = known and metric and section.scale != "paper" and "paper" in known.settings
    printed = known.printed if known and beside else {}
    arms = [ArmRuns(arm.name, arm.note, arm.arch, order) for order, arm in
            enumerate(known.settings["paper"].arms if known and printed else ()) if arm.name in printed]  # fmt: skip
    names, title = [arm.name for arm in arms], f"{metric}, as the paper printed it"
    swept = sweep(arms) if len(arms) > 2 else None
    caption = "Nothing of this was measured here: the paper's values for the paper's own designs."
    if swept is not None:
        drawn, dots = through(swept, printed, {}, lambda value: words.score(value, metric), printed=True)
        return Figure(swept_chart(title, swept, axis_name(metric), drawn, dots, shown(metric)), caption, swept.names)
    places = {arm.name: (float(params(arm.arch).total), printed[arm.name]) for arm in arms}
    dots = [Dot(*places[name], colour, hollow=True, label=name if len(arms) <= NAMED else "",
                title=f"{name}: {words.score(printed[name], metric)}") for colour, name in enumerate(names)]  # fmt: skip
    chart = Chart(title, "parameters", axis_name(metric), _joined(section, places, names), dots if len(dots) > 1 else [],
                  keys=names, show_x=short, show_y=shown(metric))  # fmt: skip
    return Figure(chart, caption, names)


def against_params(section: Section, metric: str) -> Figure:
    """The final headline of each arm against its parameters; lines join the pairs of an experiment of pairs."""
    every = {arm.name: list(arm.values(metric).values()) for arm in section.arms}
    paper, said = paper_values(section, metric, [value for values in every.values() for value in values])
    places: dict[str, Point] = {}
    dots = []
    for colour, arm in enumerate(section.arms):
        values, size = every[arm.name], float(params(arm.arch).total)
        if arm.name in paper:
            dots.append(Dot(size, paper[arm.name], colour, hollow=True,
                            title=f"{arm.name}, as printed: {words.score(paper[arm.name], metric)}"))  # fmt: skip
        if not values:
            continue
        places[arm.name] = size, mean(values)
        label = arm.name if len(section.arms) <= NAMED else ""
        title = f"{arm.name}: {words.with_spread(values, metric)}"
        dots.append(Dot(size, mean(values), colour, spread(values), label, title=title))
        if len(values) > 1:
            dots += [Dot(size, value, colour, faint=True) for value in values[:SEEDS]]
    caption = f"Final {metric} of each arm: mean, standard deviation over seeds as a bar, single seeds as small marks."
    chart = Chart(f"{metric} against parameters", "parameters", axis_name(metric),
                  _joined(section, places, list(every)), dots,
                  log_y=is_kappa(metric), show_x=short, show_y=shown(metric))  # fmt: skip
    return _figure(section, chart, caption + said)


def _joined(section: Section, places: Mapping[str, Point], names: Sequence[str]) -> list[Line]:
    """Lines from what is compared against to what is compared, where no arm is in two pairs."""
    pairs = {(pair.against, pair.arm) for pair in section.experiment.comparisons} if section.experiment else set()
    ends = [name for pair in pairs for name in pair]
    if len(pairs) < 2 or len(set(ends)) < len(ends):
        return []
    return [Line([places[a], places[b]], names.index(b), "faint", f"{a} to {b}") for a, b in sorted(pairs)
            if a in places and b in places]  # fmt: skip


def against_kappa(section: Section, metric: str) -> Figure:
    """The final headline of each run against its final kappa: does kappa tell which design does better?"""
    dots, compared = [], 0
    for colour, arm in enumerate(section.arms):
        ours, theirs = arm.values(KIND), arm.values(metric)
        shared = sorted(ours.keys() & theirs.keys())[:SEEDS]
        if not shared:
            continue
        compared += 1
        middle = mean([ours[seed] for seed in shared]), mean([theirs[seed] for seed in shared])
        dots += [Dot(math.exp(min(ours[seed], LARGEST)), theirs[seed], colour, faint=True) for seed in shared]
        dots.append(Dot(math.exp(min(middle[0], LARGEST)), middle[1], colour, title=arm.name))
    if compared < LEAST or is_kappa(metric):
        dots = []
    caption = f"Means over seeds, single seeds as small marks. {_related(section, metric)}"
    chart = Chart(f"{metric} against kappa", "kappa at the end", axis_name(metric), dots=dots, log_x=True, show_x=plain,
                  show_y=shown(metric))  # fmt: skip
    return _figure(section, chart, caption.strip())


def _related(section: Section, metric: str) -> str:
    """The rank correlation of kappa and the metric over all arms, in a sentence."""
    logs, scores = ({arm.name: arm.values(name) for arm in section.arms} for name in (KIND, metric))
    found = trend(logs, scores)
    if not found.seeds:
        return ""
    span = f"; 95 % interval {found.low:+.2f} to {found.high:+.2f}" if math.isfinite(found.low) else ""
    return f"Rank correlation over the arms: {found.difference:+.2f}, mean of {seeds(found.seeds)}{span}."


def _figure(section: Section, chart: Chart, caption: str) -> Figure:
    return Figure(chart, caption, [arm.name for arm in section.arms])
