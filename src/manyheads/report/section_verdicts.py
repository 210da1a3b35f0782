"""The comparisons of a section with their effects and verdicts: of two arms, of two designs that are judged at their
best arm, and trends over all arms."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import cast

from manyheads.arch.controls import depths, heads, inners
from manyheads.arch.count import params
from manyheads.experiments.claims import CLAIMS
from manyheads.experiments.statistics import Effect, choose, effect, trend
from manyheads.experiments.verdict import Direction, Verdict, judge
from manyheads.spec.experiment import Comparison

from .read_runs import ArmRuns, Section
from .run_measurements import LOG_KAPPA

# better when more; any other metric than these and the headline is an error, a cost or a kappa
UP = ("top1", "top5", "test_top1", "accuracy", "skill", "f1", "mcc", "pearson", "spearman", "rate")
CORRELATION = "rank correlation"  # metric of a trend


@dataclass(frozen=True)
class Judgement:
    """A comparison with its metric, effect (None where there is nothing to compare), verdict and claim."""

    pair: Comparison
    metric: str
    better: Direction
    effect: Effect | None
    verdict: Verdict
    claim: str

    @property
    def metric_name(self) -> str:
        """The metric as a person reads it: kappa, whose logarithm is compared."""
        return "kappa" if self.metric == LOG_KAPPA else self.metric


def verdicts(section: Section) -> list[Judgement]:
    """The experiment's comparisons, each with its verdict. Where the experiment is not known, every arm is compared
    with the original."""
    arms = {arm.name: arm for arm in section.arms}
    if section.experiment is not None:
        pairs: Sequence[Comparison] = section.experiment.comparisons
    else:
        pairs = [Comparison(name, "original", "differ") for name in arms if name != "original" and "original" in arms]
    headline, direction = section.headline
    way = cast(Direction, direction)
    judgements = []
    for pair in pairs:
        metric = pair.metric or headline
        ours, theirs = (arms[side].values(metric) if side in arms else {} for side in (pair.arm, pair.against))
        better: Direction = way if metric == headline else "up" if metric in UP else "down"
        judgements.append(_compare(section, pair, metric, better, ours, theirs))
    judgements += [
        _compare(section, pair, headline, way, ours, theirs)
        for pair, ours, theirs in _at_best(section, pairs, headline, way)
    ]
    return judgements + [_judge(section, pair, CORRELATION, "up", of_trend) for pair, of_trend in _trends(section)]


def _compare(
    section: Section,
    pair: Comparison,
    metric: str,
    better: Direction,
    ours: Mapping[int, float],
    theirs: Mapping[int, float],
) -> Judgement:
    difference = _effect(tuple(ours.items()), tuple(theirs.items())) if ours and theirs else None
    lacking = [side for side, values in ((pair.arm, ours), (pair.against, theirs)) if not values]
    return _judge(section, pair, metric, better, difference, lacking)


@lru_cache(maxsize=8192)
def _effect(ours: tuple[tuple[int, float], ...], theirs: tuple[tuple[int, float], ...]) -> Effect:
    """Cached, since each effect is asked for by the claims, by its section's table and by its section's sentences."""
    return effect(dict(ours), dict(theirs))


def _judge(
    section: Section,
    pair: Comparison,
    metric: str,
    better: Direction,
    difference: Effect | None,
    lacking: Sequence[str] = (),
) -> Judgement:
    if difference is not None:
        verdict = judge(pair, difference, metric=metric, better=better, scale=section.scale)
    else:
        name = "kappa" if metric == LOG_KAPPA else metric or "any score"
        missing = f"No finished run of {' and '.join(lacking)} has {name}." if lacking else "Too few arms."
        nothing = f"{pair.arm} against {pair.against}: nothing to compare in {name}."
        verdict = Verdict("not testable at this scale", nothing, missing)
    return Judgement(
        pair=pair, metric=metric, better=better, effect=difference, verdict=verdict, claim=CLAIMS.get(pair.claim, "")
    )


def _at_best(
    section: Section, pairs: Sequence[Comparison], metric: str, better: Direction
) -> Iterator[tuple[Comparison, Mapping[int, float], Mapping[int, float]]]:
    """The comparisons of two designs that have several arms (`Setting.bests`), each at its best arm, with the values at
    the seeds that did not choose it."""
    settings = section.experiment.settings if section.experiment else {}
    bests = settings[section.scale].bests if section.scale in settings else ()
    values = {arm.name: arm.values(metric) for arm in section.arms}
    groups = {arm: best for best in bests for arm in best.arms}
    for pair in pairs:
        if pair.arm not in groups or pair.against not in groups or pair.metric:
            continue
        (one, ours), (other, theirs) = (choose(groups[name], values, better) for name in (pair.arm, pair.against))
        names = [
            f"{groups[name].name} at its best{f' ({arm})' if arm else ''}"
            for name, arm in ((pair.arm, one), (pair.against, other))
        ]
        yield replace(pair, arm=names[0], against=names[1], printed=None), ours, theirs


def _trends(section: Section) -> Iterator[tuple[Comparison, Effect | None]]:
    """Each trend that the experiment expects, as a comparison, with its rank correlation: mean over seeds."""
    for one in section.experiment.trends if section.experiment else ():
        x, y = ({arm.name: arm.values(name) or _shape(arm, name) for arm in section.arms} for name in (one.x, one.y))
        correlation = trend(x, y)
        pair = Comparison(one.y, one.x, one.expect, claim=one.claim, metric=CORRELATION)
        yield pair, correlation if correlation.seeds else None


def _shape(arm: ArmRuns, name: str) -> dict[int, float]:
    """A number of the architecture, the same for every seed."""
    numbers = {
        "heads": heads(arm.arch)[0],
        "depth": sum(depths(arm.arch)),
        "inner": inners(arm.arch)[0],
        "params": params(arm.arch).total,
    }
    return {run.seed: float(numbers[name]) for run in arm.done} if name in numbers else {}
