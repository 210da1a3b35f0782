"""The packs of runs are the runs of their experiments, and the pages say what they say."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from manyheads.experiments.registry import EXPERIMENTS
from manyheads.report.claims_table import joint
from manyheads.report.read_runs import Section, read_runs
from manyheads.report.section_verdicts import verdicts
from manyheads.spec.experiment import specs

ROOT = Path(__file__).resolve().parents[1]
PACKS = {"rank_n": ("rank_n_small_h200", 108), "table2": ("table2_small_h200", 3)}


def section(name: str) -> Section:
    """The section of a pack."""
    reported = read_runs(ROOT / "evidence" / f"{PACKS[name][0]}.jsonl.xz", EXPERIMENTS)
    assert reported.problems == []
    assert len(reported.sections) == 1
    return reported.sections[0]


@pytest.mark.parametrize("name", PACKS)
def test_a_pack_has_finished_runs_of_its_experiment(name: str) -> None:
    planned = {spec.id for spec in specs(EXPERIMENTS[name], "small")}
    runs = [run for run in section(name).runs if run.state == "done"]
    assert len(runs) == PACKS[name][1]
    assert {run.folder.spec.id for run in runs if run.folder.spec} <= planned
    assert {run.measured.machine["device"] for run in runs} == {"NVIDIA H200"}


def test_the_page_on_rank_says_what_the_runs_over_lengths_say() -> None:
    found = importlib.util.spec_from_file_location("make_rank", ROOT / "docs" / "make_rank.py")
    assert found is not None
    assert found.loader is not None
    make = importlib.util.module_from_spec(found)
    found.loader.exec_module(make)
    page = (ROOT / "docs" / "rank.md").read_text()
    table = make.scored("loss", "skill", "accuracy")(make.record(make.PACK, "small")["rank_n"])
    assert table in page
    judged = verdicts(section("rank_n"))
    for claim in ("A5", "A6"):
        primary = [one for one in judged if one.pair.claim == claim and one.pair.primary]
        word = joint([one.verdict.word for one in primary])
        effect = primary[0].effect
        assert effect is not None
        row = f"{effect.difference:+.3f} ({effect.low:+.3f} to {effect.high:+.3f}) | {word} |"
        assert row in page


def test_the_folder_of_evidence_is_a_page_from_a_fresh_clone() -> None:
    reported = read_runs(ROOT / "evidence", EXPERIMENTS)
    assert reported.problems == []
    assert {section.name for section in reported.sections} >= set(PACKS)
    finished = sum(run.state == "done" for section in reported.sections for run in section.runs)
    assert finished >= sum(runs for _, runs in PACKS.values())
