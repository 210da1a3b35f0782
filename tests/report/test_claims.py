"""The claims table: every claim is there, decided where runs decide it, and nothing is claimed where they do not."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest

from manyheads.experiments.claims import CLAIMS
from manyheads.experiments.registry import EXPERIMENTS
from manyheads.report.claims_table import (
    PRINTED,
    claims_table,
    claims_without_runs,
    evidence,
    evidence_table,
    expected_side,
    strip,
    tally,
)
from manyheads.report.read_runs import Section, read_runs
from manyheads.report.run_measurements import by_kind
from manyheads.report.section_summary import conclusion, terms
from manyheads.report.section_verdicts import verdicts
from manyheads.report.tables import csv_rows
from manyheads.spec.experiment import Comparison, Experiment

from .made import comparison, quick
from .test_page import FOUR, KNOWN, TOP1


def sections(tmp_path: Path, *scales: str, known: dict[str, Experiment] = KNOWN) -> list[Section]:
    """Sections of a made-up comparison."""
    for scale in scales:
        comparison(tmp_path, known["demo"], scale, TOP1)
    return read_runs(tmp_path, known).sections


def test_every_claim_is_either_spoken_of_or_listed_with_what_would_decide_it(tmp_path: Path) -> None:
    rows = evidence(sections(tmp_path, "small"))
    rest = claims_without_runs(rows, EXPERIMENTS)
    spoken = {row.claim for row in rows}
    assert spoken == {"L9", "M1", "M2", "L4"}
    assert spoken | {row[0].text for row in rest.rows} == set(CLAIMS)
    decided = {row[0].text: row[-1].text for row in rest.rows}
    assert "manyheads run rank_fig1 --scale small" in decided["A3"]
    assert set(PRINTED) <= set(CLAIMS)


def test_a_row_has_effect_interval_printed_effect_basis_seeds_and_verdict(tmp_path: Path) -> None:
    pairs = (replace(FOUR.comparisons[0], printed=0.003), *FOUR.comparisons[1:])
    known = {"demo": replace(FOUR, comparisons=pairs)}
    table = evidence_table(evidence(sections(tmp_path, "small", known=known)))
    rows = {row[0].text: dict(zip(table.heads, row, strict=True)) for row in table.rows}
    row = rows["L9"]
    assert row["verdict"].text == "small: holds"
    assert row["effect"].text.startswith("-0.1 points (")
    assert row["effect"].more["low"] < row["effect"].key < row["effect"].more["high"]  # type: ignore[operator]
    assert (row["paper"].text, row["paper"].key) == ("+0.3 points", 0.003)
    assert (row["held equal"].text, row["seeds"].text, row["experiment"].text) == ("steps", "4", "demo small")
    assert rows["M1"]["paper"].text == "(never run)"
    assert rows["L4"]["effect"].text.startswith("x0.135 (")
    assert rows["L4"]["effect"].key == pytest.approx(math.exp(-2))  # in CSV too kappa has a factor, and no logarithm
    heads, *_ = csv_rows(table)
    assert heads[3:6] == ["effect", "effect low", "effect high"]


def test_scales_stand_apart_and_smoke_claims_nothing(tmp_path: Path) -> None:
    rows = evidence(sections(tmp_path, "smoke", "small"))
    words = [(row.section.scale, cells[2].text) for row, cells in zip(rows, evidence_table(rows).rows, strict=True)]
    assert [scale for scale, _ in words] == ["small", "smoke"] * 4
    assert {word for scale, word in words if scale == "smoke"} == {"smoke: claims nothing"}
    assert tally(rows) == (
        "8 comparisons are about 4 of 27 claims. At scale small: holds 3, does not hold 1. At scale "
        "smoke, which claims nothing: 4."
    )


def test_a_claim_has_one_row_with_what_each_scale_found(tmp_path: Path) -> None:
    """The laptop's verdicts stand between those of small and smoke, and say so."""
    known = {"demo": replace(FOUR, settings=dict(FOUR.settings) | {"laptop": FOUR.setting("small")})}
    by_scale = sections(tmp_path, "smoke", "small", "laptop", known=known)
    assert [section.scale for section in by_scale] == ["small", "laptop", "smoke"]
    table = claims_table(evidence(by_scale))
    rows = {row[0].text: row for row in table.rows}
    assert list(rows) == ["L4", "L9", "M1", "M2"]
    assert rows["L9"][2].text == "small: holds, secondary; laptop: holds, secondary; smoke: claims nothing, secondary"
    assert [part.kind for part in rows["M2"][2].parts] == ["no", "no", "smoke"]
    assert [part.href for part in rows["M2"][-1].parts] == ["#s0", "#s1", "#s2"]
    assert "At scale small: holds 3, does not hold 1. At scale laptop: holds 3" in tally(evidence(by_scale))
    assert "lean against original: holds at scale laptop (L9" in " ".join(conclusion(by_scale[1]))
    assert terms(by_scale[1]).startswith("scale laptop: reduced sizes")


def test_comparisons_that_came_out_alike_are_counted_and_others_stand_beside_them(tmp_path: Path) -> None:
    pairs = (
        *FOUR.comparisons,
        Comparison("split", "original", "no_loss", 0.01, claim="L9"),
        Comparison("depth_only", "original", "no_loss", 0.01, claim="L9"),
    )
    known = {"demo": replace(FOUR, comparisons=pairs)}
    rows = {row[0].text: row[2].text for row in claims_table(evidence(sections(tmp_path, "small", known=known))).rows}
    assert rows["L9"] == "small: holds, secondary x2; small: does not hold, secondary"


@pytest.mark.parametrize(
    ("expect", "margin", "better", "sides"),
    [
        ("more", 0.1, "up", [(0.1, float("inf"))]),
        ("less", 0.0, "up", [(float("-inf"), 0.0)]),
        ("no_loss", 0.1, "up", [(-0.1, float("inf"))]),
        ("no_loss", 0.1, "down", [(float("-inf"), 0.1)]),
        ("differ", 0.1, "up", [(float("-inf"), -0.1), (0.1, float("inf"))]),
        ("better", 0.1, "down", [(float("-inf"), -0.1)]),
        ("equal", 0.1, "up", [(-0.1, 0.1)]),
    ],
)
def test_the_shaded_side_is_where_the_claim_holds(
    tmp_path: Path, expect: str, margin: float, better: str, sides: list[tuple[float, float]]
) -> None:
    item = verdicts(sections(tmp_path, "small")[0])[0]
    other = replace(item, pair=Comparison("lean", "original", expect, margin), better=better)  # type: ignore[arg-type]
    assert expected_side(other) == sides
    assert strip(other).count('class="wanted"') == len(sides)


def test_an_effect_of_one_seed_has_no_interval(tmp_path: Path) -> None:
    one = replace(FOUR, settings={"small": replace(FOUR.setting("small"), seeds=(0,))})
    quick(tmp_path, one, "small", lambda spec: 0.5)
    rows = evidence(read_runs(tmp_path, {"demo": one}).sections)
    row = evidence_table(rows).rows[0]
    assert row[3].text.endswith("(one seed)")
    assert dict(row[3].more) == {}
    assert 'class="mean"' in row[3].drawn
    assert 'class="span"' not in row[3].drawn
    assert row[2].text == "small: not testable"


def test_a_metric_may_be_any_number_that_a_probe_writes() -> None:
    layers = [
        {
            "step": step,
            "kind": "softmax",
            "layer": layer,
            "log_kappa": 1.0 + layer,
            "mean_kappa": 10.0 * step + layer,
            "detail": {"mlp_hidden_kappa": 4.0 + 2 * layer, "entropy": None},
            "reliable": True,
        }
        for step in (0, 7)
        for layer in (0, 1)
    ]
    last = by_kind(layers)["softmax"].last
    assert last["mean_kappa"] == 70.5
    assert last["detail.mlp_hidden_kappa"] == 5.0
    assert "detail.entropy" not in last
    assert "reliable" not in last
