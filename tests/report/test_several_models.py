"""Several models that are compared with one, and no claim that they decide together: `manyheads compare a b c d`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from manyheads.report.section_verdicts import verdicts
from manyheads.spec.comparison import Comparison

from .test_section_verdicts import section


@pytest.mark.parametrize("sign", [1, -1])
def test_several_models_that_are_compared_without_a_claim_are_corrected_in_both_directions(
    tmp_path: Path, sign: int
) -> None:
    others = ("lean", "depth_only", "split")
    pairs = [Comparison(arm, "original", "open", primary=True) for arm in others]
    here = section(tmp_path, dict.fromkeys(("original", *others), 0.8), *pairs)
    runs = {arm.name: {run.seed: run for run in arm.runs} for arm in here.arms}
    for seed, by in {0: 0.04, 1: 0.05, 2: 0.065}.items():  # p is 0.02: clear alone, not among three
        runs["lean"][seed].measured.scores["top1"] = runs["original"][seed].measured.scores["top1"] + sign * by
    first = verdicts(here)[0].verdict
    assert first.word == "within noise"
    assert "not among 3 comparisons" in first.reason
    alone = replace(here, experiment=replace(here.experiment, comparisons=(pairs[0],)))  # type: ignore[type-var]
    assert verdicts(alone)[0].verdict.word == ("better" if sign > 0 else "worse")
