"""The rule that turns an effect, the difference between two arms over seeds, into a verdict. A verdict takes a scale
that is meant to decide, and enough seeds."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from manyheads.spec.experiment import Comparison

from .statistics import Effect

Word = Literal["holds", "does not hold", "within noise", "not testable at this scale"]
Direction = Literal["up", "down"]
SEEDS = 3  # below that an interval over seeds is too wide to mean much: with 2 it is 12.7 standard errors to each side
POINTS = " points"
SHARES = ("top1", "top5")  # scores between 0 and 1 that people read in percent


@dataclass(frozen=True)
class Verdict:
    """The word, and two sentences for a person: what was found, and the reason for the word."""

    word: Word
    found: str
    reason: str


def judge(pair: Comparison, effect: Effect, *, metric: str, better: Direction, scale: str) -> Verdict:
    """The verdict on `pair` by its `effect` on `metric`, which is `better` when it goes up or down."""
    low, high = (effect.low, effect.high) if better == "up" else (-effect.high, -effect.low)
    described = describe(pair, effect, metric)
    if effect.seeds < SEEDS:
        return Verdict(
            "not testable at this scale", described, f"{seeds(effect.seeds)}: a verdict takes {SEEDS} or more."
        )
    if scale == "smoke":
        return Verdict("not testable at this scale", described, "A smoke run shows that everything works, no more.")
    margin = pair.margin
    word: Word
    match pair.expect:
        case "no_loss":
            word = _word(low > -margin, high < -margin)
            limit = f"worse by less than {amount(margin, metric)}"
        case "more":
            word = _word(effect.low > margin, effect.high <= margin)
            limit = f"more by over {amount(margin, metric)}" if margin else "more"
        case "less":
            word = _word(effect.high < -margin, effect.low >= -margin)
            limit = f"less by over {amount(margin, metric)}" if margin else "less"
        case "differ":
            word = _word(effect.low > margin or effect.high < -margin, -margin < effect.low and effect.high < margin)
            limit = f"different by over {amount(margin, metric)}" if margin else "different"
    outcome = {
        "holds": "the whole interval is on that side",
        "does not hold": "none of the interval is on that side",
        "within noise": "the interval lies on both sides",
        "not testable at this scale": "",
    }[word]
    return Verdict(word, described, f"Expected of {pair.arm}: {limit}; {outcome}.")


def _word(yes: bool, no: bool) -> Word:
    return "holds" if yes else "does not hold" if no else "within noise"


def describe(pair: Comparison, effect: Effect, metric: str) -> str:
    """The difference in words, and how it stands beside the scatter of the seeds."""
    name, nothing = ("kappa", "1") if metric == "log_kappa" else (metric, "zero")
    head = f"{pair.arm} against {pair.against}: {name} {signed(effect.difference, metric)}"
    if not math.isfinite(effect.low):
        return f"{head}, from one seed, which says nothing about the spread."
    low, high = (signed(end, metric).removesuffix(POINTS) for end in (effect.low, effect.high))
    span = f"{100 * effect.level:.0f} % interval {low} to {high}, {seeds(effect.seeds)}"
    if not effect.low <= 0 <= effect.high:
        tail = f"the interval does not contain {nothing}"
    elif effect.apart:
        tail = f"more than the seeds scatter, but {seeds(effect.seeds)} cannot exclude chance"
    else:
        tail = "at this size the difference is within the spread of the seeds"
    return f"{head} ({span}): {tail}."


def seeds(count: int) -> str:
    """`1 seed`, `2 seeds`."""
    return f"{count} seed" if count == 1 else f"{count} seeds"


def amount(value: float, metric: str) -> str:
    """The size of a difference: points of percent, a factor of kappa, or plain."""
    if metric == "log_kappa":
        return f"a factor of {math.exp(value):.2f}"
    return f"{100 * value:.1f}{POINTS}" if metric in SHARES else f"{value:.4g}"


def signed(value: float, metric: str) -> str:
    """A difference with its sign: +0.4 points; of log kappa as a ratio of kappa, x0.62."""
    if metric == "log_kappa":
        return f"x{math.exp(max(-300.0, min(300.0, value))):.3g}"
    return f"{100 * value:+.1f}{POINTS}" if metric in SHARES else f"{value:+.4g}"
