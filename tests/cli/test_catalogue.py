"""What can be named is listed, and every listed name works; spellings of other tools work too."""

from __future__ import annotations

import json
from typing import Any

import pytest

from manyheads.cli import main
from manyheads.experiments.recipes import NAMED
from manyheads.experiments.registry import EXPERIMENTS, get
from manyheads.interop.resolve import resolve
from manyheads.interop.train_task import named_task
from manyheads.spec.datasets import CORPUS_VOCAB, IMAGE_SETS, check_corpus, image_set
from manyheads.spec.errors import UserError
from manyheads.spec.task_kinds import TASKS

KINDS = ("tasks", "recipes", "datasets", "experiments")


def say(capsys: pytest.CaptureFixture[str], *args: str, code: int = 0) -> str:
    """What a command prints."""
    with pytest.raises(SystemExit) as left:
        main(list(args))
    told = capsys.readouterr()
    assert (left.value.code or 0) == code, told.err
    return told.err if code else told.out


def listed(capsys: pytest.CaptureFixture[str], kind: str) -> dict[str, dict[str, Any]]:
    """The rows that `manyheads KIND --json` prints, by name."""
    return {row["name"]: row for row in json.loads(say(capsys, kind, "--json"))}


@pytest.mark.parametrize("kind", KINDS)
def test_each_name_has_a_line_about_it(
    kind: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    rows = listed(capsys, kind)
    lines = [line for line in say(capsys, kind).splitlines() if not line.startswith("A wider terminal")]
    assert [line.split()[0] for line in lines if line[:1].strip()][1:] == list(rows)
    assert all(row["note"] for row in rows.values())
    assert max(map(len, lines)) <= 80
    assert not any("…" in line for line in lines)


def test_every_listed_name_works(capsys: pytest.CaptureFixture[str]) -> None:
    assert [named_task(name)["is"] for name in listed(capsys, "tasks")] == list(TASKS)
    assert list(listed(capsys, "recipes")) == list(NAMED)
    experiments = listed(capsys, "experiments")
    assert list(experiments) == list(EXPERIMENTS)
    assert all(list(get(name).settings) == row["scales"] for name, row in experiments.items())
    datasets = listed(capsys, "datasets")
    assert {*IMAGE_SETS, *CORPUS_VOCAB} <= set(datasets)
    for name, row in datasets.items():
        assert image_set(name) if row["task"] == "images" else check_corpus(name)
    assert "200 classes, colour images of 64 px" in datasets["tiny_imagenet"]["note"]


def test_familiar_options_of_train_work(capsys: pytest.CaptureFixture[str]) -> None:
    usual = ("train", "demo:lean", "--set", "task.limit=64", "--set", "task.test_limit=64", "--dry-run")
    ours = say(capsys, *usual, "--basis", "epochs=2", "--batch", "16", "--lr", "0.01")
    assert "steps            8\n" in ours
    assert say(capsys, *usual, "--epochs", "2", "--batch-size", "16", "--learning-rate", "0.01") == ours
    assert "are 2 budgets" in say(capsys, *usual, "--epochs", "2", "--steps", "3", code=2)


def test_familiar_options_of_shape_work(capsys: pytest.CaptureFixture[str]) -> None:
    ours = say(capsys, "shape", "vit_b", "--depth", "7", "--heads", "16")
    assert say(capsys, "shape", "vit_b", "--num-layers", "7", "--num-heads", "16") == ours


@pytest.mark.parametrize(
    "name", ["vit_base_patch16_224", "deit_small_patch16_224", "davit_tiny", "xcit_small_12_p16_224"]
)
def test_a_bare_timm_name_stands_for_the_timm_model(name: str) -> None:
    pytest.importorskip("timm", reason="in the vision extra")
    assert resolve(name) == resolve(f"timm:{name}")
    with pytest.raises(UserError, match=f"did you mean .*{name}"):
        resolve(f"{name}_x")
