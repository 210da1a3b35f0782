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
GPU, CPU = "NVIDIA H200", "x86_64"
PACKS = {  # experiment -> file, scale, runs, device
    "rank_n": ("rank_n_small_h200", "small", 108, GPU),
    "table2": ("table2_small_h200", "small", 3, GPU),
    "theorem": ("theorem_small_cpu", "small", 81, CPU),
    "constructions": ("constructions_small_cpu", "small", 27, CPU),
    "rank_vote": ("rank_vote_laptop_cpu", "laptop", 40, CPU),
}


def section(name: str) -> Section:
    """The section of a pack."""
    reported = read_runs(ROOT / "evidence" / f"{PACKS[name][0]}.jsonl.xz", EXPERIMENTS)
    assert reported.problems == []
    assert len(reported.sections) == 1
    return reported.sections[0]


@pytest.mark.parametrize("name", PACKS)
def test_a_pack_has_finished_runs_of_its_experiment(name: str) -> None:
    _, scale, count, device = PACKS[name]
    planned = {spec.id for spec in specs(EXPERIMENTS[name], scale)}
    runs = [run for run in section(name).runs if run.state == "done"]
    assert len(runs) == count
    assert {run.folder.spec.id for run in runs if run.folder.spec} <= planned
    assert {run.measured.machine["device"] for run in runs} == {device}


def test_the_list_of_evidence_says_what_the_packs_decide() -> None:
    """One full-rank head makes no error at any length (A1), the vote follows its law (A8), Gaussian heads have full rank
    (L3) and tend to kappa 1 (L2); at twice the tokens kappa is not within 5 % of its prediction (L1)."""
    decided = {"constructions": ["A1"], "rank_vote": ["A8"], "theorem": ["L2", "L3"]}
    for name, claims in decided.items():
        judged = verdicts(section(name))
        for claim in claims:
            primary = [one.verdict.word for one in judged if one.pair.claim == claim and one.pair.primary]
            assert primary, (name, claim)
            assert joint(primary) == "holds", (name, claim)
    first = {one.pair.arm: one.verdict.word for one in verdicts(section("theorem")) if one.pair.claim == "L1"}
    assert first["normal_h6"] == "does not hold"
    assert first["normal_h48"] == "holds"


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
    assert finished >= sum(runs for _, _, runs, _ in PACKS.values())
