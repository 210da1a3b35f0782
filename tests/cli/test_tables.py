"""Tables keep the name and the headline number at any width, and say what a wider terminal shows."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from manyheads.arch import zoo
from manyheads.arch.count import params
from manyheads.arch.families import vit
from manyheads.cli import main
from manyheads.cli.numbers import millions
from manyheads.cli.tables import Column, fitting, show
from manyheads.experiments.demo import DEMO
from manyheads.spec import serialise as record
from tests.report.made import quick

WIDTHS = (60, 80, 100, 120, 200)


def say(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, width: int, *args: str) -> list[str]:
    """The lines that a command prints on a terminal of `width` columns."""
    monkeypatch.setenv("COLUMNS", str(width))
    with pytest.raises(SystemExit) as left:
        main(list(args))
    told = capsys.readouterr()
    assert not left.value.code, told.err
    return told.out.splitlines()


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six experiments of finished runs with made-up scores, in long folders."""
    root = tmp_path_factory.mktemp("tables") / "runs"
    for i in range(6):
        one = replace(DEMO, name=f"an_experiment_of_a_long_name_{i}")
        quick(root / "sweeps_of_this_week", one, "smoke", lambda spec: 0.8 + 0.01 * spec.seed)
    return root


@pytest.mark.parametrize(
    ("width", "widths"),
    [
        (36, {0: 10, 1: 8, 2: 7, 3: 5}),
        (35, {0: 10, 1: 8, 3: 5}),
        (27, {0: 10, 1: 8, 3: 5}),
        (26, {0: 10, 1: 8}),
        (20, {0: 10, 1: 8}),
        (15, {0: 5, 1: 8}),  # the name is folded, and the score whole
    ],
)
def test_columns_leave_in_the_stated_order(width: int, widths: dict[int, int]) -> None:
    columns = [Column("name"), Column("score"), Column("seconds", leave=2), Column("steps", leave=1)]
    assert fitting(columns, [["a" * 10, "top1 0.9", "1", "100"]], width) == widths


@pytest.mark.parametrize("width", [12, 20, 30, 200])
def test_a_name_is_folded_and_never_cut(width: int) -> None:
    console = Console(file=io.StringIO(), width=width)
    show(console, [Column("run"), Column("result"), Column("x", leave=1)], [["N" * 25, "0.912", "y"]])
    printed = console.file.getvalue()  # type: ignore[attr-defined]  # a StringIO
    assert printed.count("N") == 25
    assert "0.912" in printed
    assert "…" not in printed


@pytest.mark.parametrize("width", WIDTHS)
def test_runs_keep_name_and_result(
    runs: Path, width: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = say(capsys, monkeypatch, width, "runs", str(runs))
    wide = min(lines[0].index(title) for title in ("state", "result") if title in lines[0])
    names = "".join(line[:wide].strip() for line in lines)
    rows = json.loads("".join(say(capsys, monkeypatch, width, "runs", str(runs), "--json")))
    assert sum("top1 0.8" in line for line in lines) == len(rows)
    assert all(row["name"] in names for row in rows)
    assert max(map(len, lines)) <= width


def test_a_long_arm_cuts_no_result(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    setting = DEMO.settings["smoke"]
    arms = tuple(replace(arm, name=f"{arm.name}_with_half_the_layers_and_twice_the_heads") for arm in setting.arms)
    one = replace(DEMO, settings={"smoke": replace(setting, arms=arms)}, comparisons=(), printed={})
    quick(tmp_path, one, "smoke", lambda spec: 0.8125)
    lines = say(capsys, monkeypatch, 80, "runs", str(tmp_path))
    assert sum("top1 0.8125" in line for line in lines) == len(list(tmp_path.rglob("spec.json")))
    assert not any("…" in line for line in lines)


@pytest.mark.parametrize("width", WIDTHS)
def test_the_zoo_keeps_name_and_parameters(
    width: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = say(capsys, monkeypatch, width, "zoo")
    for name in zoo.NAMES:
        (line,) = [line for line in lines if line.startswith(f"{name} ")]
        assert millions(params(zoo.get(name)).total) in line
    assert max(map(len, lines)) <= width


@pytest.mark.parametrize("width", WIDTHS)
def test_rank_keeps_site_and_coverage(
    width: int, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    record.save(vit(32, 2, 2, 16, 64, image=32, patch=8, classes=10), tmp_path / "small.json")
    asked = ("rank", str(tmp_path / "small.json"), "--head-dim", "4,8,16,32", "--batch", "4")
    lines = say(capsys, monkeypatch, width, *asked)
    (layer, *_) = json.loads("".join(say(capsys, monkeypatch, width, *asked, "--json")))["layers"]
    site = layer["name"].removesuffix(".op").removesuffix(".attention")
    (line,) = [line for line in lines if line.startswith(f"{site} ")]
    assert f"{layer['shares'][0]['coverage']:.2f}" in line
    assert max(map(len, lines)) <= width


@pytest.mark.parametrize("width", WIDTHS)
def test_a_report_keeps_arm_and_score(
    runs: Path, width: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    one = "an_experiment_of_a_long_name_1"
    lines = say(capsys, monkeypatch, width, "report", str(runs), "--out", str(tmp_path / "p.html"), "--only", one)
    arms = [line for line in lines if line.startswith(("original ", "lean ", "split ", "depth_only "))]
    assert len(arms) >= 4
    assert all("8" in line.split()[1] for line in arms[:4])
    assert not any("an_experiment_of_a_long_name_2" in line for line in lines)


def test_a_report_of_many_experiments_is_a_line_each(
    runs: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    lines = say(capsys, monkeypatch, 80, "report", str(runs), "--out", str(tmp_path / "p.html"))
    named = [line for line in lines if line.startswith("an_experiment_of_a_long_name_")]
    assert len(named) == 6
    assert len(lines) < 6 + 8
    count = len(list(runs.rglob("spec.json"))) // 6
    assert all(f"{count}/{count}" in line for line in named)
    with pytest.raises(SystemExit):
        main(["report", str(runs), "--out", str(tmp_path / "p.html"), "--only", "an_experiment_of_a_long_nam_1"])
    assert "did you mean an_experiment_of_a_long_name" in capsys.readouterr().err
