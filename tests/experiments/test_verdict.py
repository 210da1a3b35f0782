"""The rule from numbers to a verdict, on made-up data with known answers."""

from __future__ import annotations

import pytest

from manyheads.experiments.statistics import effect
from manyheads.experiments.verdict import Verdict, holm, judge
from manyheads.spec.errors import UserError
from manyheads.spec.experiment import Comparison

BASE = {0: 0.800, 1: 0.802, 2: 0.798, 3: 0.801}


def verdict(
    expect: str,
    by: float,
    *,
    noise: float = 0.0,
    margin: float = 0.0,
    scale: str = "small",
    seeds: int = 4,
    better: str = "up",
    metric: str = "top1",
) -> Verdict:
    """The verdict on an arm that differs from BASE by `by`, by `noise` more or less at every second seed."""
    against = {seed: BASE[seed] for seed in range(seeds)}
    arm = {seed: value + by + (noise if seed % 2 else -noise) for seed, value in against.items()}
    pair = Comparison("lean", "original", expect, margin)  # type: ignore[arg-type]
    return judge(pair, effect(arm, against), metric=metric, better=better, scale=scale)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("expect", "by", "noise", "margin", "word"),
    [
        ("more", 0.02, 0.001, 0.0, "holds"),
        ("more", -0.02, 0.001, 0.0, "does not hold"),
        ("more", 0.002, 0.01, 0.0, "within noise"),
        ("more", 0.004, 0.001, 0.01, "does not hold"),  # more, but less than was claimed
        ("less", -0.02, 0.001, 0.0, "holds"),
        ("less", 0.02, 0.001, 0.0, "does not hold"),
        ("better", 0.02, 0.001, 0.0, "holds"),
        ("better", -0.02, 0.001, 0.0, "does not hold"),
        ("open", 0.02, 0.001, 0.0, "better"),
        ("open", -0.02, 0.001, 0.0, "worse"),
        ("open", 0.002, 0.01, 0.0, "within noise"),
        ("differ", -0.02, 0.001, 0.005, "holds"),
        ("differ", 0.02, 0.001, 0.005, "holds"),
        ("differ", 0.001, 0.001, 0.01, "does not hold"),  # shown to be equal within the margin
        ("differ", 0.01, 0.02, 0.005, "within noise"),
        ("equal", 0.001, 0.001, 0.01, "holds"),
        ("equal", -0.03, 0.001, 0.01, "does not hold"),  # far lower is not the same
        ("equal", 0.03, 0.001, 0.01, "does not hold"),
        ("equal", 0.0, 0.02, 0.01, "within noise"),
        ("no_loss", 0.0, 0.001, 0.01, "holds"),
        ("no_loss", -0.004, 0.001, 0.01, "holds"),  # a loss, and smaller than the margin
        ("no_loss", -0.03, 0.001, 0.01, "does not hold"),
        ("no_loss", 0.0, 0.02, 0.01, "within noise"),  # finding no difference is not finding no loss
    ],
)
def test_the_rule_gives_the_known_answer(expect: str, by: float, noise: float, margin: float, word: str) -> None:
    assert verdict(expect, by, noise=noise, margin=margin).word == word


def test_a_target_moves_the_margins() -> None:
    pair = Comparison("lean", "original", "equal", 0.1, metric="memory", ratio=True, target=-0.5)
    at_target = effect({0: -0.5, 1: -0.52, 2: -0.48}, {0: 0.0, 1: 0.0, 2: 0.0})
    holds = judge(pair, at_target, metric="memory", better="down", scale="paper")
    assert holds.word == "holds"
    assert "memory x0.607" in holds.found
    off = effect({0: -0.8, 1: -0.82, 2: -0.78}, {0: 0.0, 1: 0.0, 2: 0.0})
    assert judge(pair, off, metric="memory", better="down", scale="paper").word == "does not hold"


@pytest.mark.parametrize(("by", "word"), [(0.03, "does not hold"), (-0.03, "holds")])
def test_a_loss_is_in_the_direction_that_is_worse(by: float, word: str) -> None:
    assert verdict("no_loss", by, margin=0.01, better="down", metric="loss").word == word


@pytest.mark.parametrize(("scale", "seeds"), [("smoke", 4), ("small", 2), ("paper", 1)])
def test_a_smoke_run_or_two_seeds_decide_nothing_however_large_the_effect(scale: str, seeds: int) -> None:
    assert verdict("more", 0.5, noise=1e-4, scale=scale, seeds=seeds).word == "not testable at this scale"


def test_the_sentence_says_what_the_seeds_allow() -> None:
    assert "from one seed" in verdict("more", 0.02, seeds=1).found
    for by in (0.001, 0.02):
        told = verdict("more", by, noise=0.004, seeds=2)
        assert "more than the seeds scatter" not in told.found  # beside an interval on both sides of zero
        assert "significant" not in told.found


def test_a_verdict_says_the_smallest_difference_that_it_could_have_seen() -> None:
    told = verdict("no_loss", 0.0, noise=0.005, margin=0.01)
    error = effect({0: 0.005, 1: -0.005, 2: 0.005, 3: -0.005}, dict.fromkeys(range(4), 0.0)).visible
    assert f"4 seeds show a difference of {100 * error:.1f} points in 4 of 5 cases." in told.reason


def test_one_of_many_comparisons_is_decided_at_a_smaller_level() -> None:
    assert holm([0.04, 0.001, 0.02]) == pytest.approx([0.05, 0.05 / 3, 0.025])
    assert holm([0.04, 0.03]) == pytest.approx([0.0, 0.025])  # the clearest is not clear enough, so that none is
    against = {seed: BASE[seed] for seed in range(4)}
    arm = {0: 0.812, 1: 0.806, 2: 0.815, 3: 0.807}
    pair = Comparison("lean", "original", "more")
    found = effect(arm, against)
    assert judge(pair, found, metric="top1", better="up", scale="small").word == "holds"
    corrected = judge(pair, found, metric="top1", better="up", scale="small", level=0.001, among=20)
    assert corrected.word == "within noise"
    assert "clear alone, but not among 20 comparisons (Holm)" in corrected.reason


def test_shares_are_told_in_points_and_kappa_as_a_ratio() -> None:
    assert "top1 +2.0 points (95 % interval +1.8 to +2.2, 4 seeds)" in verdict("more", 0.02, noise=0.001).found
    assert "kappa x0.5 (" in verdict("less", -0.6931, noise=0.01, metric="log_kappa").found


@pytest.mark.parametrize(
    ("expect", "why"),
    [
        ("no_loss", "what still counts as no loss"),
        ("equal", "still count as equal"),
        ("differ", "difference that counts"),
    ],
)
def test_what_could_not_be_refuted_needs_a_margin_fixed_beforehand(expect: str, why: str) -> None:
    with pytest.raises(UserError, match=why):
        Comparison("lean", "original", expect)  # type: ignore[arg-type]
