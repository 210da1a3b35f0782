"""The primary comparison of every claim is the one that was fixed before the runs, with its control, and no other."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from manyheads.experiments import vision_pairs
from manyheads.experiments.claims import CLAIMS
from manyheads.experiments.registry import EXPERIMENTS
from manyheads.experiments.vision_pairs import BASE, LARGE, TWICE
from manyheads.spec.comparison import Comparison, Growth, Slope, Trend
from manyheads.spec.errors import UserError
from manyheads.spec.experiment import Experiment

# fmt: off
# claim: experiment, arm, against, expectation, margin, metric, and the controls as pairs of arms
WANTED: dict[str, list[tuple[str, str, str, str, float, str, list[tuple[str, str]]]]] = {
    "L1": [("theorem", f"normal_h{h}", f"formula_h{h}", "equal", 0.05, "log_kappa", [("normal_h3", "normal_h12")])
           for h in (6, 12, 24, 48)],
    "L2": [("theorem", "normal_h192", "normal_h12", "less", 0.0, "log_kappa", []),
           ("theorem", "normal_h192", "formula_h192", "equal", 0.05, "log_kappa", [])],
    "L3": [("theorem", f"normal_h{h}", f"formula_h{h}", "equal", 1e-6, "deficient", []) for h in (2, 12, 192)],
    "L5": [("vision_arms", "L12_h6", "L12_h3", "better", 0.0, "", [("L4_h3", "L12_h3")])],
    "L6": [("vision_arms", "L7_h6", "L12_h3", "better", 0.0, "", [("L7_h3", "L12_h3")])],
    "L7": [("vision_arms", "L7_h12", "L7_h3_mlp", "better", 0.0, "", [("L7_h3_half", "L7_h3")])],
    "L8": [("vision_arms", "L4_h12", "L12_h3", "no_loss", 0.005, "", [("L4_h3", "L12_h3")])],
    "L12": [("table1", "lean", "original", "no_loss", 0.01, "", [("depth_only", "original")])],
    "L13": [("table2", "lean", "original", "better", 0.0, "best", [("depth_only", "original")])],
    "L14": [("table3", f"{task}_L1_h4", f"{task}_L2_h2", "better", 0.0, "test_top1",
             [(f"{task}_L1_h2", f"{task}_L2_h2")]) for task in ("listops", "text", "image")],
    "L15": [("gpt_time", "L4_h8_d128", "L4_h16", "equal", 0.1, "log_kappa", []),
            ("gpt_time", "L4_h8_d128", "L4_h16", "less", 0.05, "rate", [])],
    "A1": [("constructions", f"exact_N{n}", "exact_law", "equal", 1e-6, "", []) for n in (2, 16, 256)],
    "A3": [("rank_fig1", "L1_d2_half", "L1_d2_full", "more", 0.0, "", []),
           ("rank_fig1", "L1_d2_quarter", "L1_d2_half", "more", 0.0, "", []),
           ("rank_fig1", "L1_d2.5_quarter", "L1_d2.5_half", "more", 0.0, "", [])],
    "A4": [("rank_fig1", f"L1_d2.5_{rank}", f"L1_d2_{rank}", "less", 0.0, "", []) for rank in ("half", "quarter")],
    "A5": [("rank_n", "N4_L4_half", "N4_L1_half", "better", 0.0, "skill", [])],
    "A6": [("rank_n", "N4_L4_half", "N4_L1_half", "better", 0.0, "skill",
            [("N4_L1_full", "N4_L4_full"), ("N256_L1_full", "N256_L4_full")])],
    "A8": [("rank_vote", f"vote_h{h}", f"law_h{h}", "equal", 0.14, "", []) for h in (65, 257, 1025, 4097)],
    "M1": [("gpt_controls", "L4_h16", "L4_h8_mlp", "better", 0.0, "", [("L4_h8", "L12_h8")])],
    "M2": [("gpt_controls", "L4_h16", "L4_h16_d32", "differ", 0.005, "", [])],
}
# fmt: on
PAIRS = {"L9", "L10", "L11"}  # rows of the tables, below
DESIGNS = {"L4", "A2", "A7", "M3"}  # slopes, growth and trends, below
WAITING = {"M4"}  # no experiment yet


def primary(claim: str) -> list[tuple[Experiment, Comparison]]:
    """The comparisons that decide a claim."""
    every = [(one, pair) for one in EXPERIMENTS.values() for pair in one.comparisons]
    return [(one, pair) for one, pair in every if pair.primary and pair.claim == claim]


def test_every_claim_is_here() -> None:
    assert WANTED.keys() | PAIRS | DESIGNS | WAITING == CLAIMS.keys()
    for claim in DESIGNS | WAITING:
        assert primary(claim) == []


@pytest.mark.parametrize("claim", WANTED)
def test_a_claim_has_the_primary_comparisons_and_controls_that_were_fixed(claim: str) -> None:
    found = [
        (one.name, pair.arm, pair.against, pair.expect, pair.margin, pair.metric, controls)
        for one, pair in primary(claim)
        for controls in ([(control.arm, control.against) for control in pair.controls],)
    ]
    assert found == WANTED[claim]


def test_masked_models_are_decided_on_equal_tokens_and_not_on_equal_seconds() -> None:
    table = EXPERIMENTS["table1"]
    on = {
        basis: [pair for pair in table.compared("small", basis) if pair.claim == "L12"]
        for basis in ("tokens", "seconds")
    }
    assert [[pair.primary for pair in pairs] for pairs in on.values()] == [[True], [False]]
    with pytest.raises(UserError, match="on equal minutes, which is no basis at scale"):
        replace(table, comparisons=(replace(table.comparisons[0], bases=("minutes",)),))


def test_what_depth_brings_at_few_points_is_compared_with_what_it_brings_at_many() -> None:
    ((_, pair),) = primary("A6")
    assert pair.beyond == ("N256_L4_half", "N256_L1_half")


def test_larger_heads_are_timed_alone() -> None:
    assert EXPERIMENTS["gpt_time"].alone
    ((_, kappa), (_, rate)) = primary("L15")
    assert (kappa.ratio, rate.ratio) == (False, True)
    assert {pair.primary for pair in EXPERIMENTS["gpt_controls"].comparisons if pair.claim == "L15"} == {False}


def test_rows_that_are_one_network_are_one_pair() -> None:
    for claim, keys, scales in (("L9", BASE, ()), ("L10", LARGE, ("paper",))):
        for name in ("table4" if claim == "L9" else "table5", "fig1"):
            found = {pair.arm: pair for one, pair in primary(claim) if one.name == name}
            wanted = [f"{key}_lean" for key in keys if key not in TWICE]
            assert list(found) == [arm for arm in wanted if arm in found]
            assert name == "fig1" or list(found) == wanted
            for key, arm in ((arm.removesuffix("_lean"), pair) for arm, pair in found.items()):
                assert (arm.expect, arm.margin, arm.scales) == ("no_loss", 0.005, scales)
                (control,) = arm.controls
                assert (control.arm, control.against) == (f"{key}_depth_only", f"{key}_original")
        made = [vision_pairs.pair(key, "paper") for key in keys if key not in TWICE]
        shapes = [replace(side, family="vit") for both in made for side in (both.original, both.lean)]
        assert len(set(shapes)) == len(shapes)
    assert [(one.name, pair.arm) for one, pair in primary("L9") if one.name == "vision_arms"] == [
        ("vision_arms", "L7_h4_half")
    ]


def test_memory_is_compared_with_the_printed_ratio_in_float32_at_the_papers_size() -> None:
    found = primary("L11")
    assert {one.name for one, _ in found} == {"memory"}
    for _, pair in found:
        assert pair.arm.endswith("_lean_fp32")
        assert not pair.arm.startswith(TWICE)
        assert (pair.expect, pair.margin, pair.metric, pair.ratio, pair.scales) == (
            "equal",
            0.1,
            "memory",
            True,
            ("paper",),
        )
        assert 0.5 < math.exp(pair.target) < 0.8  # as printed, of the original's


def test_designs_are_judged_together_where_a_claim_is_about_designs() -> None:
    trends = [(one.name, trend) for one in EXPERIMENTS.values() for trend in one.trends if trend.primary]
    assert trends == [("gpt_controls", Trend("log_kappa", "loss", "more", "M3", ("params", "depth"), True))]
    slopes = [(one.name, slope) for one in EXPERIMENTS.values() for slope in one.slopes]
    arms = ("L12_h3", "L12_h6", "L7_h3", "L7_h6", "L7_h12", "L4_h3", "L4_h12")
    assert slopes == [("vision_arms", Slope("log_kappa", "heads", arms, "less", "L4", "depth", True))]
    growths: list[Growth] = [one for one in EXPERIMENTS["rank_growth"].setting("laptop").growths if one.primary]
    assert [(one.claim, one.share, list(one.sizes)) for one in growths] == [
        ("A2", 0.5, [4, 5, 6, 7, 8]),
        ("A7", 0.5, [4, 5, 6, 7, 8]),
    ]
    for one in growths:  # full rank needs one head for each question
        kind = "plain" if one.claim == "A2" else "biased"
        assert one.enough == {size: f"{kind}_d{size}_full" for size in one.sizes}
