"""An experiment is the same after it was written to a file and read again, and a damaged file is named."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from manyheads.experiments.registry import EXPERIMENTS
from manyheads.spec.errors import UserError
from manyheads.spec.experiment import narrowed, specs
from manyheads.spec.experiment_file import experiment_from_dict, experiment_to_dict, load, save
from manyheads.spec.text import LanguageModel

SOME = ("demo", "gpt_controls", "lr", "rank_growth", "table1_glue", "table3")  # every kind of field among them


@pytest.mark.parametrize("name", SOME)
def test_an_experiment_reads_as_it_was_written(name: str, tmp_path: Path) -> None:
    one = replace(EXPERIMENTS[name], remarks=("Read this first.",), changes=("steps 9",), of="fig3")
    save(one, tmp_path / "experiment.json")
    again = load(tmp_path / "experiment.json")
    assert again == one
    for scale in one.settings:
        assert [(run.id, run.label) for run in specs(again, scale)] == [
            (run.id, run.label) for run in specs(one, scale)
        ]


def test_an_arm_keeps_the_fields_in_which_it_differs() -> None:
    demo = EXPERIMENTS["demo"]
    setting = demo.setting("smoke")
    first = replace(setting.arms[0], task={"limit": 64}, recipe={"lr": 0.5, "betas": (0.5, 0.9)})
    other = replace(setting.arms[1], task=LanguageModel("tinystories"))
    one = replace(demo, settings={"smoke": replace(setting, arms=(first, other))}, comparisons=())
    assert experiment_from_dict(json.loads(json.dumps(experiment_to_dict(one)))) == one


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"schema": 2}, "schema 2"),
        ({"settings": []}, "no `settings`"),
        ({"comparison": []}, "no field 'comparison'; did you mean comparisons"),
        ({"comparisons": [{"arm": "lean"}]}, r"comparisons\[0\] lacks against, expect"),
        ({"settings": {"smoke": {"arms": 3}}}, "settings.smoke lacks seeds, task, recipes"),
    ],
)
def test_a_damaged_file_says_what_is_wrong(change: dict, words: str, tmp_path: Path) -> None:
    data = experiment_to_dict(EXPERIMENTS["demo"]) | change
    (tmp_path / "experiment.json").write_text(json.dumps(data))
    with pytest.raises(UserError, match=f"experiment.json holds no experiment: .*{words}"):
        load(tmp_path / "experiment.json")


def test_fewer_arms_keep_what_is_expected_of_them_alone() -> None:
    whole = EXPERIMENTS["demo"]
    some = narrowed(whole, "smoke", ["original", "lean"])
    assert [pair.name for pair in some.comparisons] == ["lean against original"] * 2
    assert narrowed(whole, "smoke", [arm.name for arm in whole.setting("smoke").arms]) == whole
    with pytest.raises(UserError, match="no arm 'leen' at scale smoke; did you mean lean"):
        narrowed(whole, "smoke", ["leen"])


def test_without_the_arm_that_has_to_lose_no_claim_is_decided() -> None:
    some = narrowed(EXPERIMENTS["gpt_controls"], "small", ["L12_h8", "L6_h16"])
    (pair,) = some.comparisons
    assert (pair.controls, pair.claim, pair.primary) == ((), "", False)
    assert "L6_h8 beside L12_h8" in some.remarks[0]
    assert some.trends == ()
