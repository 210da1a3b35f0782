"""The rule that turns an effect, the difference between two arms over seeds, into a verdict. A verdict takes a scale
that is meant to decide, enough seeds, and a setting in which a loss would have been seen (`sensitivity`)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from manyheads.spec.comparison import Comparison

from .statistics import LEVEL, Effect

Word = Literal[
    "holds",
    "does not hold",
    "within noise",
    "better",
    "worse",
    "higher",
    "lower",
    "not comparable",
    "not testable in this setting",
    "not testable at this scale",
]
Direction = Literal["up", "down"]
SEEDS = 3  # below that an interval over seeds is too wide to mean much: with 2 it is 12.7 standard errors to each side
ALPHA = 1 - LEVEL
POINTS = " points"
SHARES = ("top1", "top5")  # scores between 0 and 1 that people read in percent
LOG_KAPPA = "log_kappa"  # its differences are read as ratios of kappa
LARGEST = 300.0  # of a logarithm that is shown as a ratio
AWAY = ("better", "no_loss", "open")  # about quality; the others are about the metric's value


@dataclass(frozen=True)
class Verdict:
    """The word, and two sentences for a person: what was found, and the reason for the word."""

    word: Word
    found: str
    reason: str


@dataclass(frozen=True)
class Chances:
    """The probability of an outcome at least as clear if the opposite were true: that what is expected is so (`yes`), and
    that it is not (`no`). Two-sided, so that 0.05 of either is a 95 % interval on one side of a bound."""

    yes: float
    no: float

    @property
    def least(self) -> float:
        """The one that decides."""
        return min(self.yes, self.no)


def chances(pair: Comparison, effect: Effect, better: Direction) -> Chances:
    """How clear the outcome of a comparison is; margins are around the comparison's target."""
    margin, target = pair.margin, pair.target
    up = better == "up" if pair.expect in AWAY else pair.expect != "less"
    rises, falls = (effect.above, effect.below) if up else (effect.below, effect.above)
    sign = 1.0 if up else -1.0
    match pair.expect:
        case "no_loss":
            return Chances(rises(target - sign * margin), falls(target - sign * margin))
        case "equal":
            apart = min(effect.above(target + margin), effect.below(target - margin))
            return Chances(max(effect.below(target + margin), effect.above(target - margin)), apart)
        case "differ":
            close = max(effect.below(target + margin), effect.above(target - margin))
            return Chances(min(effect.above(target + margin), effect.below(target - margin)), close)
        case _:  # better, more, less and open
            return Chances(rises(target + sign * margin), falls(target + sign * margin))


def holm(values: Sequence[float], alpha: float = ALPHA) -> list[float]:
    """The level at which each of several tests is decided, so that all of them together err once in 1 / `alpha` (Holm
    1979): the clearest at alpha / n, the next at alpha / (n - 1), up to the first that is not decided."""
    order = sorted(range(len(values)), key=lambda i: values[i])
    levels, failed = [0.0] * len(values), False
    for place, i in enumerate(order):
        levels[i] = 0.0 if failed else alpha / (len(values) - place)
        failed = failed or values[i] >= levels[i]
    return levels


def judge(
    pair: Comparison,
    effect: Effect,
    *,
    metric: str,
    better: Direction | None,
    scale: str,
    level: float = ALPHA,
    refuted: float | None = None,
    among: int = 1,
    obstacle: str = "",
) -> Verdict:
    """The verdict on `pair` by its `effect` on `metric`, which is `better` when it goes up or down, or None where nobody
    knows which.

    `level` is the probability of an error below which it is decided, `refuted` the one below which it does not hold if
    that is another, `among` how many comparisons it was corrected for. An `obstacle` says why a difference would not
    have been seen in this setting."""
    described = describe(pair, effect, metric)
    if not testable(effect, scale):
        few = f"{seeds(effect.seeds)}: a verdict takes {SEEDS} or more."
        why = few if effect.seeds < SEEDS else "A smoke run shows that everything works, no more."
        return Verdict("not testable at this scale", described, why)
    if obstacle:
        return Verdict("not testable in this setting", described, obstacle)
    chance = chances(pair, effect, better or "up")
    words: tuple[Word, Word] = ("holds", "does not hold")
    if pair.expect == "open":
        words = ("better", "worse") if better else ("higher", "lower")
    word: Word = "within noise"
    if chance.yes < level:
        word = words[0]
    elif chance.no < (level if refuted is None else refuted):
        word = words[1]
    reason = _reason(pair, effect, metric, word, chance.least < ALPHA, among)
    return Verdict(word, described, reason)


def testable(effect: Effect, scale: str) -> bool:
    """Whether there are enough seeds, and the scale is meant to decide."""
    return effect.seeds >= SEEDS and scale != "smoke"


def _reason(pair: Comparison, effect: Effect, metric: str, word: Word, alone: bool, among: int) -> str:
    """What was expected, why the word, and what could have been seen."""
    sides = {
        "holds": "the whole interval is on that side",
        "does not hold": "none of the interval is on that side",
        "better": "the whole interval is on the better side",
        "worse": "the whole interval is on the worse side",
        "higher": "the whole interval is above zero",
        "lower": "the whole interval is below zero",
    }
    outcome = sides.get(word, "the interval lies on both sides")
    if word == "within noise" and alone:
        outcome = f"clear alone, but not among {among} comparisons (Holm)"
    expected = "Nothing was expected" if pair.expect == "open" else f"Expected of {pair.arm}: {_limit(pair, metric)}"
    return f"{expected}; {outcome}. {visible(effect, metric)}".rstrip()


def _limit(pair: Comparison, metric: str) -> str:
    """What is expected, in words."""
    size = _ratio(pair.margin) if pair.ratio else amount(pair.margin, metric)
    over = f" by over {size}" if pair.margin else ""
    than = ""
    if pair.target:
        than = f" than {signed_ratio(pair.target) if pair.ratio else signed(pair.target, metric)}"
    words = {
        "no_loss": f"worse by less than {size}{than}",
        "equal": f"within {size} of {'equal' if not pair.target else than.removeprefix(' than ')}",
        "better": f"better{over}{than}",
        "more": f"more{over}{than}",
        "less": f"less{over}{than}",
        "differ": f"different by over {size}{than}",
    }
    return words[pair.expect]


def visible(effect: Effect, metric: str) -> str:
    """The smallest difference that these seeds could have shown, as a sentence; empty where one seed is all there is."""
    if not math.isfinite(effect.visible) or not effect.error:
        return ""
    return f"{seeds(effect.seeds).capitalize()} show a difference of {amount(effect.visible, metric)} in 4 of 5 cases."


def describe(pair: Comparison, effect: Effect, metric: str) -> str:
    """The difference in words, with its interval."""
    name = "kappa" if metric == LOG_KAPPA else metric
    show = signed_ratio if pair.ratio else lambda value: signed(value, metric)
    head = f"{pair.name}: {name} {show(effect.difference)}"
    if not math.isfinite(effect.low):
        return f"{head}, from one seed, which says nothing about the spread."
    low, high = (show(end).removesuffix(POINTS) for end in (effect.low, effect.high))
    pooled = ", scatter of all arms" if effect.pooled else ""
    return f"{head} ({100 * effect.level:.0f} % interval {low} to {high}, {seeds(effect.seeds)}{pooled})."


def seeds(count: int) -> str:
    """`1 seed`, `2 seeds`."""
    return f"{count} seed" if count == 1 else f"{count} seeds"


def amount(value: float, metric: str) -> str:
    """The size of a difference: points of percent, a factor of kappa, or plain."""
    if metric == LOG_KAPPA:
        return f"a factor of {math.exp(min(LARGEST, value)):.2f}"
    return f"{100 * value:.1f}{POINTS}" if metric in SHARES else f"{value:.4g}"


def signed(value: float, metric: str) -> str:
    """A difference with its sign: +0.4 points; of log kappa as a ratio of kappa, x0.62."""
    if metric == LOG_KAPPA:
        return signed_ratio(value)
    return f"{100 * value:+.1f}{POINTS}" if metric in SHARES else f"{value:+.4g}"


def signed_ratio(value: float) -> str:
    """A difference of logarithms as the ratio that it is: x0.62."""
    return f"x{math.exp(max(-LARGEST, min(LARGEST, value))):.3g}"


def _ratio(value: float) -> str:
    """A margin of logarithms in percent."""
    return f"{100 * math.expm1(min(LARGEST, value)):.3g} %"
