"""`manyheads data` makes a set that the task of the same settings then finds, and shows it to people."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import typer
from typer.testing import CliRunner, Result

from manyheads.cli.data import data
from manyheads.data.lra import generated_sets
from manyheads.spec.errors import UserError
from manyheads.spec.generated import Grammar
from manyheads.spec.long_range import ListOps
from manyheads.tasks import open_task

app = typer.Typer()
app.command()(data)


def run(*words: str) -> Result:
    """The command with these words."""
    return CliRunner().invoke(app, list(words), catch_exceptions=False)


def test_a_task_finds_the_set_that_the_command_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = ("--set", "depth=3", "--set", "shortest=10", "--set", "longest=40")
    done = run(
        "listops", "--out", str(tmp_path), "--train", "30", "--valid", "10", "--test", "0", "--show", "2", *settings
    )
    assert done.exit_code == 0
    assert "train        30 samples" in done.stdout
    assert done.stdout.count("[") > 3
    monkeypatch.setattr(generated_sets, "sample", lambda *_: pytest.fail("made again"))
    task = ListOps(grammar=Grammar(depth=3, shortest=10, longest=40), tokens=40, train=30, valid=10, test=0)
    work = open_task(task, torch.device("cpu"), 0, 4, root=tmp_path)
    assert work.samples == 30
    assert list(work.held) == ["valid"]


def test_pictures_come_on_a_sheet(tmp_path: Path) -> None:
    sheet = tmp_path / "sheet.png"
    few = ("--train", "24", "--valid", "2", "--test", "2")
    done = run("pathfinder", "--out", str(tmp_path), *few, "--picture", str(sheet))
    assert "labels (%) 50.0 50.0" in done.stdout
    assert sheet.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("kind", ["text", "retrieval"])
def test_texts_can_be_read(kind: str, tmp_path: Path) -> None:
    done = run(
        kind,
        "--out",
        str(tmp_path),
        "--train",
        "4",
        "--valid",
        "2",
        "--test",
        "2",
        "--show",
        "1",
        "--set",
        "shortest=20",
        "--set",
        "longest=30",
    )
    assert done.exit_code == 0
    assert (" | " in done.stdout) == (kind == "retrieval")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("listop",), "did you mean listops"),
        (("listops", "--picture", "a.png"), "listops has no pictures"),
        (("listops", "--set", "deth=3"), "did you mean depth"),
        (("listops", "--set", "depth=deep"), "write a number"),
        (("listops", "--set", "depth=1"), "Grammar.depth is 1"),
    ],
)
def test_a_mistake_is_one_sentence(words: tuple[str, ...], told: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=told):
        run(*words, "--out", str(tmp_path))
