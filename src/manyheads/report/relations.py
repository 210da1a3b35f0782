"""Comparisons that are not of two arms: a trend over all of them, and designs that are judged at their best setting."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from manyheads.arch.controls import depths, heads, inners
from manyheads.arch.count import params
from manyheads.experiments.statistics import Effect, choose, trend
from manyheads.experiments.verdict import Direction
from manyheads.spec.experiment import Best, Comparison, Trend

from .gather import ArmRuns, Section

METRIC = "rank correlation"


def trends_of(section: Section) -> Sequence[Trend]:
    """The trends that an experiment expects."""
    return section.experiment.trends if section.experiment else ()


def bests_of(section: Section) -> Sequence[Best]:
    """The designs of an experiment that have several arms."""
    settings = section.experiment.settings if section.experiment else {}
    return settings[section.scale].bests if section.scale in settings else ()


def trended(section: Section) -> Iterator[tuple[Comparison, Effect | None]]:
    """Each trend as a comparison, and its rank correlation: mean over seeds."""
    for one in trends_of(section):
        found = trend(_values(section, one.x), _values(section, one.y))
        yield Comparison(one.y, one.x, one.expect, claim=one.claim, metric=METRIC), found if found.seeds else None


def _values(section: Section, name: str) -> dict[str, dict[int, float]]:
    return {arm.name: arm.values(name) or _shape(arm, name) for arm in section.arms}


def _shape(arm: ArmRuns, name: str) -> dict[int, float]:
    """A number of the architecture, the same for every seed."""
    known = {
        "heads": heads(arm.arch)[0],
        "depth": sum(depths(arm.arch)),
        "inner": inners(arm.arch)[0],
        "params": params(arm.arch).total,
    }
    return {run.seed: float(known[name]) for run in arm.done} if name in known else {}


def at_best(
    section: Section, pairs: Sequence[Comparison], metric: str, better: Direction
) -> Iterator[tuple[Comparison, Mapping[int, float], Mapping[int, float]]]:
    """The comparisons of two such designs, each design at its best arm: values at the seeds that did not choose it."""
    found = {arm.name: arm.values(metric) for arm in section.arms}
    groups = {arm: best for best in bests_of(section) for arm in best.arms}
    for pair in pairs:
        if pair.arm not in groups or pair.against not in groups or pair.metric:
            continue
        (one, ours), (other, theirs) = (choose(groups[name], found, better) for name in (pair.arm, pair.against))
        names = [
            f"{groups[name].name} at its best{f' ({arm})' if arm else ''}"
            for name, arm in ((pair.arm, one), (pair.against, other))
        ]
        yield replace(pair, arm=names[0], against=names[1], printed=None), ours, theirs
