"""`manyheads run` on an experiment of one's own, on a changed copy, and on some arms: kept apart, and said on the page."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from manyheads.cli import main
from manyheads.experiments import registry
from manyheads.experiments.measured_theory import THEOREM
from manyheads.report.page import write
from manyheads.runs import find
from manyheads.spec.comparison import Comparison, Loses
from manyheads.spec.experiment_file import load
from tests.sweep.tiny import tiny

MINE = """
from dataclasses import replace
from manyheads.experiments.demo import DEMO
from manyheads.spec.experiment import Comparison
from tests.sweep.tiny import tiny

TOY = tiny(2, probe_every=0)
MINE = replace(TOY, name="mine", run="", settings={"own": TOY.setting("smoke")},
               comparisons=(Comparison("lean", "original", "better"),))
"""
HERE = ["--executor", "process", "--device", "cpu", "--quiet"]


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder, and an experiment `toy` of the catalogue with three arms."""
    toy = tiny(2, arms=3, probe_every=0)
    loses = (Loses("depth_only", "original"),)
    pairs = (
        Comparison("lean", "original", "no_loss", 0.01, "L9", controls=loses),
        Comparison("lean", "depth_only", "better", claim="M1"),
    )
    toy = replace(toy, name="toy", title="A toy", run="", comparisons=pairs)
    monkeypatch.setattr(registry, "EXPERIMENTS", {"toy": toy})
    monkeypatch.setitem(write.__kwdefaults__, "experiments", {"toy": toy})
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(
        MINE.replace("TOY = ", "_TOY = ").replace("(TOY", "(_TOY").replace("TOY.s", "_TOY.s")
    )
    return tmp_path


def call(capsys: pytest.CaptureFixture[str], *args: str) -> tuple[int, str]:
    """The exit code of a command, and what it says on one line."""
    with pytest.raises(SystemExit) as left:
        main([*args])
    told = capsys.readouterr()
    return int(left.value.code or 0), " ".join((told.out + told.err).split())


def ran(capsys: pytest.CaptureFixture[str], *args: str) -> str:
    code, said = call(capsys, "run", *args, *HERE)
    assert code == 0, said
    return said


def page(capsys: pytest.CaptureFixture[str], place: Path) -> str:
    """The page about all runs, and what was printed with it."""
    code, said = call(capsys, "report", "runs")
    assert code == 0, said
    return said + (place / "report.html").read_text()


def test_an_experiment_of_ones_own_runs_and_has_a_page(capsys: pytest.CaptureFixture[str], place: Path) -> None:
    ran(capsys, "mine.py")
    assert {run.path.name for run in find(place / "runs" / "mine-own")} == {"original-s0", "lean-s0"}
    assert load(place / "runs/mine-own/experiment.json").comparisons[0].expect == "better"
    assert "lean against original" in page(capsys, place)
    assert "2 finished before" in ran(capsys, "mine.py")
    assert "2 finished before" in ran(capsys, "runs/mine-own")  # by the record that it left


def test_a_function_may_make_the_experiment(capsys: pytest.CaptureFixture[str], place: Path) -> None:
    text = (place / "mine.py").read_text().replace("MINE = replace(", "def experiment():\n    return replace(")
    (place / "made.py").write_text(text)
    code, said = call(capsys, "run", "made.py", *HERE, "--dry-run")
    assert (code, "2 runs, 0 done" in said) == (0, True)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "holds no experiment; write MINE = Experiment"),
        ("from manyheads.experiments.demo import DEMO", "holds no experiment"),
        (MINE + "OTHER = replace(MINE, name='other')", r"holds 3 experiments; write bad\.py:TOY or :MINE or :OTHER"),
        ("1 / 0", r"bad\.py, line 1: ZeroDivisionError"),
        ("def", r"bad\.py, line 1: SyntaxError"),
        (MINE.replace('name="mine"', 'name="toy"').replace("TOY", "_TOY"), "one of manyheads' own"),
        ("def experiment(): return 3", r"experiment\(\) of bad\.py returns a int"),
    ],
)
def test_a_file_without_one_experiment_says_what_is_wanted(
    text: str, words: str, capsys: pytest.CaptureFixture[str], place: Path
) -> None:
    (place / "bad.py").write_text(text)
    code, said = call(capsys, "run", "bad.py", *HERE)
    assert code == 2
    assert re.search(words, said), said
    assert not (place / "runs").exists()


def test_one_of_several_is_named(capsys: pytest.CaptureFixture[str], place: Path) -> None:
    (place / "many.py").write_text(MINE + "OTHER = replace(MINE, name='other')")
    assert call(capsys, "run", "many.py:OTHER", *HERE, "--dry-run")[0] == 0
    code, said = call(capsys, "run", "many.py:OTHR", *HERE)
    assert (code, "did you mean OTHER" in said) == (2, True)
    code, said = call(capsys, "run", "none.py", *HERE)
    assert (code, "none.py does not exist" in said) == (2, True)


def test_a_changed_copy_is_kept_apart_and_its_page_says_so(capsys: pytest.CaptureFixture[str], place: Path) -> None:
    ran(capsys, "toy")
    ran(capsys, "toy", "--steps", "3", "--set", "recipe.lr=3e-4", "--set", "task.limit=40")
    folders = {folder.name for folder in (place / "runs").iterdir() if folder.is_dir()}
    (other,) = folders - {"toy-smoke"}
    assert re.fullmatch(r"toy_[0-9a-f]{6}-smoke", other)
    changed = [run.spec for run in find(place / "runs" / other)]
    assert {(run.recipe.basis.amount, run.recipe.lr, run.task.limit) for run in changed if run} == {(3.0, 3e-4, 40)}  # type: ignore[attr-defined]
    told = page(capsys, place)
    assert "This is toy, changed: steps 3; recipe.lr=3e-4; task.limit=40. It decides no claim of the papers." in told
    stored = load(place / "runs" / other / "experiment.json")
    assert stored.claims == ()
    assert stored.run == "manyheads run toy --scale smoke --steps 3 --set recipe.lr=3e-4 --set task.limit=40"
    assert {run.spec.recipe.basis.amount for run in find(place / "runs" / "toy-smoke") if run.spec} == {2.0}


def test_a_basis_is_chosen_or_changed(capsys: pytest.CaptureFixture[str], place: Path) -> None:
    assert "3 done" in ran(capsys, "toy", "--basis", "steps")
    assert [folder.name for folder in (place / "runs").iterdir()] == ["toy-smoke"]
    code, said = call(capsys, "run", "toy", *HERE, "--basis", "stepz")
    assert (code, "no basis 'stepz'; did you mean steps" in said) == (2, True)
    ran(capsys, "toy", "--basis", "samples=8", "--arms", "lean")
    assert len(list((place / "runs").iterdir())) == 2


def test_an_arm_keeps_what_it_states_itself(capsys: pytest.CaptureFixture[str], place: Path) -> None:
    toy = registry.EXPERIMENTS["toy"]
    setting = toy.setting("smoke")
    arms = (replace(setting.arms[0], recipe={"lr": 0.25}), *setting.arms[1:])
    registry.EXPERIMENTS["toy"] = replace(toy, settings={"smoke": replace(setting, arms=arms)})  # type: ignore[index]
    ran(capsys, "toy", "--lr", "0.5", "--steps", "1")
    rates = {run.path.name: run.spec.recipe.lr for run in find(place / "runs") if run.spec}
    assert rates == {"original-s0": 0.25, "lean-s0": 0.5, "depth_only-s0": 0.5}


def test_some_arms_drop_what_is_expected_of_the_others(capsys: pytest.CaptureFixture[str], place: Path) -> None:
    ran(capsys, "toy", "--arms", "lean,original")
    told = page(capsys, place)
    assert "lean against original" in told
    assert "lean against depth_only" not in told
    assert "No finished run" not in told
    assert "no claim is decided" in told
    ran(capsys, "toy", "--arms", "depth_only")  # now all arms are here, and the experiment is whole
    assert not (place / "runs/toy-smoke/experiment.json").exists()
    assert "lean against depth_only" in page(capsys, place)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--data", "cifar10"], "CIFAR-10 is not at"),
        (["--data", "fashion_mnist"], "changes nothing"),
        (["--data", "cifar100"], "no image dataset|does not exist"),
        (["--set", "recipe.lrr=1"], "no field 'lrr'"),
        (["--steps", "3", "--epochs", "1"], "are 2 budgets"),
    ],
)
def test_a_change_that_cannot_be_is_refused(
    options: list[str], words: str, capsys: pytest.CaptureFixture[str], place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MANYHEADS_DATA", str(place / "nothing"))
    code, said = call(capsys, "run", "toy", *HERE, *options)
    assert code == 2
    assert re.search(words, said), said
    assert not (place / "runs").exists()


def test_a_damaged_record_beside_the_runs_is_listed(capsys: pytest.CaptureFixture[str], place: Path) -> None:
    ran(capsys, "mine.py")
    file = place / "runs/mine-own/experiment.json"
    file.write_text(json.dumps({"schema": 1}))
    assert "it has no `settings`" in page(capsys, place)


def test_a_pack_keeps_what_was_expected(capsys: pytest.CaptureFixture[str], place: Path) -> None:
    ran(capsys, "mine.py")
    folders = page(capsys, place)
    assert call(capsys, "pack", "runs", "--out", "mine.jsonl.xz")[0] == 0
    code, said = call(capsys, "report", "mine.jsonl.xz")
    assert code == 0
    verdict = next(line for line in folders.split("- ") if line.startswith("lean against original"))
    assert verdict.split(" page:")[0] in said


def test_what_trains_nothing_cannot_be_trained_otherwise(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "EXPERIMENTS", {"theorem": THEOREM})
    code, said = call(capsys, "run", "theorem", "--steps", "3", *HERE)
    assert (code, "theorem measures and trains nothing, and --steps 3 is about training" in said) == (2, True)
