"""The figures of a section: its headline metric over what the arms differ in, over steps, against size and against
kappa, with the values that the paper printed."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from manyheads.arch.count import params
from manyheads.experiments.designs import LEAST, partial_correlation
from manyheads.experiments.statistics import mean, spread
from manyheads.experiments.verdict import LARGEST, LOG_KAPPA

from .arms_grid import ArmsGrid, arms_grid, factors
from .chart import Chart, Dot, Figure, Line, Point
from .kappa_figures import SEEDS, arm_curves, kappa_figures
from .number_text import at_tick, axis_name, is_kappa, plain, score, short, steps, with_spread
from .read_runs import ArmRuns, Section

NAMED = 8  # most arms that have room for their names in a figure
MEASURES = 8  # most metrics with figures of their own, of an experiment that measures without training
STRETCH = 4.0  # by how much the paper's values may stretch an axis


def figures(section: Section) -> list[Figure]:
    """Every figure that the section's runs have numbers for; what the experiment asks about comes first."""
    metric, _ = section.headline
    grid = arms_grid(section.arms)
    trained = any(run.measured.curve for run in section.runs)
    every = dict.fromkeys([metric, *(name for run in section.runs for name in run.measured.scores)])
    metrics = [metric] if trained else [name for name in every if not is_kappa(name)][:MEASURES]
    about_scores = [_over_factor(section, name, grid) for name in metrics] if grid else []
    about_scores.append(_over_steps(section, metric))
    about_scores += [_against_params(section, name) for name in metrics if trained or not grid]
    about_kappa = kappa_figures(section, grid)
    first, second = (about_kappa, about_scores) if is_kappa(metric) else (about_scores, about_kappa)
    drawn = [*first, *second, _against_kappa(section, metric), _as_printed(section, metric)]
    return [figure for figure in drawn if figure.chart.dots or _has_curve(figure.chart)]


def _has_curve(chart: Chart) -> bool:
    """Whether a line goes over more than a single step."""
    return any(len({x for x, _ in line.points}) > 1 for line in chart.lines)


def _over_steps(section: Section, metric: str) -> Figure:
    """The headline metric at each evaluation."""
    several = max((arm.seeds for arm in section.arms), default=0) > 1
    seed_lines = "Strong lines are means over seeds, faint ones single seeds." if several else "Each line is one seed."
    chart = Chart(
        f"{metric} over steps",
        "step",
        axis_name(metric),
        arm_curves(section.arms, lambda run: run.measured.curve),
        log_y=is_kappa(metric),
        whole_x=True,
        show_x=steps,
        show_y=at_tick(metric),
    )
    return Figure(chart, f"{metric} on held-out data. {seed_lines}", _names(section))


def _over_factor(section: Section, metric: str, grid: ArmsGrid) -> Figure:
    """The final headline against what the arms differ in, a line for each series, the paper's values hollow."""
    values = {arm.name: list(arm.values(metric).values()) for arm in section.arms}
    means = {name: mean(of_arm) for name, of_arm in values.items() if of_arm}
    spreads = {name: spread(of_arm) for name, of_arm in values.items()}
    printed, about_paper = _paper_values(
        section, metric, list(means.values()), lambda arm: dict(factors(arm)).get(grid.x)
    )
    lines, dots = grid.draw(means, spreads, lambda value: score(value, metric))
    paper_lines, paper_dots = grid.draw(printed, {}, lambda value: score(value, metric), printed=True)
    title = f"{metric} over {grid.x}"
    chart = grid.chart(title, axis_name(metric), [*lines, *paper_lines], [*dots, *paper_dots], at_tick(metric))
    caption = f"Final {metric}: mean over seeds, with their standard deviation as a bar.{about_paper}"
    return Figure(chart, caption, grid.names)


def _paper_values(
    section: Section, metric: str, measured: Sequence[float], place: Callable[[ArmRuns], object]
) -> tuple[dict[str, float], str]:
    """What the paper printed for the arms that are here, and a sentence about it.

    Two kinds of values are stated and not drawn: those of designs with another `place` along the axis in the paper's
    setting than here, and those that would squeeze the measured values into a strip, as where a small scale trains on
    another task."""
    printed = dict(section.experiment.printed) if section.experiment and metric == section.headline[0] else {}
    here = {arm.name: printed[arm.name] for arm in section.arms if arm.name in printed}
    if not here or not measured:
        return {}, ""
    ends = " to ".join(dict.fromkeys(score(value, metric) for value in (min(here.values()), max(here.values()))))
    theirs = _paper_arms(section)
    same = {
        arm.name: here[arm.name]
        for arm in section.arms
        if arm.name in here and (arm.name not in theirs or place(theirs[arm.name]) == place(arm))
    }
    if not same:
        return {}, f" The paper printed {ends}, for designs of another size."
    span = max(*measured, *same.values()) - min(*measured, *same.values())
    if span <= max(STRETCH * (max(measured) - min(measured)), 0.1 * max(map(abs, measured))):
        return same, " Hollow: what the paper printed for the arm of the same name, in its own setting."
    return {}, f" The paper printed {ends}, in another setting; these values are off this scale."


def _paper_arms(section: Section) -> dict[str, ArmRuns]:
    """The arms of the paper's own setting, without runs."""
    setting = section.experiment.settings.get("paper") if section.experiment else None
    arms = setting.arms if setting else ()
    return {arm.name: ArmRuns(arm.name, arm.note, arm.arch, order) for order, arm in enumerate(arms)}


def _as_printed(section: Section, metric: str) -> Figure:
    """The paper's own figure: what it printed for its own designs, shown beside a smaller experiment."""
    printed = section.experiment.printed if section.experiment and metric and section.scale != "paper" else {}
    arms = [arm for arm in _paper_arms(section).values() if arm.name in printed]
    names, title = [arm.name for arm in arms], f"{metric}, as the paper printed it"
    grid = arms_grid(arms) if len(arms) > 2 else None
    caption = "Nothing in this figure was measured here: these are the paper's values for the paper's own designs."
    if grid is not None:
        lines, dots = grid.draw(printed, {}, lambda value: score(value, metric), printed=True)
        return Figure(grid.chart(title, axis_name(metric), lines, dots, at_tick(metric)), caption, grid.names)
    places = {arm.name: (float(params(arm.arch).total), printed[arm.name]) for arm in arms}
    named = _named(arms)
    dots = []
    for colour, name in enumerate(names):
        text = f"{name}: {score(printed[name], metric)}"
        dots.append(Dot(*places[name], colour, hollow=True, label=name if named else "", title=text))
    chart = Chart(
        title,
        "parameters",
        axis_name(metric),
        _joined(section, places, names),
        dots if len(dots) > 1 else [],
        keys=names,
        show_x=short,
        show_y=at_tick(metric),
    )
    return Figure(chart, caption, names)


def _against_params(section: Section, metric: str) -> Figure:
    """The final headline of each arm against its parameters; lines join the pairs of an experiment of pairs."""
    every = {arm.name: list(arm.values(metric).values()) for arm in section.arms}
    measured = [value for values in every.values() for value in values]
    printed, about_paper = _paper_values(section, metric, measured, lambda arm: params(arm.arch).total)
    named = _named(section.arms)
    places: dict[str, Point] = {}
    dots = []
    for colour, arm in enumerate(section.arms):
        values, size = every[arm.name], float(params(arm.arch).total)
        if arm.name in printed:
            title = f"{arm.name}, as printed: {score(printed[arm.name], metric)}"
            dots.append(Dot(size, printed[arm.name], colour, hollow=True, title=title))
        if not values:
            continue
        places[arm.name] = size, mean(values)
        label = arm.name if named else ""
        title = f"{arm.name}: {with_spread(values, metric)}"
        dots.append(Dot(size, mean(values), colour, spread(values), label, title=title))
        if len(values) > 1:
            dots += [Dot(size, value, colour, faint=True) for value in values[:SEEDS]]
    caption = f"Final {metric} of each arm: mean, standard deviation over seeds as a bar, single seeds as small marks."
    chart = Chart(
        f"{metric} against parameters",
        "parameters",
        axis_name(metric),
        _joined(section, places, list(every)),
        dots,
        log_y=is_kappa(metric),
        show_x=short,
        show_y=at_tick(metric),
    )
    return Figure(chart, caption + about_paper, _names(section))


def _named(arms: Sequence[ArmRuns]) -> bool:
    """Whether arms have room for their names beside their marks: they are few, and no two have the same size."""
    sizes = [params(arm.arch).total for arm in arms]
    return len(arms) <= NAMED and len(set(sizes)) == len(sizes)


def _joined(section: Section, places: Mapping[str, Point], names: Sequence[str]) -> list[Line]:
    """Lines between the arms of each comparison, where no arm is in two of them."""
    pairs = {(pair.against, pair.arm) for pair in section.experiment.comparisons} if section.experiment else set()
    ends = [name for pair in pairs for name in pair]
    if len(pairs) < 2 or len(set(ends)) < len(ends):
        return []
    return [
        Line([places[a], places[b]], names.index(b), "faint", f"{a} to {b}")
        for a, b in sorted(pairs)
        if a in places and b in places
    ]


def _against_kappa(section: Section, metric: str) -> Figure:
    """The final headline of each run against its final kappa: does kappa tell which design does better?"""
    dots, compared = [], 0
    for colour, arm in enumerate(section.arms):
        logs, scores = arm.values(LOG_KAPPA), arm.values(metric)
        shared = sorted(logs.keys() & scores.keys())[:SEEDS]
        if not shared:
            continue
        compared += 1
        middle = mean([logs[seed] for seed in shared]), mean([scores[seed] for seed in shared])
        dots += [Dot(math.exp(min(logs[seed], LARGEST)), scores[seed], colour, faint=True) for seed in shared]
        dots.append(Dot(math.exp(min(middle[0], LARGEST)), middle[1], colour, title=arm.name))
    if compared < LEAST or is_kappa(metric):
        dots = []
    caption = f"Means over seeds, with single seeds as small marks. {_correlation(section, metric)}"
    chart = Chart(
        f"{metric} against kappa",
        "kappa at the end",
        axis_name(metric),
        dots=dots,
        log_x=True,
        show_x=plain,
        show_y=at_tick(metric),
    )
    return Figure(chart, caption.strip(), _names(section))


def _correlation(section: Section, metric: str) -> str:
    """The rank correlation of kappa and the metric over all arms, each at its mean over seeds, in a sentence."""
    values = [(arm.values(LOG_KAPPA), arm.values(metric)) for arm in section.arms]
    means = [(mean(list(logs.values())), mean(list(scores.values()))) for logs, scores in values if logs and scores]
    found = partial_correlation([x for x, _ in means], [y for _, y in means], {}, permutations=0)
    if found is None:
        return ""
    return (
        f"Rank correlation over {found.designs} arms: {found.value:+.2f}; "
        f"95 % interval {found.low:+.2f} to {found.high:+.2f}."
    )


def _names(section: Section) -> list[str]:
    return [arm.name for arm in section.arms]
