"""The rule from numbers to a verdict, on made-up data with known answers."""

from __future__ import annotations

import pytest

from manyheads.experiments.statistics import effect
from manyheads.experiments.verdict import Verdict, judge
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
        ("differ", -0.02, 0.001, 0.0, "holds"),
        ("differ", 0.02, 0.001, 0.0, "holds"),
        ("differ", 0.001, 0.001, 0.01, "does not hold"),  # shown to be equal within the margin
        ("differ", 0.001, 0.001, 0.0, "within noise"),  # without a margin nothing can be shown to be equal
        ("no_loss", 0.0, 0.001, 0.01, "holds"),
        ("no_loss", -0.004, 0.001, 0.01, "holds"),  # a loss, and smaller than the margin
        ("no_loss", -0.03, 0.001, 0.01, "does not hold"),
        ("no_loss", 0.0, 0.02, 0.01, "within noise"),  # finding no difference is not finding no loss
    ],
)
def test_the_rule_gives_the_known_answer(expect: str, by: float, noise: float, margin: float, word: str) -> None:
    assert verdict(expect, by, noise=noise, margin=margin).word == word


@pytest.mark.parametrize(("by", "word"), [(0.03, "does not hold"), (-0.03, "holds")])
def test_a_loss_is_in_the_direction_that_is_worse(by: float, word: str) -> None:
    assert verdict("no_loss", by, margin=0.01, better="down", metric="loss").word == word


@pytest.mark.parametrize(("scale", "seeds"), [("smoke", 4), ("small", 2), ("paper", 1)])
def test_a_smoke_run_or_two_seeds_decide_nothing_however_large_the_effect(scale: str, seeds: int) -> None:
    assert verdict("more", 0.5, noise=1e-4, scale=scale, seeds=seeds).word == "not testable at this scale"


def test_the_sentence_says_what_the_seeds_allow() -> None:
    assert "within the spread of the seeds" in verdict("more", 0.001, noise=0.01, seeds=2).found
    assert "2 seeds cannot exclude chance" in verdict("more", 0.02, noise=0.004, seeds=2).found
    assert "does not contain zero" in verdict("more", 0.02, noise=0.001).found
    assert "from one seed" in verdict("more", 0.02, seeds=1).found
    assert "significant" not in verdict("more", 0.02, noise=0.001).found


def test_shares_are_told_in_points_and_kappa_as_a_ratio() -> None:
    assert "top1 +2.0 points (95 % interval +1.8 to +2.2, 4 seeds)" in verdict("more", 0.02, noise=0.001).found
    assert "kappa x0.5 (" in verdict("less", -0.6931, noise=0.01, metric="log_kappa").found


def test_no_loss_needs_a_margin_fixed_beforehand() -> None:
    with pytest.raises(UserError, match="what still counts as no loss"):
        Comparison("lean", "original", "no_loss")
