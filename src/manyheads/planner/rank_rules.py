"""Where the second paper's argument, rank per head, speaks against a design."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from manyheads.arch.thresholds import LOW_RANK, USUAL_RANK, VERY_LOW_RANK

from .facts import StageFacts
from .rule import Bools, Rule, Said, StageRule, never

COVERAGE = 0.9  # of the tokens' variance, below which a head cannot tell them apart


def _uncovered(stage: StageFacts) -> Bools:
    """Whether even the most that this rank can cover, by the probe, is too little."""
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
    """Rank is low: by the probe where there is one, else thin heads, or heads thinner than the original's."""
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
    StageRule("coverage", "serious", _uncovered, _uncovered_words),
    StageRule("shallow_rank", "serious", _corner, _corner_words),
    StageRule("rank", "serious", *_below(1, VERY_LOW_RANK)),
    StageRule("thin", "caution", *_below(VERY_LOW_RANK, LOW_RANK)),
)
