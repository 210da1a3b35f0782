"""The table of arms and the sentences about a section: the page and the terminal show the same."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from manyheads.arch.controls import depths, head_dims, heads, inners
from manyheads.arch.count import forward_flops, params
from manyheads.experiments.statistics import mean, spread
from manyheads.experiments.verdict import LARGEST, SEEDS, seeds, visible
from manyheads.spec.measurements import Measurement
from manyheads.spec.parts import Token
from manyheads.spec.run import RunSpec
from manyheads.spec.serialise import to_dict

from . import number_text
from .device_sharing import company, sharing
from .glossary import SCALES
from .read_runs import ArmRuns, Section
from .section_verdicts import Judgement, verdicts
from .tables import Cell

SCORES = 10  # most columns of further scores
SAID = ("holds", "does not hold", "better", "worse", "higher", "lower", "within noise")


def table(section: Section, *, full: bool = False) -> list[dict[str, Cell]]:
    """What each arm reaches, costs and is: one row per arm, all with the same heads, those that readers look for first.
    The `full` table has columns that a terminal has no room for."""
    metric, _ = section.headline
    kinds = list(dict.fromkeys(kind for run in section.runs for kind in run.measured.probes))
    printed = section.experiment.printed if section.experiment else {}
    others = [name for run in section.runs for name in run.measured.scores if name != metric]
    scores = list(dict.fromkeys(others))[:SCORES]
    shown = printed if any(arm.name in printed for arm in section.arms) else None
    language = full and any(isinstance(arm.arch.embed, Token) for arm in section.arms)
    sampled = full and any(run.measured.binomial(metric) is not None for run in section.runs)
    rows = []
    for arm in section.arms:
        kappas, shape = _conditioned(arm, kinds), _shape(arm)
        described = kappas | shape if len(kinds) == 1 else shape | kappas  # many kinds of kappa would hide the shape
        rows.append(
            _reached(arm, metric)
            | (_binomial(arm, metric) if sampled else {})
            | _printed(arm, metric, shown)
            | _costs(arm, language=language)
            | described
            | {name: _score(arm, name) for name in scores}
        )
    return rows


def _reached(arm: ArmRuns, metric: str) -> dict[str, Cell]:
    states = [run.state for run in arm.runs]
    pending = ", ".join(f"{states.count(state)} {state}" for state in dict.fromkeys(states))
    return {"arm": Cell(arm.name, f"{arm.order:07d}"), metric or "score": _score(arm, metric, pending)}


def _score(arm: ArmRuns, metric: str, pending: str = "") -> Cell:
    values = list(arm.values(metric).values())
    if not values:
        return Cell(pending, pending)
    return Cell(
        number_text.with_spread(values, metric), mean(values), {"spread": spread(values)} if len(values) > 1 else {}
    )


def _binomial(arm: ArmRuns, metric: str) -> dict[str, Cell]:
    errors = [error for run in arm.done if (error := run.measured.binomial(metric)) is not None]
    return {"binomial": Cell(f"± {number_text.score(mean(errors), metric)}", mean(errors)) if errors else Cell("")}


def _printed(arm: ArmRuns, metric: str, printed: Mapping[str, float] | None) -> dict[str, Cell]:
    if printed is None:
        return {}
    value = printed.get(arm.name)
    return {"paper": Cell("") if value is None else Cell(number_text.score(value, metric), value)}


def _costs(arm: ArmRuns, *, language: bool) -> dict[str, Cell]:
    counted, work = params(arm.arch), forward_flops(arm.arch)
    layers = (
        {"non-embedding": Cell(number_text.count(counted.non_embedding), counted.non_embedding)} if language else {}
    )
    seconds = [run.measured.seconds for run in arm.done if run.measured.seconds is not None]
    return {
        "parameters": Cell(number_text.count(counted.total), counted.total),
        **layers,
        "FLOPs": Cell(number_text.count(work), work),
        "seconds": Cell(number_text.duration(mean(seconds)), mean(seconds)) if seconds else Cell(""),
    }


def _shape(arm: ArmRuns) -> dict[str, Cell]:
    arch = arm.arch
    shapes = [f"{count} x {dim}" for count, dim in zip(heads(arch), head_dims(arch), strict=True)]
    return {
        "layers": Cell(number_text.each(depths(arch)), number_text.each(depths(arch))),
        "heads": Cell(number_text.each(shapes), number_text.each(shapes)),
        "inner": Cell(number_text.each(inners(arch)), number_text.each(inners(arch))),
        "seeds": Cell(str(arm.seeds), arm.seeds),
    }


def _conditioned(arm: ArmRuns, kinds: Sequence[str]) -> dict[str, Cell]:
    cells = {}
    for kind in kinds:
        probes = [run.measured.probes[kind] for run in arm.runs if kind in run.measured.probes]
        finished = [run.measured.probes[kind] for run in arm.done if kind in run.measured.probes]
        last = [curves.log_kappa[-1][1] for curves in finished if curves.log_kappa]
        suffix = f", {kind}" if len(kinds) > 1 else ""
        cells[f"kappa{suffix}"] = _kappa(mean(last) if last else None)
        predictions = (curves.gaussian for curves in probes if curves.gaussian is not None)
        cells[f"Gaussian{suffix}"] = _kappa(next(predictions, None))
    return cells


def _kappa(log: float | None) -> Cell:
    return Cell("") if log is None else Cell(number_text.kappa(log), math.exp(min(log, LARGEST)))


def terms(section: Section) -> str:
    """The terms on which the arms were compared: scale, basis, batch, task, seeds. Where they differ, all are named."""

    def named(values: Iterable[str]) -> str:
        return " or ".join(dict.fromkeys(filter(None, values)))

    specs = [run.folder.spec for run in section.runs if run.folder.spec is not None]
    budgets = named(_budget(spec) for spec in specs)
    data = named(_task(to_dict(spec.task)) for spec in specs)
    metric, _ = section.headline
    guesses = [run.measured.trivial[metric] for run in section.runs if metric in run.measured.trivial]
    guess = named(number_text.score(value, metric) for value in guesses)
    held_out = named(f"{run.measured.held_out:,}" for run in section.runs if run.measured.held_out)
    parts = [
        f"scale {section.scale}: {SCALES[section.scale]}" if section.scale in SCALES else "",
        budgets and f"budget: {budgets}",
        data and f"task: {data}",
        held_out and f"held out: {held_out} samples",
        "seeds: " + ", ".join(str(seed) for seed in sorted({spec.seed for spec in specs})[:12]),
        guess and f"a constant guess has {metric} {guess}",
        sharing(section),
    ]
    return "; ".join(filter(None, parts))


def _budget(spec: RunSpec) -> str:
    if isinstance(spec.task, Measurement):  # it trains nothing
        return ""
    basis = spec.recipe.basis
    return f"{basis.amount:,.6g} {basis.kind} of batch {spec.recipe.batch}"


def _task(fields: Mapping[str, Any]) -> str:
    """The kind of a task, and its data."""
    return " ".join(str(fields[name]) for name in ("is", "data") if fields.get(name))


def conclusion(section: Section) -> list[str]:
    """The verdicts in sentences: the same on the page and in the terminal."""
    judgements = verdicts(section)
    sentences = _stated(section) + _caution(section, judgements) + company(section)
    sentences += [one.verdict.found for one in sorted(judgements, key=lambda one: one.effect is None)]
    scale = f" at scale {section.scale}" if section.scale else ""
    for one in judgements:
        if one.verdict.word in SAID:
            secondary = "" if one.pair.primary else ", secondary"
            claim = f" ({one.pair.claim}{secondary}: {one.claim})" if one.claim else ""
            metric = f" in {one.metric_name}" if one.pair.expect == "open" else ""
            noise = one.verdict.word == "within noise" and one.effect is not None
            more = [visible(one.effect, one.metric) if noise and one.effect else "", one.doubt]
            sentences.append(
                " ".join(filter(None, [f"{one.pair.name}: {one.verdict.word}{metric}{scale}{claim}.", *more]))
            )
    unlike = dict.fromkeys(
        f"{one.pair.name}: {one.verdict.word}. {one.verdict.reason}"
        for one in judgements
        if one.verdict.word in ("not comparable", "not testable in this setting")
    )
    sentences += unlike
    finished = [run for run in section.runs if run.state == "done"]
    excess = [
        curves.log_kappa[-1][1] - curves.gaussian
        for run in finished
        for curves in run.measured.probes.values()
        if curves.log_kappa and curves.gaussian is not None
    ]
    if excess:
        low, high = (number_text.kappa(end) for end in (min(excess), max(excess)))
        normal = "independent normal entries of the same shape"
        sentences.append(f"kappa at the end: {low} to {high} times that of {normal}.")
    return sentences


def _stated(section: Section) -> list[str]:
    """What the experiment itself says about its verdicts: that it is a changed copy, and its remarks."""
    one = section.experiment
    if one is None:
        return []
    changed = (
        f"This is {one.of}, changed: {'; '.join(one.changes)}. It decides no claim of the papers." if one.of else ""
    )
    return [*filter(None, [changed]), *one.remarks]


def _caution(section: Section, judgements: Sequence[Judgement]) -> list[str]:
    """What a reader has to know before anything else."""
    compared = {name for one in judgements for name in (one.pair.arm, one.pair.against)}
    fewest = min((arm.seeds for arm in section.arms if arm.name in compared), default=0)
    if judgements and fewest < SEEDS:
        count = f"{seeds(fewest)} per arm {'allows' if fewest == 1 else 'allow'}"
        who = count if fewest else "Arms without a finished run allow"
        return [
            f"{who} hardly any claim: this shows what was measured, no more. A verdict takes {SEEDS} seeds or more."
        ]
    if judgements and section.scale == "smoke":
        return ["This is a smoke run: it shows that everything works, and decides nothing."]
    return []
