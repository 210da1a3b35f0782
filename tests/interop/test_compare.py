"""`manyheads compare` from the command to the verdict; what is expected is written down before the runs and kept."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

import manyheads
from manyheads.arch.families import gpt2, vit
from manyheads.arch.redesign import redesign
from manyheads.cli import main
from manyheads.interop.compare import by_name
from manyheads.interop.compared_models import arm_names, kept_apart
from manyheads.runs import Run, find
from manyheads.spec.errors import UserError
from manyheads.spec.experiment_file import load
from manyheads.spec.long_range import ListOps
from manyheads.spec.points import NearestNeighbor
from manyheads.spec.serialise import save
from manyheads.tasks import Images

ORIGINAL = vit(16, 4, 2, 8, 32, image=28, patch=14, channels=1, classes=10)
LEAN = redesign(ORIGINAL, depth=2, heads=4)
SMALL = ["--steps", "3", "--batch", "4", "--set", "task.limit=40", "--set", "task.test_limit=20"]
HERE = ["--workers", "0", "--device", "cpu", "--quiet"]
OPTIONS = {"steps": 3, "batch": 4, "settings": ("task.limit=40", "task.test_limit=20"), "device": "cpu"}


@pytest.fixture(autouse=True)
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with two saved models."""
    monkeypatch.chdir(tmp_path)
    save(ORIGINAL, "original.json")
    save(LEAN, "lean.json")
    return tmp_path


def call(capsys: pytest.CaptureFixture[str], *args: str) -> tuple[int, str]:
    """The exit code of a command, and everything that it says."""
    with pytest.raises(SystemExit) as left:
        main([*args])
    told = capsys.readouterr()
    return int(left.value.code or 0), told.out + told.err


def compared(capsys: pytest.CaptureFixture[str], *args: str) -> str:
    code, said = call(capsys, "compare", "original.json", "lean.json", *SMALL, *HERE, *args)
    assert code == 0, said
    return said


def test_two_models_are_trained_judged_and_put_on_a_page(capsys: pytest.CaptureFixture[str], models: Path) -> None:
    said = compared(capsys, "--no-loss", "0.5%", "--seeds", "0,1")
    verdict = re.search(r"^verdict: lean against original: top1 .*2 seeds\)\. [A-Z].*$", said, flags=re.MULTILINE)
    assert verdict
    folder = models / "runs" / "original_vs_lean"
    assert {run.state for run in find(folder)} == {"done"}
    assert len(find(folder)) == 4
    stored = load(folder / "original_vs_lean-own" / "experiment.json")
    (pair,) = stored.comparisons
    assert (pair.arm, pair.against, pair.expect, pair.margin) == ("lean", "original", "no_loss", 0.005)
    page = (folder / "report.html").read_text()
    assert "Is lean worse than original by more than 0.005, or not?" in page
    assert verdict[0] in compared(capsys, "--no-loss", "0.5%", "--seeds", "0,1")


def test_report_reads_what_was_expected(capsys: pytest.CaptureFixture[str], models: Path) -> None:
    compared(capsys, "--better", "0", "--seeds", "0")
    code, said = call(capsys, "report", "runs")
    assert code == 0
    assert "lean against original" in said
    assert "Is lean better than original?" in (models / "report.html").read_text()


def test_seeds_are_added_and_expectations_are_not_changed(capsys: pytest.CaptureFixture[str], models: Path) -> None:
    compared(capsys, "--better", "0", "--seeds", "0")
    compared(capsys, "--better", "0", "--seeds", "1")
    place = models / "runs" / "original_vs_lean" / "original_vs_lean-own"
    assert load(place / "experiment.json").setting("own").seeds == (0, 1)
    before = (place / "experiment.json").read_bytes()
    command = ["compare", "original.json", "lean.json", *SMALL, *HERE, "--seeds", "0"]
    code, said = call(capsys, *command, "--no-loss", "1%")
    assert (code, "Expectations are fixed before the runs" in said) == (2, True)
    code, said = call(capsys, *command, "--better", "0", "--lr", "0.1")
    assert (code, "has runs of another recipe" in said) == (2, True)
    assert (place / "experiment.json").read_bytes() == before


def test_controls_take_the_redesign_apart(capsys: pytest.CaptureFixture[str], models: Path) -> None:
    said = compared(capsys, "--controls", "--equal", "1%", "--seeds", "0", "--dry-run")
    assert "depth_only" in said
    assert not (models / "runs").exists()
    said = compared(capsys, "--controls", "--equal", "1%", "--seeds", "0", "--steps", "1")
    stored = load(models / "runs/original_vs_lean/original_vs_lean-own/experiment.json")
    names = [arm.name for arm in stored.setting("own").arms]
    assert names[:3] == ["original", "lean", "depth_only"]
    assert {"heads_only", "mlp_matched"} <= set(names)
    assert stored.comparisons[0].controls[0].arm == "depth_only"
    assert {pair.against for pair in stored.comparisons} == set(names) - {"lean"}


def test_each_model_has_its_own_rate_chosen_on_samples_that_are_not_reported(
    capsys: pytest.CaptureFixture[str], models: Path
) -> None:
    compared(capsys, "--rates", "0.5,1,2", "--seeds", "0", "--lr", "1e-3")
    folder = models / "runs" / "original_vs_lean"
    tried = [run.spec for run in find(folder / "original_vs_lean_rates-own")]
    assert sorted({run.recipe.lr for run in tried if run}) == [5e-4, 1e-3, 2e-3]
    assert {run.seed for run in tried if run} == {1000}
    final = {run.label["arm"]: run for found in find(folder / "original_vs_lean-own") if (run := found.spec)}
    assert final.keys() == {"original", "lean"}
    for arm, run in final.items():
        assert run.task.validation == 0.1  # type: ignore[attr-defined]  # a task on images
        scores = {}
        for factor in ("0.5", "1", "2"):
            result = Run.open(folder / f"original_vs_lean_rates-own/{arm}_x{factor}-s1000").result or {}
            scores[float(factor) * 1e-3] = result["score"]["valid_top1"]
        assert scores[run.recipe.lr] == max(scores.values())
    stored = load(folder / "original_vs_lean-own" / "experiment.json")
    at_edge = [arm for arm, run in final.items() if run.recipe.lr != 1e-3]
    assert any("edge" in remark for remark in stored.remarks) == bool(at_edge)
    _, said = call(capsys, "report", "runs")
    assert "Each arm has its own learning rate" in " ".join(said.split())


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--no-loss", "0.5"], "--no-loss 0.5 is 50 points of accuracy.*write --no-loss 0.5%, or 0.005"),
        (["--no-loss", "half"], "--no-loss half: write a number"),
        (["--no-loss", "0.01", "--equal", "0.01"], "are different tests"),
        (["--against", "leen"], "--against leen: no arm has this name; did you mean lean"),
        (["--rates", "1"], "write two factors or more"),
        (["--rates", "1,2", "--seeds", "1000"], "seed 1000 chooses the learning rates"),
        (["--seeds", "a"], "--seeds a: write numbers with commas"),
        (["--data", "cifar10"], "CIFAR-10 is not at"),
        (["--data", "photos"], "photos"),
    ],
)
def test_a_mistake_is_told_before_anything_is_written(
    options: list[str], words: str, capsys: pytest.CaptureFixture[str], models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MANYHEADS_DATA", str(models / "nothing"))
    code, said = call(capsys, "compare", "original.json", "lean.json", *SMALL, *HERE, *options)
    assert code == 2
    assert re.search(words, said), said
    assert not (models / "runs").exists()


def test_one_model_alone_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    code, said = call(capsys, "compare", "original.json", *SMALL, *HERE)
    assert (code, "compared with nothing" in said) == (2, True)


def test_all_models_do_the_task_of_the_one_they_are_compared_with(models: Path) -> None:
    other = vit(16, 2, 2, 8, 32, image=56, patch=28, channels=1, classes=3)
    made = manyheads.compare({"small": ORIGINAL, "large": other}, seeds=(0,), out=models / "here", **OPTIONS)
    assert made.experiment.setting("own").arms[1].arch.head.classes == 10  # type: ignore[union-attr]
    assert len(made.verdicts) == 1
    assert made.page == models / "here" / "report.html"
    language = gpt2(16, 2, 2, 8, 32, vocab=2048, tokens=16, positions=16)
    with pytest.raises(UserError, match="vit"):
        manyheads.compare(language, ORIGINAL, seeds=(0,), out=models / "there", **OPTIONS | {"settings": ()})


def test_arms_have_the_names_of_their_models() -> None:
    assert list(
        arm_names(["vit_b", "out/lean.json", "lean.json", "timm:vit_tiny_patch16_224", "hf:models/my gpt"])
    ) == ["vit_b", "lean", "lean_2", "vit_tiny_patch16_224", "my_gpt"]
    assert list(arm_names(["fig3:L8_h16", "runs/a/arch.json"])) == ["L8_h16", "a"]
    assert list(by_name([ORIGINAL, "vit_b", LEAN])) == ["original", "vit_b", "model_3"]


def test_the_record_decides_the_runs(models: Path) -> None:
    made = manyheads.compare("original.json", LEAN, seeds=(0,), out=models / "here", **OPTIONS)
    runs = {run.path.name: run.spec for run in find(models / "here")}
    assert runs.keys() == {"original-s0", "model_2-s0"}
    assert replace(made.experiment, run="") == replace(
        load(models / "here/original_vs_model_2-own/experiment.json"), run=""
    )


def test_python_trains_and_reports_like_the_commands(models: Path) -> None:
    run = manyheads.train("lean.json", out=models / "one", **OPTIONS)
    assert run.state == "done"
    assert run.result is not None
    assert manyheads.train(LEAN, out=models / "one", **OPTIONS).result == run.result
    manyheads.train(ORIGINAL, out=models / "two", **OPTIONS)
    reported = manyheads.report(models, models / "page.html", no_loss=0.01, against="two")
    (section,) = reported.sections
    assert [arm.name for arm in section.arms] == ["one", "two"]
    assert "one against two" in (models / "page.html").read_text()


def test_packages_that_are_called_stay_packages() -> None:
    from manyheads.report.page import write
    from manyheads.train import Recipe

    assert callable(manyheads.train)
    assert callable(manyheads.report)
    assert Recipe().batch == 128
    assert write.__module__ == "manyheads.report.page"


def test_a_task_that_reports_its_validation_samples_is_compared_on_its_test_samples() -> None:
    assert kept_apart(ListOps()) == (ListOps(), "test_top1")
    assert kept_apart(Images()) == (Images(validation=0.1), "")
    assert kept_apart(Images(validation=0.3)) == (Images(validation=0.3), "")
    with pytest.raises(UserError, match="keeps no validation samples apart from training"):
        kept_apart(NearestNeighbor())


def test_the_same_model_twice_is_refused(capsys: pytest.CaptureFixture[str], models: Path) -> None:
    save(LEAN, "again.json")
    code, said = call(capsys, "compare", "lean.json", "again.json", *SMALL, *HERE)
    assert (code, "lean and again are the same model on this data" in said) == (2, True)
    assert not (models / "runs").exists()


@pytest.mark.parametrize("second", [{"original": LEAN}, "original.json"])
def test_two_models_of_one_name_are_refused_and_none_is_lost(second: object) -> None:
    with pytest.raises(UserError, match="two of the models are called original; give one of them another name"):
        by_name([ORIGINAL, second, "vit_b"])
