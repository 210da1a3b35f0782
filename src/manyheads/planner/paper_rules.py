"""Where the papers' arguments speak against a design: the first's (more heads, better conditioning) where it does not
apply, the second's (rank per head) where it does."""

from __future__ import annotations

from collections.abc import Callable
from math import exp, log

import numpy as np
from numpy.typing import NDArray

from manyheads.arch.redesign import SPLIT_TOLERANCE
from manyheads.arch.thresholds import LOW_RANK, NEAR_PEAK, UNCHANGED, USUAL_RANK, VERY_LOW_RANK

from .design_facts import Facts, StageFacts
from .rules import Bools, Rule, Said, StageRule, WholeRule, never


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
    """Inner is wider and past the peak, and still kappa is not below that of the original, which lies before the
    peak."""
    wider = np.any([widened(stage) for stage in facts.stages], axis=0)
    covered = np.any([_peak(stage) | _narrow(stage) for stage in facts.stages], axis=0)
    return np.asarray(wider & ~covered & (facts.log_ratio >= UNCHANGED))


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
        f"{group:g} heads share one head of keys and values ({before:g} before): kappa at initialisation is "
        "unaffected, but accuracy with more heads and fewer layers has not been measured"
    )
    return words, {"group": group, "before": before}


COVERAGE = 0.9  # of the tokens' variance, below which a head cannot tell them apart


def _uncovered(stage: StageFacts) -> Bools:
    """Whether even the most that this rank can cover, by the probe's numbers, is too little."""
    if stage.measured is None or stage.measured.coverage is None:
        return never(len(stage.depth))
    most = {int(dim): (stage.measured.bounds(int(dim)) or (0.0, 1.0))[1] for dim in np.unique(stage.head_dim)}
    return np.array([most[int(dim)] < COVERAGE for dim in stage.head_dim])


def _uncovered_words(stage: StageFacts, i: int) -> Said:
    assert stage.measured is not None
    low, high = stage.measured.bounds(int(stage.head_dim[i])) or (0.0, 1.0)
    exactly = f"{low:.2f}" if high - low < 0.005 else f"between {low:.2f} and {high:.2f}"
    words = f"rank {stage.head_dim[i]} covers {exactly} of the probed tokens' variance, less than {COVERAGE}"
    return words, {"coverage_low": low, "coverage_high": high}


def _low(stage: StageFacts) -> Bools:
    """Whether rank is low: by the probe where there is one, else where heads are thin, or thinner than the
    original's."""
    if stage.measured is not None and stage.measured.coverage is not None:
        return _uncovered(stage)
    thinner = (stage.head_dim < stage.head_dim0) & (stage.head_dim < USUAL_RANK)
    return np.asarray((stage.head_dim < LOW_RANK) | thinner)


def _corner(stage: StageFacts) -> Bools:
    return np.asarray((stage.depth < stage.depth0) & _low(stage))


def _corner_words(stage: StageFacts, i: int) -> Said:
    words = (
        f"depth is cut ({stage.depth0} to {stage.depth[i]}) while rank per head is low ({stage.head_dim[i]}): few "
        "layers of low rank is where the second paper's errors are largest"
    )
    return words, {"depth": int(stage.depth[i]), "head_dim": int(stage.head_dim[i])}


def _below(least: int, floor: int) -> tuple[Callable[[StageFacts], Bools], Callable[[StageFacts, int], Said]]:
    def where(stage: StageFacts) -> Bools:
        return np.asarray((stage.head_dim >= least) & (stage.head_dim < floor) & stage.changed)

    def words(stage: StageFacts, i: int) -> Said:
        dim = int(stage.head_dim[i])
        return f"head_dim {dim} is under {floor}: each head has little rank to match tokens with", {"head_dim": dim}

    return where, words


RULES: tuple[Rule, ...] = (
    StageRule("peak", "serious", _peak, _peak_words),
    StageRule("narrow", "serious", _narrow, _narrow_words),
    StageRule("split", "serious", split, _split_words),
    WholeRule("worse", "serious", _worse, _worse_words),
    WholeRule("unchanged", "caution", _unchanged, _unchanged_words),
    StageRule("grouped", "caution", _grouped, _grouped_words),
    StageRule("coverage", "serious", _uncovered, _uncovered_words),
    StageRule("shallow_rank", "serious", _corner, _corner_words),
    StageRule("rank", "serious", *_below(1, VERY_LOW_RANK)),
    StageRule("thin", "caution", *_below(VERY_LOW_RANK, LOW_RANK)),
)
