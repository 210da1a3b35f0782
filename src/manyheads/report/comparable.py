"""What was held equal between arms, computed from their runs; and why two arms cannot be compared although nobody planned
it: fields in which they differ, runs that gave no value, time that was measured under unequal conditions."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from manyheads.spec.experiment import Experiment
from manyheads.spec.measurements import Measurement, Speed
from manyheads.spec.run import RunSpec
from manyheads.spec.serialise import to_dict
from manyheads.spec.task import SCRATCH
from manyheads.spec.timed import TIMES

from .device_sharing import shared
from .read_runs import ArmRuns, ReportedRun, Section
from .run_measurements import BEST, HEADLINE

RECIPE = ("batch", "basis")  # of a recipe: its budget. How an arm is best trained is its own affair
OFTEN = "evaluate_every"  # who is evaluated more often has more values to be the best of
# of a recipe: what changes no number of a run, or what is compared anyway
APART = (
    *RECIPE,
    "log_every",
    OFTEN,
    "probe_every",
    "probe_samples",
    "probe_detail",
    "probe_jacobian",
    "checkpoint_every",
)
COMPUTED = ("device", "processes", "parallel", "threads", "compiled", "torch")  # of a machine: beside the precision
SAME = 1e-6  # relative difference of two numbers that the same data gives


def unlike(section: Section, arms: Sequence[ArmRuns], metric: str) -> str:
    """Why arms are not comparable in a metric, as sentences; empty where they are."""
    different = unplanned(section, arms, metric)
    sentences = [f"They differ in {', '.join(different)}, so that a difference has more than one reason."]
    sentences = sentences if different else []
    sentences += [sentence for arm in dict.fromkeys(arm.name for arm in arms) for sentence in _lost(arms, arm, metric)]
    if time_counts(arms, metric):
        sentences += shared(arms)
    return " ".join(sentences)


def unplanned(section: Section, arms: Sequence[ArmRuns], metric: str = "") -> list[str]:
    """The fields of task and budget in which arms differ, other than those in which their experiment says so; what they
    were computed with, where that decides; and the data, where its facts differ."""
    fields = [_terms(run.folder.spec, metric) for arm in arms for run in arm.done if run.folder.spec is not None]
    names = dict.fromkeys(name for terms in fields for name in terms)
    different = [name for name in names if len({repr(terms.get(name)) for terms in fields}) > 1]
    planned = _planned(section, {arm.name for arm in arms}, metric) if different else set()
    different = [name for name in different if name not in planned]
    headlines = {run.measured.better[0] for arm in arms for run in arm.done}
    if metric in (HEADLINE, BEST) and len(headlines) > 1:
        different.append(f"their headline metric ({', '.join(sorted(headlines))})")
    if not any(name.startswith("task.") for name in (*different, *planned)) and _other_data(arms):
        different.append("their data (its sha256, a constant guess or the number of held-out samples is not the same)")
    decisive = ("precision", *COMPUTED) if time_counts(arms, metric) else ("precision",)
    return different + [f"machine.{name} ({', '.join(values)})" for name, values in _machines(arms, decisive)]


def remarks(section: Section, arms: Sequence[ArmRuns], metric: str) -> str:
    """What a reader has to know about the runs of arms that can be compared, as sentences."""
    sentences = []
    if section.experiment is None:
        recipes = [to_dict(run.folder.spec.recipe) for arm in arms for run in arm.done if run.folder.spec is not None]
        names = dict.fromkeys(name for recipe in recipes for name in recipe if name not in APART)
        other = [name for name in names if len({repr(recipe.get(name)) for recipe in recipes}) > 1]
        if other:
            sentences.append(f"Their recipes differ in {', '.join(other)}.")
    if not time_counts(arms, metric):
        machines = ", ".join(f"{name} ({', '.join(values)})" for name, values in _machines(arms, COMPUTED))
        if machines:
            sentences.append(f"They were computed with different {machines}.")
    setting = section.experiment.settings.get(section.scale) if section.experiment else None
    if setting is not None:
        missing = [seed for seed in setting.seeds if any(all(run.seed != seed for run in arm.done) for arm in arms)]
        if missing:
            count = f"{len(missing)} of {len(setting.seeds)} planned seeds"
            sentences.append(f"{count} {'has' if len(missing) == 1 else 'have'} not finished in all arms.")
    return " ".join(sentences)


def time_counts(arms: Iterable[ArmRuns], metric: str) -> bool:
    """Whether a difference between arms is one of time: it is a time, or time was their budget."""
    specs = [run.folder.spec for arm in arms for run in arm.done if run.folder.spec is not None]
    return metric in TIMES or any(
        isinstance(spec.task, Speed) or (not isinstance(spec.task, Measurement) and spec.recipe.basis.kind == "seconds")
        for spec in specs
    )


def _lost(arms: Sequence[ArmRuns], name: str, metric: str) -> Iterator[str]:
    """Runs of an arm that ended without the metric: those that have it are a choice that their outcome made."""
    arm = next(arm for arm in arms if arm.name == name)
    values, seeds = arm.values(metric), {run.seed for run in arm.done}
    diverged = {run.seed for run in arm.runs if run.diverged} - seeds
    if diverged:
        yield (
            f"{len(diverged)} of {len(diverged | seeds)} runs of {name} diverged, and those that did not are no fair "
            "sample of its seeds."
        )
    if values and len(values) < len(seeds):
        yield (
            f"{len(seeds) - len(values)} of {len(seeds)} finished runs of {name} have no {metric}, as where it is not "
            "finite, and the others are no fair sample of its seeds."
        )


def _machines(arms: Sequence[ArmRuns], names: Iterable[str]) -> Iterator[tuple[str, list[str]]]:
    """The facts of machines in which arms differ: at a seed that they share, or else anywhere."""
    for name in names:
        values = {
            str(run.measured.machine[name]) for group in _beside(arms) for run in group if name in run.measured.machine
        }
        apart = any(
            len({str(run.measured.machine[name]) for run in group if name in run.measured.machine}) > 1
            for group in _beside(arms)
        )
        if apart:
            yield name, sorted(values)


def _beside(arms: Sequence[ArmRuns]) -> list[list[ReportedRun]]:
    """The finished runs that are compared with each other: those of the same seed, or all where no seed is shared."""
    by_seed = [{run.seed: run for run in arm.done} for arm in arms]
    common = set.intersection(*(set(runs) for runs in by_seed)) if by_seed else set()
    if not common:
        return [[run for runs in by_seed for run in runs.values()]]
    return [[runs[seed] for runs in by_seed] for seed in sorted(common)]


def _other_data(arms: Sequence[ArmRuns]) -> bool:
    """Whether runs of one task were scored on other data: its facts, as their results state them, differ. A result of an
    earlier version states no `data_sha256`."""
    for group in _beside(arms):
        if any(run.folder.spec is None or isinstance(run.folder.spec.task, Measurement) for run in group):
            continue
        digests = {digest for run in group if (digest := (run.folder.result or {}).get("data_sha256")) is not None}
        if len(digests) > 1:
            return True
        first = group[0].measured
        for other in (run.measured for run in group[1:]):
            both = first.trivial.keys() & other.trivial.keys()
            if any(not math.isclose(first.trivial[name], other.trivial[name], rel_tol=SAME) for name in both):
                return True
            if first.held_out is not None and other.held_out is not None and first.held_out != other.held_out:
                return True
    return False


def _terms(spec: RunSpec, metric: str = "") -> dict[str, Any]:
    """The task and the budget of a run as flat fields. Of the weights that it starts from it counts whether they are
    trained: each model has its own."""
    recipe = to_dict(spec.recipe)
    terms = dict(_flat(to_dict(spec.task), "task"))
    place = "weights" if spec.task.starts_from is None else "task.weights"
    terms[place] = SCRATCH if spec.starts_from in (None, SCRATCH) else "trained"
    if not isinstance(spec.task, Measurement):
        names = (*RECIPE, OFTEN) if metric == BEST else RECIPE
        terms |= dict(_flat({name: recipe[name] for name in names if name in recipe}, "recipe"))
    return terms


def _flat(value: Any, name: str) -> Iterable[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _flat(inner, f"{name}.{key}")
    else:
        yield name, value


def _planned(section: Section, names: set[str], metric: str) -> set[str]:
    """The fields in which the experiment itself makes arms differ."""
    experiment: Experiment | None = section.experiment
    if experiment is None or section.scale not in experiment.settings:
        return set()
    setting = experiment.settings[section.scale]
    recipe = setting.recipes.get(section.basis) or next(iter(setting.recipes.values()))
    arms = [arm for arm in setting.arms if arm.name in names]
    specs = [RunSpec(arm.arch, arm.own_task(setting), arm.own_recipe(recipe), 0, {}) for arm in arms]
    terms = [_terms(spec, metric) for spec in specs]
    everything = {name for fields in terms for name in fields}
    return {name for name in everything if len({repr(fields.get(name)) for fields in terms}) > 1}


def held_equal(arms: Iterable[ArmRuns]) -> str:
    """What these arms have the same amount of: steps, tokens, FLOPs, seconds. Empty where nothing is trained."""
    specs = [run.folder.spec for arm in arms for run in arm.runs if run.folder.spec is not None]
    trained = [spec for spec in specs if not isinstance(spec.task, Measurement)]
    if not trained:
        return ""
    bases = {(spec.recipe.basis.kind, spec.recipe.basis.amount) for spec in trained}
    if len(bases) > 1:
        amounts = ", ".join(f"{amount:,.6g} {kind}" for kind, amount in sorted(bases))
        return f"nothing ({amounts})"
    kind = next(iter(bases))[0]
    batches = {spec.recipe.batch for spec in trained}
    return kind if len(batches) == 1 or kind != "steps" else f"{kind}, of batches of {min(batches)} to {max(batches)}"
