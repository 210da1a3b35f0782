"""The comparisons of a section with their effects and verdicts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import cast

from manyheads.experiments.claims import CLAIMS
from manyheads.experiments.statistics import Effect, effect
from manyheads.experiments.verdict import Direction, Verdict, judge
from manyheads.spec.experiment import Comparison

from .gather import Section
from .measured import KIND
from .relations import METRIC, at_best, trended

# better when more; other metrics than these and the headline are errors, costs and kappas
UP = ("top1", "top5", "test_top1", "accuracy", "skill", "f1", "mcc", "pearson", "spearman", "rate")


@dataclass(frozen=True)
class Judged:
    """A comparison: the metric it is about, the effect (None where there is nothing to compare), verdict and claim."""

    pair: Comparison
    metric: str
    better: Direction
    effect: Effect | None
    verdict: Verdict
    claim: str


def verdicts(section: Section) -> list[Judged]:
    """The experiment's comparisons, each with its verdict. Where no experiment is known, every arm beside the
    original."""
    arms = {arm.name: arm for arm in section.arms}
    if section.experiment is not None:
        pairs: Sequence[Comparison] = section.experiment.comparisons
    else:
        pairs = [Comparison(name, "original", "differ") for name in arms if name != "original" and "original" in arms]
    headline, direction = section.headline
    out = []
    for pair in pairs:
        metric = pair.metric or headline
        ours, theirs = (arms[side].values(metric) if side in arms else {} for side in (pair.arm, pair.against))
        better = direction if metric == headline else "up" if metric in UP else "down"
        out.append(_judged(section, pair, metric, cast(Direction, better), ours, theirs))
    way = cast(Direction, direction)
    out += [
        _judged(section, pair, headline, way, ours, theirs)
        for pair, ours, theirs in at_best(section, pairs, headline, way)
    ]
    return out + [_with(section, pair, METRIC, "up", found) for pair, found in trended(section)]


def _judged(
    section: Section,
    pair: Comparison,
    metric: str,
    better: Direction,
    ours: Mapping[int, float],
    theirs: Mapping[int, float],
) -> Judged:
    found = _effect(tuple(ours.items()), tuple(theirs.items())) if ours and theirs else None
    lacking = [side for side, values in ((pair.arm, ours), (pair.against, theirs)) if not values]
    return _with(section, pair, metric, better, found, lacking)


def _with(
    section: Section,
    pair: Comparison,
    metric: str,
    better: Direction,
    found: Effect | None,
    lacking: Sequence[str] = (),
) -> Judged:
    if found is not None:
        verdict = judge(pair, found, metric=metric, better=better, scale=section.scale)
    else:
        said = "kappa" if metric == KIND else metric or "any score"
        missing = f"No finished run of {' and '.join(lacking)} has {said}." if lacking else "Too few arms."
        nothing = f"{pair.arm} against {pair.against}: nothing to compare in {said}."
        verdict = Verdict("not testable at this scale", nothing, missing)
    return Judged(pair, metric, better, found, verdict, CLAIMS.get(pair.claim, ""))


@lru_cache(maxsize=8192)
def _effect(ours: tuple[tuple[int, float], ...], theirs: tuple[tuple[int, float], ...]) -> Effect:
    """Each effect is asked for three times: by the claims, by its section's table and by its words."""
    return effect(dict(ours), dict(theirs))
