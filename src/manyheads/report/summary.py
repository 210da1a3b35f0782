"""The comparison table and the verdict of a section, as plain text: the page and the terminal show the same words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, cast

from manyheads.arch.controls import depths, head_dims, heads, inners
from manyheads.arch.count import forward_flops
from manyheads.arch.params import params
from manyheads.experiments.claims import CLAIMS
from manyheads.experiments.experiment import Comparison
from manyheads.experiments.statistics import effect, mean
from manyheads.experiments.verdict import SEEDS, Verdict, judge, seeds

from . import words
from .gather import ArmRuns, Section
from .measured import KIND

MEANING = {
    "layers": "depth, by stage", "heads": "heads x head_dim", "inner": "columns of the concatenated heads",
    "FLOPs": "of one forward pass over one sample", "seeds": "finished runs", "seconds": "of training, mean over seeds",
    "kappa": "condition number of the concatenated heads at the end, geometric mean over samples, layers and seeds",
    "Gaussian": "kappa of independent normal entries of the same shape",
}  # fmt: skip


@dataclass(frozen=True)
class Cell:
    """What a cell shows, and what it sorts by."""

    text: str
    key: float | str


@dataclass(frozen=True)
class Judged:
    """A comparison and its verdict."""

    pair: Comparison
    verdict: Verdict
    claim: str


def table(section: Section) -> list[dict[str, Cell]]:
    """What each arm reaches, costs and is: one row an arm, all with the same heads, the ones most looked for first."""
    metric, _ = section.headline
    kinds = list(dict.fromkeys(kind for run in section.runs for kind in run.measured.kappa))
    return [_reached(arm, metric) | _costs(arm) | _conditioned(arm, kinds) | _shape(arm) for arm in section.arms]


def _reached(arm: ArmRuns, metric: str) -> dict[str, Cell]:
    values = list(arm.values(metric).values())
    states = [run.state for run in arm.runs]
    pending = ", ".join(f"{states.count(state)} {state}" for state in dict.fromkeys(states))
    reached = Cell(words.with_spread(values, metric) or pending, mean(values) if values else -1.0)
    return {"arm": Cell(arm.name, arm.order), metric or "score": reached}


def _costs(arm: ArmRuns) -> dict[str, Cell]:
    size, work = params(arm.arch).total, forward_flops(arm.arch)
    seconds = [run.measured.seconds for run in arm.done if run.measured.seconds is not None]
    return {
        "parameters": Cell(words.count(size), size),
        "FLOPs": Cell(words.count(work), work),
        "seconds": Cell(words.duration(mean(seconds)) if seconds else "", mean(seconds) if seconds else -1.0),
    }


def _shape(arm: ArmRuns) -> dict[str, Cell]:
    arch = arm.arch
    shapes = [f"{count} x {dim}" for count, dim in zip(heads(arch), head_dims(arch), strict=True)]
    return {
        "layers": Cell(words.each(depths(arch)), sum(depths(arch))),
        "heads": Cell(words.each(shapes), heads(arch)[0]),
        "inner": Cell(words.each(inners(arch)), inners(arch)[0]),
        "seeds": Cell(str(len(arm.done)), len(arm.done)),
    }


def _conditioned(arm: ArmRuns, kinds: Sequence[str]) -> dict[str, Cell]:
    cells = {}
    for kind in kinds:
        last = [points[-1][1] for run in arm.done if (points := run.measured.kappa.get(kind))]
        ideal = next((run.measured.gaussian[kind] for run in arm.runs if kind in run.measured.gaussian), None)
        suffix = f", {kind}" if len(kinds) > 1 else ""
        cells[f"kappa{suffix}"] = Cell(words.kappa(mean(last)) if last else "", mean(last) if last else -1.0)
        cells[f"Gaussian{suffix}"] = Cell(words.kappa(ideal), -1.0 if ideal is None else ideal)
    return cells


def terms(section: Section) -> str:
    """On which terms the arms were compared: basis, batch, task, seeds. Where they differ, all are named."""

    def named(values: Iterable[str]) -> str:
        return " or ".join(dict.fromkeys(filter(None, values)))

    specs = [run.found.spec for run in section.runs if run.found.spec is not None]
    budgets = named(_budget(spec.recipe) for spec in specs)
    data = named(" ".join(str(spec.task[name]) for name in ("is", "data") if spec.task.get(name)) for spec in specs)
    used = ", ".join(str(seed) for seed in sorted({spec.seed for spec in specs})[:12])
    return "; ".join(filter(None, [budgets and f"budget: {budgets}", data and f"task: {data}", f"seeds: {used}"]))


def _budget(recipe: dict[str, Any]) -> str:
    basis, batch = recipe.get("basis"), recipe.get("batch")
    if not isinstance(basis, dict) or not isinstance(basis.get("amount"), int | float):
        return ""
    return f"{basis['amount']:,.6g} {basis.get('kind')}" + (f" of batch {batch}" if batch else "")


def verdicts(section: Section) -> list[Judged]:
    """The experiment's comparisons, each with its verdict. Where no experiment is known, every arm beside the original."""
    metric, better = section.headline
    arms = {arm.name: arm for arm in section.arms}
    if section.experiment is not None:
        pairs: Sequence[Comparison] = section.experiment.comparisons
    else:
        pairs = [Comparison(name, "original", "differ") for name in arms if name != "original" and "original" in arms]
    out = []
    for pair in pairs:
        name = pair.metric or metric
        ours, theirs = ({} if side not in arms else arms[side].values(name) for side in (pair.arm, pair.against))
        if ours and theirs:
            way = "down" if name == KIND else better
            verdict = judge(pair, effect(ours, theirs), metric=name, better=cast(Any, way), scale=section.scale)
        else:
            lacking = [side for side, found in ((pair.arm, ours), (pair.against, theirs)) if not found]
            verdict = Verdict("not testable at this scale", f"{pair.arm} against {pair.against}: nothing to compare.",
                              f"No finished run of {' and '.join(lacking)} has {name or 'a score'}.")
        out.append(Judged(pair, verdict, CLAIMS.get(pair.claim, "")))
    return out


def conclusion(section: Section) -> list[str]:
    """The verdict in sentences: the same on the page and in the terminal."""
    judged = verdicts(section)
    sentences = [item.verdict.found for item in judged]
    for item in judged:
        if item.verdict.word in ("holds", "does not hold"):
            claim = f" ({item.pair.claim}: {item.claim})" if item.claim else ""
            sentences.append(f"{item.pair.arm} against {item.pair.against}: {item.verdict.word}{claim}.")
    excess = [final - ideal for run in section.runs if run.state == "done" for kind, ideal in run.measured.gaussian.items()
              if (points := run.measured.kappa.get(kind)) and (final := points[-1][1])]  # fmt: skip
    if excess:
        low, high = (words.kappa(end) for end in (min(excess), max(excess)))
        sentences.append(f"kappa at the end: {low} to {high} times that of independent normal entries of the same shape.")
    fewest = min((len(arm.done) for arm in section.arms), default=0)
    if judged and fewest < SEEDS:
        sentences.append(f"{seeds(fewest)} an arm allow hardly any claim: this shows what was measured, no more. "
                         f"A verdict takes {SEEDS} seeds or more.")
    elif judged and section.scale == "smoke":
        sentences.append("This is a smoke run: it shows that everything works, and decides nothing.")
    return sentences
