"""The archives of runs are the runs of their experiments, and the pages say what they say."""

from __future__ import annotations

import importlib.util
import tarfile
from pathlib import Path

import pytest

from manyheads.experiments.registry import EXPERIMENTS
from manyheads.report.claims_table import joint
from manyheads.report.read_runs import Section, read_runs
from manyheads.report.section_verdicts import verdicts
from manyheads.spec.experiment import specs

ROOT = Path(__file__).resolve().parents[1]
ARCHIVES = {"rank_n": ("rank_n_small_h200", 108), "table2": ("table2_small_h200", 3)}


def unpacked(name: str, folder: Path) -> Section:
    """The section of an archive."""
    with tarfile.open(ROOT / "evidence" / "runs" / f"{ARCHIVES[name][0]}.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    reported = read_runs(folder, EXPERIMENTS)
    assert reported.problems == []
    assert len(reported.sections) == 1
    return reported.sections[0]


@pytest.mark.parametrize("name", ARCHIVES)
def test_an_archive_has_finished_runs_of_its_experiment(name: str, tmp_path: Path) -> None:
    section = unpacked(name, tmp_path)
    planned = {spec.id for spec in specs(EXPERIMENTS[name], "small")}
    runs = [run for run in section.runs if run.state == "done"]
    assert len(runs) == ARCHIVES[name][1]
    assert {run.folder.spec.id for run in runs if run.folder.spec} <= planned
    assert {run.measured.machine["device"] for run in runs} == {"NVIDIA H200"}


def test_the_page_on_rank_says_what_the_runs_over_lengths_say(tmp_path: Path) -> None:
    found = importlib.util.spec_from_file_location("make_rank", ROOT / "docs" / "make_rank.py")
    assert found is not None
    assert found.loader is not None
    make = importlib.util.module_from_spec(found)
    found.loader.exec_module(make)
    page = (ROOT / "docs" / "rank.md").read_text()
    table = make.scored("loss", "skill", "accuracy")(make.archived(make.ARCHIVE)["rank_n"])
    assert table in page
    judged = verdicts(unpacked("rank_n", tmp_path))
    for claim in ("A5", "A6"):
        primary = [one for one in judged if one.pair.claim == claim and one.pair.primary]
        word = joint([one.verdict.word for one in primary])
        effect = primary[0].effect
        assert effect is not None
        row = f"{effect.difference:+.3f} ({effect.low:+.3f} to {effect.high:+.3f}) | {word} |"
        assert row in page
