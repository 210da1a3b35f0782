"""The comparisons of a section with their effects and verdicts: of two arms, of two gains, and of two designs that are
judged at their best arm. What is said of all designs together is in `design_verdicts`."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import cast

from manyheads.arch.count import params
from manyheads.experiments.claims import CLAIMS
from manyheads.experiments.sensitivity import control_obstacle, guess_obstacle
from manyheads.experiments.statistics import Choice, Effect, Values, choose, contrast, pooled_scatter
from manyheads.experiments.verdict import ALPHA, LOG_KAPPA, Chances, Direction, Verdict, chances, holm, judge, testable
from manyheads.spec.comparison import Comparison
from manyheads.spec.errors import UserError, nearest
from manyheads.spec.experiment import Best
from manyheads.spec.task import Task

from .comparable import held_equal, remarks, unlike
from .design_verdicts import growths, slopes, trends
from .directions import direction
from .read_runs import ArmRuns, Asked, Section
from .run_measurements import BEST, HEADLINE

VALID = "valid_"  # prefix of a score on the samples that are kept for choosing


@dataclass(frozen=True)
class Judgement:
    """A comparison with its metric, effect (None where there is nothing to compare), verdict and claim. `held_equal` is
    what both arms have the same amount of, `doubt` what a reader has to know beside the verdict."""

    pair: Comparison
    metric: str
    better: Direction | None
    effect: Effect | None
    verdict: Verdict
    claim: str
    held_equal: str = ""
    doubt: str = ""

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
    better: Direction | None
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
    with one of them (`Asked`). A primary comparison is decided alone, the others by Holm's rule among themselves. A
    claim fails where one of its primary comparisons does: that these do not hold is decided by Holm's rule among them.
    Primary comparisons without a claim are questions of their own: either outcome is decided by Holm's rule among them."""
    headline = section.headline[0]
    cases = [_case(section, pair, headline) for pair in _pairs(section)]
    cases += _at_best(section, headline)
    found = [*trends(section), *slopes(section), *growths(section)]
    sides = [_chances(case) if case.decided(section.scale) else None for case in cases]
    secondary = [i for i, case in enumerate(cases) if not case.pair.primary and sides[i] is not None]
    decisive = [side.least for i in secondary if (side := sides[i]) is not None]
    decisive += [one.chance for one in found if not one.primary and one.decided]
    levels = holm(decisive)
    by_case = dict(zip(secondary, levels, strict=False))
    rest = iter(levels[len(secondary) :])
    unclaimed = {
        i: side.least for i, side in enumerate(sides) if side and cases[i].pair.primary and not cases[i].pair.claim
    }
    by_case |= dict(zip(unclaimed, holm([*unclaimed.values()]), strict=True))
    refuted = refuted_levels(cases, sides)
    among = [
        len(unclaimed) if i in unclaimed else 1 if case.pair.primary else len(levels) for i, case in enumerate(cases)
    ]
    out = [_judged(section, case, by_case.get(i, ALPHA), refuted.get(i), among[i]) for i, case in enumerate(cases)]
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


def _chances(case: Case) -> Chances:
    return chances(case.pair, cast(Effect, case.effect), case.better or "up")


def refuted_levels(cases: Sequence[Case], sides: Sequence[Chances | None]) -> dict[int, float]:
    """The levels at which primary comparisons do not hold, claim by claim."""
    levels: dict[int, float] = {}
    for claim in dict.fromkeys(case.pair.claim for case in cases if case.pair.primary and case.pair.claim):
        about = [i for i, case in enumerate(cases) if case.pair.primary and case.pair.claim == claim and sides[i]]
        levels |= dict(zip(about, holm([side.no for i in about if (side := sides[i])]), strict=True))
    return levels


def _pairs(section: Section) -> Sequence[Comparison]:
    """What is compared in a section."""
    experiment, asked = section.experiment, section.asked
    if experiment is not None:
        return experiment.compared(section.scale, section.basis)
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
    """Refuse to compare with an arm that no section has, in a metric that no run has, or for better and worse where
    nobody knows which of both more of a metric is."""
    against = next((section.asked.against for section in sections), "")
    names = {arm.name for section in sections for arm in section.arms}
    if against and against not in names:
        raise UserError(
            f"no arm is called {against!r}{nearest(against, names)}; there are {', '.join(sorted(names)) or 'none'}"
        )
    asked = next((section.asked for section in sections), Asked())
    arms = [arm for section in sections for arm in section.arms]
    if asked.metric and not any(arm.values(asked.metric) for arm in arms):
        scores = sorted({name for arm in arms for run in arm.done for name in run.measured.scores})
        raise UserError(
            f"no finished run has the metric {asked.metric!r}{nearest(asked.metric, scores)}; their scores are "
            f"{', '.join(scores) or 'none'}, and every trained run has best, seconds and rate"
        )
    if asked.metric and asked.expect in ("better", "no_loss") and direction(asked.metric, arms) is None:
        raise UserError(
            f"whether more of {asked.metric} is better is not known, so that neither --better nor --no-loss can be tested; "
            "write --equal, or none of them to see which arm has more"
        )


def _case(section: Section, pair: Comparison, headline: str) -> Case:
    metric = pair.metric or headline
    arms = {arm.name: arm for arm in section.arms}
    sides = (pair.arm, pair.against, *(pair.beyond or ()))
    better = direction(metric, [arms[side] for side in sides if side in arms])
    lacking = [side for side in sides if side not in arms or not arms[side].values(metric)]
    shown = "kappa" if metric == LOG_KAPPA else metric or "any score"
    if lacking:
        missing = f"No finished run of {' and '.join(lacking)} has {shown}."
        return Case(pair, metric, better, None, missing=missing)
    compared = [arms[side] for side in sides]
    ours = Case(
        pair,
        metric,
        better,
        _difference(section, pair, sides, metric),
        held_equal(compared[:2]),
        unlike=unlike(section, compared[:2], metric) or unlike_gains(section, compared, metric),
        doubt=remarks(section, compared, metric),
    )
    if ours.unlike:
        return ours
    values = {name: arm.values(metric) for name, arm in arms.items()}
    return replace(ours, obstacle=_obstacle(section, ours, values, dict(zip(sides, compared, strict=True))))


def unlike_gains(section: Section, arms: Sequence[ArmRuns], metric: str) -> str:
    """Why the two arms of the second gain are not comparable; empty where there is none."""
    return unlike(section, arms[2:], metric) if len(arms) > 2 else ""


def _difference(section: Section, pair: Comparison, sides: Sequence[str], metric: str) -> Effect:
    """The effect, with the scatter of all arms of the same task where the experiment declares it."""
    weights = (1.0, -1.0, -1.0, 1.0)[: len(sides)]
    arms = {arm.name: arm for arm in section.arms}
    terms = tuple(zip(weights, (_fixed(_values(arms[side], metric, pair.ratio)) for side in sides), strict=True))
    if section.experiment is None or not section.experiment.pooled:
        return _contrast(terms, ())
    alike = [arm for arm in section.planned if _task(arm) == _task(arms[sides[0]])]
    return _contrast(terms, tuple(_fixed(_values(arm, metric, pair.ratio)) for arm in alike))


def _task(arm: ArmRuns) -> Task | None:
    return next((run.folder.spec.task for run in arm.done if run.folder.spec is not None), None)


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


def _obstacle(section: Section, case: Case, values: Mapping[str, Values], sides: Mapping[str, ArmRuns]) -> str:
    """Why this setting would not show a difference: an arm that guesses, or a control that does not lose. `sides` are
    the arms behind the names that are compared."""
    pair, metric, better = case.pair, case.metric, case.better
    if better is None:
        return ""
    arms = {arm.name: arm for arm in section.arms}
    assert case.effect is not None
    for control in pair.controls:
        two = [control.arm, control.against]
        loss = None
        if all(values.get(name) for name in two):
            unfair = unlike(section, [arms[name] for name in two], metric)
            if unfair:
                return f"The control {control.arm} against {control.against} says nothing. {unfair}"
            loss = _difference(section, replace(pair, ratio=False), two, metric)
        said = control_obstacle(pair, control, loss, metric, better)
        if said:
            return said
    name = section.headline[0] if metric == BEST else metric
    known = {
        side: (values[arm.name], guess)
        for side, arm in sides.items()
        if side in (pair.arm, pair.against) and (guess := _guess(arm, name)) is not None
    }
    return guess_obstacle(pair, case.effect, known, metric, better) if known else ""


def _guess(arm: ArmRuns, metric: str) -> float | None:
    """What a constant guess scores, as the arm's runs state it."""
    names = [run.measured.better[0] if metric == HEADLINE else metric for run in arm.done]
    guesses = [run.measured.trivial.get(name) for run, name in zip(arm.done, names, strict=True)]
    return next((guess for guess in guesses if guess is not None), None)


def _judged(section: Section, case: Case, level: float, refuted: float | None, among: int) -> Judgement:
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
            refuted=refuted,
            among=among,
            obstacle=case.obstacle,
        )
        if case.unlike:
            verdict = Verdict("not comparable", verdict.found, case.unlike)
        elif case.doubt:
            verdict = replace(verdict, reason=f"{verdict.reason} {case.doubt}")
    return Judgement(
        pair=pair,
        metric=case.metric,
        better=case.better,
        effect=effect,
        verdict=verdict,
        claim=CLAIMS.get(pair.claim, ""),
        held_equal=case.held_equal,
        doubt="" if case.effect is None or case.unlike else case.doubt,
    )


def _at_best(section: Section, headline: str) -> Iterator[Case]:
    """The comparisons of two designs that have several arms (`Setting.bests`), each at the arm that is best on the
    samples kept for choosing, with the values at the seeds that did not choose it."""
    settings = section.experiment.settings if section.experiment else {}
    bests = settings[section.scale].bests if section.scale in settings else ()
    arms = {arm.name: arm for arm in section.arms}
    values = {arm.name: arm.values(headline) for arm in section.arms}
    valid = {arm.name: arm.values(VALID + headline) for arm in section.arms}
    kept = all(valid[arm.name] for arm in section.arms if arm.done)
    groups = {arm: best for best in bests for arm in best.arms}
    for pair in _pairs(section) if bests else ():
        if pair.arm not in groups or pair.against not in groups or pair.metric:
            continue
        both = [groups[pair.arm], groups[pair.against]]
        better = direction(headline, [arms[name] for best in both for name in best.arms if name in arms])
        if better is None:  # they were not comparable under their own names either
            continue
        chosen = [choose(best, valid if kept else values, values, better) for best in both]
        case = _of_choices(section, pair, headline, better, both, chosen)
        if case.effect is None:
            yield case
            continue
        names = (case.pair.arm, case.pair.against)
        sides = dict(zip(names, (arms[one.arm] for one in chosen), strict=True))
        doubts = [case.doubt] if kept else ["The best arm was chosen on the samples that are reported.", case.doubt]
        case = replace(case, doubt=" ".join(filter(None, doubts)), unlike=unlike(section, [*sides.values()], headline))
        yield case if case.unlike else replace(case, obstacle=_obstacle(section, case, values, sides))


def _of_choices(
    section: Section, pair: Comparison, headline: str, better: Direction, both: Sequence[Best], chosen: Sequence[Choice]
) -> Case:
    """Two designs at the arms that were chosen, with what is to be known about the choice."""
    names = [
        f"{best.name} at its best{f' ({one.arm})' if one.arm else ''}" for best, one in zip(both, chosen, strict=True)
    ]
    named = replace(pair, arm=names[0], against=names[1], printed=None, primary=False)
    if not all(one.values for one in chosen):
        return Case(named, headline, better, None, missing="No seed is left beside the one that chooses.")
    doubts = []
    edge = [name for name, one in zip(names, chosen, strict=True) if one.at_edge]
    if edge:
        doubts.append(f"{' and '.join(edge)} is at the edge of what was tried: further values may be better.")
    finished = {arm.name for arm in section.arms if arm.done}
    missing = [name for best in both for name in best.arms if name not in finished]
    if missing:
        doubts.append(f"The best was chosen without {', '.join(missing)}, of which no run has finished.")
    effect = contrast([(1.0, chosen[0].values), (-1.0, chosen[1].values)])
    return Case(named, headline, better, effect, doubt=" ".join(doubts))
