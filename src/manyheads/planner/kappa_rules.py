"""Where the first paper's argument, more heads for better conditioning, does not carry a design."""

from __future__ import annotations

from math import exp, log

import numpy as np
from numpy.typing import NDArray

from manyheads.arch.redesign import SPLIT_TOLERANCE
from manyheads.arch.thresholds import NEAR_PEAK, UNCHANGED

from .facts import Facts, StageFacts
from .rule import Bools, Rule, Said, StageRule, WholeRule


def split(stage: StageFacts) -> Bools:
    """Whether the stage has more heads from the same inner width."""
    near = np.abs(stage.inner / stage.inner0 - 1) <= SPLIT_TOLERANCE
    return np.asarray((stage.heads > stage.heads0) & near)


def widened(stage: StageFacts) -> Bools:
    """Whether the inner width grew."""
    return np.asarray(stage.inner > (1 + SPLIT_TOLERANCE) * stage.inner0)


def _ratios(stage: StageFacts) -> list[NDArray[np.float64]]:
    return [stage.inner / site.rows for site in stage.sites]


def _peak(stage: StageFacts) -> Bools:
    close = [(ratio >= NEAR_PEAK[0]) & (ratio <= NEAR_PEAK[1]) for ratio in _ratios(stage)]
    return np.asarray(np.any(close, axis=0) & stage.changed)


def _narrow(stage: StageFacts) -> Bools:
    return np.asarray(np.any([ratio < 1 for ratio in _ratios(stage)], axis=0) & stage.changed)


def _kappa_ratio(stage: StageFacts, i: int) -> float:
    return exp(float(stage.log_kappa[i]) - stage.log_kappa0)


def _tokens(kind: str) -> str:
    return {"softmax": "tokens", "window": "tokens of a window"}.get(kind, f"tokens ({kind})")


def _peak_words(stage: StageFacts, i: int) -> Said:
    site = min(stage.sites, key=lambda one: abs(log(stage.inner[i] / one.rows)))
    ratio, before, change = float(stage.inner[i] / site.rows), stage.inner0 / site.rows, _kappa_ratio(stage, i)
    lands = "lands on the peak" if abs(ratio - 1) < 0.01 else "is close to the peak"
    words = (
        f"inner {stage.inner[i]} at {site.rows} {_tokens(site.kind)} {lands} of kappa, where inner equals tokens "
        f"(inner / tokens {ratio:.2f}, {before:.2f} before): predicted kappa is {change:.3g}x the original's"
    )
    return words, {"inner_per_token": ratio, "before": before, "kappa_ratio": change}


def _narrow_words(stage: StageFacts, i: int) -> Said:
    site = max(stage.sites, key=lambda one: one.rows)
    ratio, change = float(stage.inner[i] / site.rows), _kappa_ratio(stage, i)
    meets = -(-site.rows // int(stage.head_dim[i]))
    words = (
        f"inner {stage.inner[i]} is below the {site.rows} {_tokens(site.kind)} (inner / tokens {ratio:.2f}): the "
        f"conditioning argument does not apply, since kappa rises with inner until that meets tokens, at "
        f"{meets} heads of this size; predicted kappa is {change:.2f}x the original's"
    )
    return words, {"inner_per_token": ratio, "kappa_ratio": change, "peak_heads": meets}


def _split_words(stage: StageFacts, i: int) -> Said:
    change, rank = _kappa_ratio(stage, i), float(stage.head_dim[i] / stage.head_dim0)
    words = (
        f"split: {stage.heads[i]} heads of {stage.head_dim[i]} in place of {stage.heads0} of {stage.head_dim0} leave "
        f"inner at {stage.inner[i]} ({stage.inner0} before). Theory predicts no change of kappa ({change:.2f}x), and "
        f"rank per head falls to {rank:.2f} of the original's"
    )
    return words, {"kappa_ratio": change, "rank_ratio": rank}


def _unchanged(facts: Facts) -> Bools:
    wider = np.any([widened(stage) for stage in facts.stages], axis=0)
    return np.asarray(wider & (np.abs(facts.log_ratio) < UNCHANGED))


def _unchanged_words(facts: Facts, i: int) -> Said:
    ratio = exp(float(facts.log_ratio[i]))
    words = f"predicted kappa is {ratio:.2f} of the original's: the added heads bring next to nothing"
    return words, {"kappa_ratio": ratio}


def _worse(facts: Facts) -> Bools:
    """Wider and past the peak, and still not as well off as the original before it."""
    wider = np.any([widened(stage) for stage in facts.stages], axis=0)
    told = np.any([_peak(stage) | _narrow(stage) for stage in facts.stages], axis=0)
    return np.asarray(wider & ~told & (facts.log_ratio >= UNCHANGED))


def _worse_words(facts: Facts, i: int) -> Said:
    ratio = exp(float(facts.log_ratio[i]))
    words = (
        f"predicted kappa is {ratio:.2f}x the original's, which is on the other side of the peak: more heads do not pay"
    )
    return words, {"kappa_ratio": ratio}


def _grouped(stage: StageFacts) -> Bools:
    return np.asarray(stage.heads * stage.kv_heads0 > stage.heads0 * stage.kv_heads)


def _grouped_words(stage: StageFacts, i: int) -> Said:
    group, before = float(stage.heads[i] / stage.kv_heads[i]), stage.heads0 / stage.kv_heads0
    words = (
        f"{group:g} heads share one head of keys and values ({before:g} before): kappa at initialisation does not "
        "mind, but accuracy with more heads and fewer layers has not been measured"
    )
    return words, {"group": group, "before": before}


RULES: tuple[Rule, ...] = (
    StageRule("peak", "serious", _peak, _peak_words),
    StageRule("narrow", "serious", _narrow, _narrow_words),
    StageRule("split", "serious", split, _split_words),
    WholeRule("worse", "serious", _worse, _worse_words),
    WholeRule("unchanged", "caution", _unchanged, _unchanged_words),
    StageRule("grouped", "caution", _grouped, _grouped_words),
)
