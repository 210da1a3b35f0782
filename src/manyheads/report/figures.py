"""The figures of a section: the headline over what the arms differ in, over steps, against size and against kappa."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from manyheads.arch.count import params
from manyheads.experiments.statistics import LEAST, mean, spread, trend
from manyheads.experiments.verdict import seeds

from . import words
from .chart import Chart, Dot, Figure, Line, Point
from .curves import SEEDS, axis_name, is_kappa, lines, plain, short, shown, swept_chart, through, whole
from .factors import Sweep, factors, sweep
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
    shown = (
        [metric] if trained else [name for name in every if not is_kappa(name)][:MEASURES]
    )  # kappa has its own figures
    made = [over_factor(section, name, swept) for name in shown] if swept else []
    made += [over_steps(section, metric), *(against_params(section, name) for name in shown if trained or not swept)]
    conditioned = kappa_figures(section, swept)
    made = [*conditioned, *made] if is_kappa(metric) else [*made, *conditioned]  # what was asked about comes first
    made += [against_kappa(section, metric), as_printed(section, metric)]
    return [figure for figure in made if figure.chart.dots or _runs_along(figure.chart)]


def _runs_along(chart: Chart) -> bool:
    """Whether its lines lead anywhere: a single step is no curve."""
    return any(len({x for x, _ in line.points}) > 1 for line in chart.lines)


def over_steps(section: Section, metric: str) -> Figure:
    """The headline metric at each evaluation."""
    drawn = lines(section.arms, lambda run: run.measured.curve)
    several = max((arm.seeds for arm in section.arms), default=0) > 1
    said = "Strong lines are means over seeds, faint ones single seeds." if several else "One seed for each line."
    return _figure(
        section,
        Chart(
            f"{metric} over steps",
            "step",
            axis_name(metric),
            drawn,
            log_y=is_kappa(metric),
            whole_x=True,
            show_x=whole,
            show_y=shown(metric),
        ),
        f"{metric} on held-out data. {said}",
    )


def over_factor(section: Section, metric: str, swept: Sweep) -> Figure:
    """The final headline against what the arms differ in, a line for each series, the paper's values hollow."""
    found = {arm.name: list(arm.values(metric).values()) for arm in section.arms}
    means = {name: mean(values) for name, values in found.items() if values}
    spreads = {name: spread(values) for name, values in found.items()}
    paper, said = paper_values(section, metric, list(means.values()), lambda arm: dict(factors(arm)).get(swept.x))
    drawn, dots = through(swept, means, spreads, lambda value: words.score(value, metric))
    paper_lines, paper_dots = through(swept, paper, {}, lambda value: words.score(value, metric), printed=True)
    return Figure(
        swept_chart(
            f"{metric} over {swept.x}",
            swept,
            axis_name(metric),
            [*drawn, *paper_lines],
            [*dots, *paper_dots],
            shown(metric),
        ),
        f"Final {metric}: mean over seeds, their standard deviation as a bar.{said}",
        swept.names,
    )


def paper_values(
    section: Section, metric: str, measured: Sequence[float], place: Callable[[ArmRuns], object]
) -> tuple[dict[str, float], str]:
    """What the paper printed for the arms that are here, and a sentence about it. Told and not drawn are values of
    designs that have another place along the axis in the paper's setting than here, and those that would squeeze what
    was measured into a strip: at a small scale another task is trained."""
    printed = dict(section.experiment.printed) if section.experiment and metric == section.headline[0] else {}
    here = {arm.name: printed[arm.name] for arm in section.arms if arm.name in printed}
    if not here or not measured:
        return {}, ""
    ends = dict.fromkeys(words.score(value, metric) for value in (min(here.values()), max(here.values())))
    theirs = _paper_arms(section)
    same = {
        arm.name: here[arm.name]
        for arm in section.arms
        if arm.name in here and (arm.name not in theirs or place(theirs[arm.name]) == place(arm))
    }
    if not same:
        return {}, f" The paper printed {' to '.join(ends)}, for designs of another size."
    span = max(*measured, *same.values()) - min(*measured, *same.values())
    if span <= max(STRETCH * (max(measured) - min(measured)), 0.1 * max(map(abs, measured))):
        return same, " Hollow: what the paper printed for the arm of the same name, in its own setting."
    return {}, f" The paper printed {' to '.join(ends)}, off this scale: its setting is another."


def _paper_arms(section: Section) -> dict[str, ArmRuns]:
    """The arms of the paper's own setting, without runs."""
    known = section.experiment.settings.get("paper") if section.experiment else None
    return {
        arm.name: ArmRuns(arm.name, arm.note, arm.arch, order) for order, arm in enumerate(known.arms if known else ())
    }


def as_printed(section: Section, metric: str) -> Figure:
    """What the paper printed, at the paper's own designs: its figure, beside a smaller experiment of the same name."""
    printed = section.experiment.printed if section.experiment and metric and section.scale != "paper" else {}
    arms = [arm for arm in _paper_arms(section).values() if arm.name in printed]
    names, title = [arm.name for arm in arms], f"{metric}, as the paper printed it"
    swept = sweep(arms) if len(arms) > 2 else None
    caption = "Nothing of this was measured here: the paper's values for the paper's own designs."
    if swept is not None:
        drawn, dots = through(swept, printed, {}, lambda value: words.score(value, metric), printed=True)
        return Figure(swept_chart(title, swept, axis_name(metric), drawn, dots, shown(metric)), caption, swept.names)
    places = {arm.name: (float(params(arm.arch).total), printed[arm.name]) for arm in arms}
    named = _named(arms)
    dots = [
        Dot(
            *places[name],
            colour,
            hollow=True,
            label=name if named else "",
            title=f"{name}: {words.score(printed[name], metric)}",
        )
        for colour, name in enumerate(names)
    ]
    chart = Chart(
        title,
        "parameters",
        axis_name(metric),
        _joined(section, places, names),
        dots if len(dots) > 1 else [],
        keys=names,
        show_x=short,
        show_y=shown(metric),
    )
    return Figure(chart, caption, names)


def against_params(section: Section, metric: str) -> Figure:
    """The final headline of each arm against its parameters; lines join the pairs of an experiment of pairs."""
    every = {arm.name: list(arm.values(metric).values()) for arm in section.arms}
    paper, said = paper_values(
        section, metric, [value for values in every.values() for value in values], lambda arm: params(arm.arch).total
    )
    named = _named(section.arms)
    places: dict[str, Point] = {}
    dots = []
    for colour, arm in enumerate(section.arms):
        values, size = every[arm.name], float(params(arm.arch).total)
        if arm.name in paper:
            dots.append(
                Dot(
                    size,
                    paper[arm.name],
                    colour,
                    hollow=True,
                    title=f"{arm.name}, as printed: {words.score(paper[arm.name], metric)}",
                )
            )
        if not values:
            continue
        places[arm.name] = size, mean(values)
        label = arm.name if named else ""
        title = f"{arm.name}: {words.with_spread(values, metric)}"
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
        show_y=shown(metric),
    )
    return _figure(section, chart, caption + said)


def _named(arms: Sequence[ArmRuns]) -> bool:
    """Whether arms have room for their names beside their marks: few, and none above another."""
    sizes = [params(arm.arch).total for arm in arms]
    return len(arms) <= NAMED and len(set(sizes)) == len(sizes)


def _joined(section: Section, places: Mapping[str, Point], names: Sequence[str]) -> list[Line]:
    """Lines from what is compared against to what is compared, where no arm is in two pairs."""
    pairs = {(pair.against, pair.arm) for pair in section.experiment.comparisons} if section.experiment else set()
    ends = [name for pair in pairs for name in pair]
    if len(pairs) < 2 or len(set(ends)) < len(ends):
        return []
    return [
        Line([places[a], places[b]], names.index(b), "faint", f"{a} to {b}")
        for a, b in sorted(pairs)
        if a in places and b in places
    ]


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
    chart = Chart(
        f"{metric} against kappa",
        "kappa at the end",
        axis_name(metric),
        dots=dots,
        log_x=True,
        show_x=plain,
        show_y=shown(metric),
    )
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
