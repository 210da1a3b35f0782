"""The table of arms and the words about a section: the page and the terminal show the same."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from manyheads.arch.controls import depths, head_dims, heads, inners
from manyheads.arch.count import forward_flops, params
from manyheads.experiments.statistics import mean, spread
from manyheads.experiments.verdict import SEEDS, seeds
from manyheads.spec.parts import Token

from . import words
from .gather import ArmRuns, Section
from .judged import Judged, verdicts
from .measured import LARGEST
from .tables import Cell

SCORES = 10  # columns of further scores that a table has room for
MEANING = {
    "layers": "depth, by stage",
    "heads": "heads x head_dim",
    "inner": "columns of the concatenated heads",
    "FLOPs": "of one forward pass over one sample",
    "seeds": "finished runs",
    "seconds": "of training, mean over seeds",
    "kappa": "condition number of the concatenated heads at the end, geometric mean over samples, layers and seeds",
    "Gaussian": "kappa of independent normal entries of the same shape",
    "paper": "what the paper printed for this arm",
    "non-embedding": "parameters of the layers alone, without embedding and head",
    **{name: meaning for name, (_, meaning) in words.METRICS.items()},
    "binomial": "standard error of one run's score for as many held-out samples as its result states or its task asks for; "
    "seeds do not average it away, since all are scored on the same samples",
}
SCALES_MEAN = {
    "smoke": "shows that everything works",
    "laptop": "reduced sizes, on two CPU cores; a verdict is about these sizes",
    "small": "reduced sizes, on one GPU; a verdict is about these sizes",
    "paper": "the paper's own sizes",
}


def table(section: Section, *, full: bool = False) -> list[dict[str, Cell]]:
    """What each arm reaches, costs and is: one row an arm, all with the same heads, the ones most looked for first. The
    `full` table has columns that a terminal has no room for."""
    metric, _ = section.headline
    kinds = list(dict.fromkeys(kind for run in section.runs for kind in run.measured.probed))
    printed = section.experiment.printed if section.experiment else {}
    others = [name for run in section.runs for name in run.measured.scores if name != metric]
    scores = list(dict.fromkeys(others))[:SCORES]
    shown = printed if any(arm.name in printed for arm in section.arms) else None
    language = full and any(isinstance(arm.arch.embed, Token) for arm in section.arms)
    sampled = full and any(run.measured.binomial(metric) is not None for run in section.runs)
    rows = []
    for arm in section.arms:
        kappas, shape = _conditioned(arm, kinds), _shape(arm)
        is_so = kappas | shape if len(kinds) == 1 else shape | kappas  # many kinds of kappa would hide what an arm is
        rows.append(
            _reached(arm, metric)
            | (_binomial(arm, metric) if sampled else {})
            | _printed(arm, metric, shown)
            | _costs(arm, language=language)
            | is_so
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
    return Cell(words.with_spread(values, metric), mean(values), {"spread": spread(values)} if len(values) > 1 else {})


def _binomial(arm: ArmRuns, metric: str) -> dict[str, Cell]:
    found = [error for run in arm.done if (error := run.measured.binomial(metric)) is not None]
    return {"binomial": Cell(f"± {words.score(mean(found), metric)}", mean(found)) if found else Cell("")}


def _printed(arm: ArmRuns, metric: str, printed: Any) -> dict[str, Cell]:
    if printed is None:
        return {}
    value = printed.get(arm.name)
    return {"paper": Cell("") if value is None else Cell(words.score(value, metric), value)}


def _costs(arm: ArmRuns, *, language: bool) -> dict[str, Cell]:
    counted, work = params(arm.arch), forward_flops(arm.arch)
    layers = {"non-embedding": Cell(words.count(counted.non_embedding), counted.non_embedding)} if language else {}
    seconds = [run.measured.seconds for run in arm.done if run.measured.seconds is not None]
    return {
        "parameters": Cell(words.count(counted.total), counted.total),
        **layers,
        "FLOPs": Cell(words.count(work), work),
        "seconds": Cell(words.duration(mean(seconds)), mean(seconds)) if seconds else Cell(""),
    }


def _shape(arm: ArmRuns) -> dict[str, Cell]:
    arch = arm.arch
    shapes = [f"{count} x {dim}" for count, dim in zip(heads(arch), head_dims(arch), strict=True)]
    return {
        "layers": Cell(words.each(depths(arch)), words.each(depths(arch))),
        "heads": Cell(words.each(shapes), words.each(shapes)),
        "inner": Cell(words.each(inners(arch)), words.each(inners(arch))),
        "seeds": Cell(str(arm.seeds), arm.seeds),
    }


def _conditioned(arm: ArmRuns, kinds: Sequence[str]) -> dict[str, Cell]:
    cells = {}
    for kind in kinds:
        probed = [run.measured.probed[kind] for run in arm.runs if kind in run.measured.probed]
        last = [
            run.measured.probed[kind].kappa[-1][1]
            for run in arm.done
            if kind in run.measured.probed and run.measured.probed[kind].kappa
        ]
        suffix = f", {kind}" if len(kinds) > 1 else ""
        cells[f"kappa{suffix}"] = _kappa(mean(last) if last else None)
        cells[f"Gaussian{suffix}"] = _kappa(next((one.gaussian for one in probed if one.gaussian is not None), None))
    return cells


def _kappa(log: float | None) -> Cell:
    return Cell("") if log is None else Cell(words.kappa(log), math.exp(min(log, LARGEST)))


def terms(section: Section) -> str:
    """On which terms the arms were compared: scale, basis, batch, task, seeds. Where they differ, all are named."""

    def named(values: Iterable[str]) -> str:
        return " or ".join(dict.fromkeys(filter(None, values)))

    specs = [run.found.spec for run in section.runs if run.found.spec is not None]
    budgets = named(_budget(spec.recipe) for spec in specs)
    data = named(" ".join(str(spec.task[name]) for name in ("is", "data") if spec.task.get(name)) for spec in specs)
    used = ", ".join(str(seed) for seed in sorted({spec.seed for spec in specs})[:12])
    metric, _ = section.headline
    guesses = [run.measured.trivial[metric] for run in section.runs if metric in run.measured.trivial]
    guess = named(words.score(value, metric) for value in guesses)
    held = named(f"{run.measured.held:,}" for run in section.runs if run.measured.held)
    scale = f"scale {section.scale}: {SCALES_MEAN[section.scale]}" if section.scale in SCALES_MEAN else ""
    return "; ".join(
        filter(
            None,
            [
                scale,
                budgets and f"budget: {budgets}",
                data and f"task: {data}",
                held and f"held out: {held} samples",
                f"seeds: {used}",
                guess and f"a constant guess has {metric} {guess}",
            ],
        )
    )


def _budget(recipe: dict[str, Any]) -> str:
    basis, batch = recipe.get("basis"), recipe.get("batch")
    if not isinstance(basis, dict) or not isinstance(basis.get("amount"), int | float):
        return ""
    return f"{basis['amount']:,.6g} {basis.get('kind')}" + (f" of batch {batch}" if batch else "")


def conclusion(section: Section) -> list[str]:
    """The verdict in sentences: the same on the page and in the terminal."""
    judged = verdicts(section)
    sentences = _caution(section, judged)
    sentences += [item.verdict.found for item in sorted(judged, key=lambda item: item.effect is None)]
    scale = f" at scale {section.scale}" if section.scale else ""
    for item in judged:
        if item.verdict.word in ("holds", "does not hold"):
            claim = f" ({item.pair.claim}: {item.claim})" if item.claim else ""
            sentences.append(f"{item.pair.arm} against {item.pair.against}: {item.verdict.word}{scale}{claim}.")
    excess = [
        one.kappa[-1][1] - one.gaussian
        for run in section.runs
        if run.state == "done"
        for one in run.measured.probed.values()
        if one.kappa and one.gaussian is not None
    ]
    if excess:
        low, high = (words.kappa(end) for end in (min(excess), max(excess)))
        sentences.append(
            f"kappa at the end: {low} to {high} times that of independent normal entries of the same shape."
        )
    return sentences


def _caution(section: Section, judged: Sequence[Judged]) -> list[str]:
    """What is to be known before anything else is read."""
    compared = {name for item in judged for name in (item.pair.arm, item.pair.against)}
    fewest = min((arm.seeds for arm in section.arms if arm.name in compared), default=0)
    if judged and fewest < SEEDS:
        count = (
            f"{seeds(fewest)} an arm {'allows' if fewest == 1 else 'allow'}"
            if fewest
            else ("Arms without a finished run allow")
        )
        return [
            f"{count} hardly any claim: this shows what was measured, no more. A verdict takes {SEEDS} seeds or more."
        ]
    if judged and section.scale == "smoke":
        return ["This is a smoke run: it shows that everything works, and decides nothing."]
    return []
