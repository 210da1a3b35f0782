"""The comparisons of a section with their effects and verdicts: of two arms, of two gains, and of two designs that are
judged at their best arm. What is said of all designs together is in `design_verdicts`."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import cast

from manyheads.arch.count import params
from manyheads.experiments.claims import CLAIMS
from manyheads.experiments.sensitivity import control_obstacle, guess_obstacle
from manyheads.experiments.statistics import Effect, Values, choose, contrast, pooled_scatter
from manyheads.experiments.verdict import ALPHA, LOG_KAPPA, Direction, Verdict, chances, holm, judge, testable
from manyheads.spec.comparison import Comparison
from manyheads.spec.errors import UserError, nearest

from .comparable import held_equal, unplanned
from .design_verdicts import growths, trends
from .read_runs import ArmRuns, Section
from .run_measurements import BEST, HEADLINE

# better when more; any other metric than these and the headline is an error, a cost or a kappa
UP = ("top1", "top5", "test_top1", "accuracy", "skill", "f1", "mcc", "pearson", "spearman", "rate")
VALID = "valid_"  # prefix of a score on the samples that are kept for choosing
QUALITY = ("better", "no_loss", "equal", "open")


@dataclass(frozen=True)
class Judgement:
    """A comparison with its metric, effect (None where there is nothing to compare), verdict and claim. `held_equal` is
    what both arms have the same amount of."""

    pair: Comparison
    metric: str
    better: Direction
    effect: Effect | None
    verdict: Verdict
    claim: str
    held_equal: str = ""

    @property
    def metric_name(self) -> str:
        """The metric as a person reads it: kappa, whose logarithm is compared."""
        return "kappa" if self.metric == LOG_KAPPA else self.metric


@dataclass(frozen=True)
class Case:
    """A comparison before its verdict. `missing` says why there is nothing to compare, `unlike` why the two are not
    comparable, `obstacle` why this setting would not show a difference, `doubt` what a reader has to know beside."""

    pair: Comparison
    metric: str
    better: Direction
    effect: Effect | None
    held_equal: str = ""
    missing: str = ""
    unlike: str = ""
    obstacle: str = ""
    doubt: str = ""

    def decided(self, scale: str) -> bool:
        """Whether a verdict is made at all."""
        return self.effect is not None and not self.unlike and not self.obstacle and testable(self.effect, scale)


def verdicts(section: Section) -> list[Judgement]:
    """The experiment's comparisons, each with its verdict. Where the experiment is not known, every arm is compared
    with one of them (`Asked`). A primary comparison is decided alone, the others by Holm's rule among themselves."""
    way, headline = cast(Direction, section.headline[1]), section.headline[0]
    cases = [_case(section, pair, headline, way) for pair in _pairs(section)]
    cases += _at_best(section, headline, way)
    found = [*trends(section), *growths(section)]
    secondary = [i for i, case in enumerate(cases) if not case.pair.primary and case.decided(section.scale)]
    decisive = [chances(cases[i].pair, cast(Effect, cases[i].effect), cases[i].better).least for i in secondary]
    decisive += [one.chance for one in found if not one.primary and one.decided]
    levels = holm(decisive)
    by_case = dict(zip(secondary, levels, strict=False))
    rest = iter(levels[len(secondary) :])
    out = [_judged(section, case, by_case.get(i, ALPHA), len(levels)) for i, case in enumerate(cases)]
    for one in found:
        level = next(rest) if one.decided and not one.primary else ALPHA
        out.append(
            Judgement(
                pair=one.pair,
                metric=one.pair.metric,
                better="up",
                effect=one.effect,
                verdict=one.judge(level, 1 if one.primary else len(levels)),
                claim=CLAIMS.get(one.pair.claim, ""),
            )
        )
    return out


def _pairs(section: Section) -> Sequence[Comparison]:
    """What is compared in a section."""
    experiment, asked = section.experiment, section.asked
    if experiment is not None:
        return experiment.compared(section.scale)
    names = [arm.name for arm in section.arms]
    if len(names) < 2:
        return []
    against = asked.against or ("original" if "original" in names else _largest(section.arms))
    if against not in names:
        return []
    return [
        Comparison(name, against, asked.expect, asked.margin, metric=asked.metric) for name in names if name != against
    ]


def _largest(arms: Sequence[ArmRuns]) -> str:
    return max(arms, key=lambda arm: params(arm.arch).total).name


def check_asked(sections: Sequence[Section]) -> None:
    """Refuse to compare with an arm that no section has."""
    against = next((section.asked.against for section in sections), "")
    names = {arm.name for section in sections for arm in section.arms}
    if against and against not in names:
        raise UserError(
            f"no arm is called {against!r}{nearest(against, names)}; there are {', '.join(sorted(names)) or 'none'}"
        )


def _case(section: Section, pair: Comparison, headline: str, way: Direction) -> Case:
    metric = pair.metric or headline
    better: Direction = way if metric in (headline, BEST) else "up" if metric in UP else "down"
    arms = {arm.name: arm for arm in section.arms}
    sides = (pair.arm, pair.against, *(pair.beyond or ()))
    lacking = [side for side in sides if side not in arms or not arms[side].values(metric)]
    shown = "kappa" if metric == LOG_KAPPA else metric or "any score"
    if lacking:
        missing = f"No finished run of {' and '.join(lacking)} has {shown}."
        return Case(pair, metric, better, None, missing=missing)
    both = [arms[side] for side in (pair.arm, pair.against)]
    ours = Case(pair, metric, better, _difference(section, pair, sides, metric), held_equal(both))
    different = unplanned(section, *both)
    if different:
        fields = ", ".join(different)
        return replace(ours, unlike=f"They differ in {fields}, so that a difference has more than one reason.")
    return replace(ours, obstacle=_obstacle(section, ours))


def _difference(section: Section, pair: Comparison, sides: Sequence[str], metric: str) -> Effect:
    weights = (1.0, -1.0, -1.0, 1.0)[: len(sides)]
    values = {arm.name: _values(arm, metric, pair.ratio) for arm in section.arms}
    pooled = (
        tuple(_fixed(of_arm) for of_arm in values.values()) if section.experiment and section.experiment.pooled else ()
    )
    return _contrast(tuple(zip(weights, (_fixed(values[side]) for side in sides), strict=True)), pooled)


def _values(arm: ArmRuns, metric: str, ratio: bool) -> dict[int, float]:
    values = arm.values(metric)
    return {seed: math.log(value) for seed, value in values.items() if value > 0} if ratio else values


def _fixed(values: Values) -> tuple[tuple[int, float], ...]:
    return tuple(values.items())


@lru_cache(maxsize=8192)
def _contrast(
    terms: tuple[tuple[float, tuple[tuple[int, float], ...]], ...], pooled: tuple[tuple[tuple[int, float], ...], ...]
) -> Effect:
    """Cached, since each effect is asked for by the claims, by its section's table and by its section's sentences."""
    scatter = pooled_scatter([dict(values) for values in pooled])
    return contrast([(weight, dict(values)) for weight, values in terms], scatter=scatter)


def _obstacle(section: Section, case: Case) -> str:
    """Why this setting would not show a difference: an arm that guesses, or a control that does not lose."""
    pair, metric, better = case.pair, case.metric, case.better
    arms = {arm.name: arm for arm in section.arms}
    assert case.effect is not None
    for control in pair.controls:
        two = [control.arm, control.against]
        there = all(name in arms and arms[name].values(metric) for name in two)
        loss = _difference(section, replace(pair, ratio=False), two, metric) if there else None
        said = control_obstacle(pair, control, loss, metric, better)
        if said:
            return said
    if pair.expect not in QUALITY:
        return ""
    name = section.headline[0] if metric == BEST else metric
    known = [
        (arm.name, arm.values(metric), guess)
        for arm in (arms[pair.arm], arms[pair.against])
        if (guess := _guess(arm, name)) is not None
    ]
    return guess_obstacle(pair, case.effect, known, metric, better) if known else ""


def _guess(arm: ArmRuns, metric: str) -> float | None:
    """What a constant guess scores, as the arm's runs state it."""
    names = [run.measured.better[0] if metric == HEADLINE else metric for run in arm.done]
    guesses = [run.measured.trivial.get(name) for run, name in zip(arm.done, names, strict=True)]
    return next((guess for guess in guesses if guess is not None), None)


def _judged(section: Section, case: Case, level: float, among: int) -> Judgement:
    pair, effect = case.pair, case.effect
    if effect is None:
        shown = "kappa" if case.metric == LOG_KAPPA else case.metric or "any score"
        verdict = Verdict("not testable at this scale", f"{pair.name}: nothing to compare in {shown}.", case.missing)
    else:
        verdict = judge(
            pair,
            effect,
            metric=case.metric,
            better=case.better,
            scale=section.scale,
            level=level,
            among=1 if pair.primary else among,
            obstacle=case.obstacle,
        )
        if case.unlike:
            verdict = Verdict("not comparable", verdict.found, case.unlike)
        if case.doubt:
            verdict = replace(verdict, reason=f"{verdict.reason} {case.doubt}")
    return Judgement(
        pair=pair,
        metric=case.metric,
        better=case.better,
        effect=effect,
        verdict=verdict,
        claim=CLAIMS.get(pair.claim, ""),
        held_equal=case.held_equal,
    )


def _at_best(section: Section, headline: str, way: Direction) -> Iterator[Case]:
    """The comparisons of two designs that have several arms (`Setting.bests`), each at the arm that is best on the
    samples kept for choosing, with the values at the seeds that did not choose it."""
    settings = section.experiment.settings if section.experiment else {}
    bests = settings[section.scale].bests if section.scale in settings else ()
    values = {arm.name: arm.values(headline) for arm in section.arms}
    valid = {arm.name: arm.values(VALID + headline) for arm in section.arms}
    kept = all(valid[arm.name] for arm in section.arms if arm.done)
    groups = {arm: best for best in bests for arm in best.arms}
    for pair in _pairs(section) if bests else ():
        if pair.arm not in groups or pair.against not in groups or pair.metric:
            continue
        ours, theirs = (
            choose(groups[name], valid if kept else values, values, way) for name in (pair.arm, pair.against)
        )
        names = [
            f"{groups[name].name} at its best{f' ({one.arm})' if one.arm else ''}"
            for name, one in ((pair.arm, ours), (pair.against, theirs))
        ]
        best = replace(pair, arm=names[0], against=names[1], printed=None, primary=False)
        if not ours.values or not theirs.values:
            yield Case(best, headline, way, None, missing="No seed is left beside the one that chooses.")
            continue
        edge = [name for name, one in zip(names, (ours, theirs), strict=True) if one.at_edge]
        doubts = [] if kept else ["The best arm was chosen on the samples that are reported."]
        if edge:
            doubts.append(f"{' and '.join(edge)} is at the edge of what was tried: further values may be better.")
        effect = contrast([(1.0, ours.values), (-1.0, theirs.values)])
        yield Case(best, headline, way, effect, doubt=" ".join(doubts))
