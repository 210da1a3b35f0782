"""Slopes over designs: seed by seed, with a height of its own for each depth."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest

from manyheads.arch.controls import depths, heads
from manyheads.arch.redesign import redesign
from manyheads.experiments.demo import DEMO, ORIGINAL
from manyheads.report.read_runs import read_runs
from manyheads.report.section_verdicts import Judgement, verdicts
from manyheads.spec.comparison import Slope
from manyheads.spec.errors import UserError
from manyheads.spec.experiment import Arm, Experiment, folder, specs

from .made import put

ARMS = tuple(
    Arm(f"L{depth}_h{count}", redesign(ORIGINAL, depth=depth, heads=count))
    for depth, counts in ((6, (4, 8)), (3, (4, 8, 16)))
    for count in counts
)
SLOPE = Slope("log_kappa", "heads", tuple(arm.name for arm in ARMS), "less", claim="L4", primary=True)
KNOWN = replace(
    DEMO,
    settings={"small": replace(DEMO.setting("smoke"), seeds=(0, 1, 2), arms=ARMS)},
    comparisons=(),
    slopes=(SLOPE,),
)


def judged(root: Path, slope: float, *, known: Experiment = KNOWN, without: str = "") -> Judgement:
    """The verdict where log kappa has this slope over log heads, deeper designs have far more of it, and seeds scatter."""
    for spec in specs(known, "small"):
        if spec.label["arm"] == without:
            continue
        (depth,), (count,) = depths(spec.arch), heads(spec.arch)
        log = 3.0 * depth + slope * math.log(count) + 0.05 * math.sin(9 * spec.seed + count + depth)
        put(folder(root, spec), spec, 0.8, log_kappa=log)
    (one,) = verdicts(read_runs(root, {known.name: known}).sections[0])
    return one


@pytest.mark.parametrize(("slope", "word"), [(-0.5, "holds"), (0.5, "does not hold"), (0.0, "within noise")])
def test_a_slope_is_that_within_each_depth(tmp_path: Path, slope: float, word: str) -> None:
    one = judged(tmp_path, slope)
    assert one.verdict.word == word
    assert one.effect is not None
    assert one.effect.difference == pytest.approx(slope, abs=0.05)  # although deeper designs have fewer heads
    assert one.effect.seeds == 3
    assert "log_kappa over log heads through 5 designs" in one.verdict.found
    assert (one.pair.claim, one.pair.primary) == ("L4", True)


def test_a_slope_without_one_of_its_designs_is_not_tested(tmp_path: Path) -> None:
    one = judged(tmp_path, -0.5, without="L3_h16")
    assert one.verdict.word == "not testable at this scale"
    assert "No finished run of L3_h16" in one.verdict.reason


def test_a_slope_of_two_designs_or_of_designs_that_are_not_there_is_refused() -> None:
    with pytest.raises(UserError, match="write three or more"):
        Slope("log_kappa", "heads", ("L6_h4", "L6_h8"), "less")
    with pytest.raises(UserError, match="compares 'L9_h9', which is no arm at scale small"):
        replace(KNOWN, slopes=(replace(SLOPE, arms=("L6_h4", "L6_h8", "L9_h9")),))
