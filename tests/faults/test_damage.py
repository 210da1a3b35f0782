"""Checkpoints that are damaged, cut short, lost or another run's; folders on a full disk; a second process."""

from __future__ import annotations

import json
import os
import re
import resource
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from manyheads.runs import Run
from manyheads.spec.errors import UserError
from manyheads.sweep.jobs import Job, QuietView
from manyheads.sweep.local import run as sweep
from manyheads.train.early_end import Stopped
from manyheads.train.loop import train
from tests.train.tiny import run_here, spawn, spec, steps, traces
from tests.train.workers import Ear, train_alone

MADE = spec(basis=steps(30), checkpoint_every=5, ema=0.9)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """What the run writes when nothing happens."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    run_here(folder, MADE)
    return traces(folder)


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that was stopped at step 16, with checkpoints of steps 15 and 16."""
    folder = tmp_path_factory.mktemp("stopped") / "run"
    with pytest.raises(Stopped):
        train(Run.create(folder, MADE), device="cpu", progress=Ear(16))
    assert sorted(path.name for path in (folder / "checkpoint").iterdir()) == ["step-00000015", "step-00000016"]
    return folder


@pytest.fixture
def folder(stopped: Path, tmp_path: Path) -> Path:
    """A copy of it to damage."""
    return Path(shutil.copytree(stopped, tmp_path / "run"))


def tensors(checkpoint: Path) -> Path:
    """The file of tensors of a checkpoint."""
    return next(checkpoint.glob("*.safetensors"))


def flip(checkpoint: Path) -> None:
    """One bit of a weight, which safetensors would not notice."""
    data = bytearray(tensors(checkpoint).read_bytes())
    data[-100] ^= 1
    tensors(checkpoint).write_bytes(data)


def change(checkpoint: Path, *, keep: bool = False, **fields: Any) -> None:
    """Other values in the note. Unless it is kept, the note's own hash goes, too: earlier versions wrote none."""
    note = json.loads((checkpoint / "note.json").read_text()) | fields
    if not keep:
        note.pop("digest", None)
    (checkpoint / "note.json").write_text(json.dumps(note))


# fmt: off
DAMAGES: dict[str, Callable[[Path], Any]] = {
    "a flipped bit": flip,
    "cut short": lambda path: tensors(path).write_bytes(tensors(path).read_bytes()[:1000]),
    "emptied": lambda path: tensors(path).write_bytes(b""),
    "tensors lost": lambda path: tensors(path).unlink(),
    "a file too many": lambda path: shutil.copy(tensors(path), path / "shard-2.safetensors"),
    "note lost": lambda path: (path / "note.json").unlink(),
    "note cut short": lambda path: (path / "note.json").write_bytes((path / "note.json").read_bytes()[:40]),
    "note of another kind": lambda path: (path / "note.json").write_text("[1, 2]"),
    "note with a wrong value": lambda path: (path / "note.json").write_text(
        (path / "note.json").read_text().replace('"step": ', '"step": "x", "steps": ')),
    "note changed": lambda path: change(path, keep=True, elapsed=10.0),
    "note with a huge number": lambda path: change(path, elapsed=10**400),
    "note with infinity": lambda path: (path / "note.json").write_text(
        re.sub('"elapsed": [^,]*', '"elapsed": 1e999', (path / "note.json").read_text())),
    "note with a time before the start": lambda path: change(path, elapsed=-1.0),
    "note of another step": lambda path: change(path, step=15),
    "note of steps to come": lambda path: change(path, told=17),
    "note of no process": lambda path: change(path, processes=0),
    "note with huge sizes": lambda path: change(path, sizes={"metrics": 10**400, "spectra": 0, "timings": 0}),
    "note without files": lambda path: change(path, files=None),
    "note with a list of files": lambda path: change(path, files=[{}]),
    "a file in its place": lambda path: (shutil.rmtree(path), path.write_text("no folder")),
    "a lost link in its place": lambda path: (shutil.rmtree(path), path.symlink_to("nowhere")),
    "a pipe in the place of the note": lambda path: ((path / "note.json").unlink(), os.mkfifo(path / "note.json")),
    "a pipe in the place of the tensors": lambda path: (file := tensors(path), file.unlink(), os.mkfifo(file)),
    "a later version's": lambda path: (path / "note.json").write_text(
        (path / "note.json").read_text().replace('"schema": 1', '"schema": 99')),
}
# fmt: on


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_newest_checkpoint_falls_back_to_the_one_before(
    damage: str, folder: Path, whole: dict[str, bytes]
) -> None:
    DAMAGES[damage](folder / "checkpoint" / "step-00000016")
    ear = Ear()
    train(Run.open(folder), device="cpu", progress=ear)
    assert "step-00000016 is damaged" in ear.heard[0]
    assert ear.heard[1] == "resuming from step 15"
    assert traces(folder) == whole


@pytest.mark.parametrize("damage", ["a file in its place", "a lost link in its place"])
def test_what_stands_in_the_place_of_a_checkpoint_is_not_counted_as_one(
    damage: str, folder: Path, whole: dict[str, bytes]
) -> None:
    DAMAGES[damage](folder / "checkpoint" / "step-00000016")
    (folder / "checkpoint" / "step-00000017").write_text("no folder")
    with pytest.raises(Stopped):
        train(Run.open(folder), device="cpu", progress=Ear(20))
    assert sorted(path.name for path in (folder / "checkpoint").iterdir()) == ["step-00000015", "step-00000020"]
    train(Run.open(folder), device="cpu", progress="none")
    assert traces(folder) == whole


def test_a_checkpoint_of_an_earlier_version_is_resumed(folder: Path, whole: dict[str, bytes]) -> None:
    change(folder / "checkpoint" / "step-00000016")
    ear = Ear()
    train(Run.open(folder), device="cpu", progress=ear)
    assert ear.heard[0] == "resuming from step 16"
    assert traces(folder) == whole


@pytest.mark.parametrize("look", ["train", "sweep"])
def test_checkpoints_that_a_kill_after_the_result_left_are_deleted_at_the_next_look(
    look: str, stopped: Path, tmp_path: Path
) -> None:
    run_here(tmp_path / "run", MADE)
    shutil.copytree(stopped / "checkpoint", tmp_path / "run" / "checkpoint")
    before = (tmp_path / "run" / "result.json").read_bytes()
    if look == "train":
        train(Run.open(tmp_path / "run"), device="cpu", progress="none")
    else:
        assert [one.fate for one in sweep([Job(tmp_path / "run", MADE)], look=QuietView())] == ["skipped"]
    assert not (tmp_path / "run" / "checkpoint").exists()
    assert (tmp_path / "run" / "result.json").read_bytes() == before


def test_with_all_checkpoints_damaged_it_starts_over_and_says_so(folder: Path, whole: dict[str, bytes]) -> None:
    for path in (folder / "checkpoint").iterdir():
        flip(path)
    ear = Ear()
    train(Run.open(folder), device="cpu", progress=ear)
    assert len([text for text in ear.heard if "damaged" in text]) == 2
    assert traces(folder) == whole


def test_another_runs_checkpoint_is_refused_and_nothing_is_touched(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(Stopped):
        train(Run.create(tmp_path / "other", spec(seed=1)), device="cpu", progress=Ear(12))
    foreign = next((tmp_path / "other" / "checkpoint").glob("step-*"))
    shutil.copytree(foreign, folder / "checkpoint" / "step-00000020")
    before = (folder / "metrics.jsonl").read_bytes()
    with pytest.raises(UserError, match="checkpoint of run"):
        train(Run.open(folder), device="cpu", progress="none")
    assert (folder / "metrics.jsonl").read_bytes() == before
    assert Run.open(folder).state == "failed"


def test_metrics_that_were_cut_are_told(folder: Path) -> None:
    (folder / "metrics.jsonl").write_bytes((folder / "metrics.jsonl").read_bytes()[:50])
    with pytest.raises(UserError, match=r"metrics\.jsonl is damaged"):
        train(Run.open(folder), device="cpu", progress="none")


def in_little_room(folder: str, made: dict[str, Any], room: int) -> None:
    """Train where no file can become larger than `room` bytes, as on a full disk."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))
    try:
        train_alone(folder, made)
    except UserError as error:
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))
        sys.stderr.write(str(error))
        sys.exit(2)


@pytest.mark.parametrize("room", [1500, 20_000, 60_000])
def test_a_full_disk_loses_nothing_that_was_written(room: int, folder: Path, whole: dict[str, bytes]) -> None:
    """There is no room for a further line, for a checkpoint, for one of its files; later there is."""
    kept = sorted((folder / "checkpoint").iterdir())
    process = spawn(in_little_room, str(folder), MADE.to_dict(), room)
    process.join(180)
    assert process.exitcode == 2
    run = Run.open(folder)
    assert run.state == "failed"
    assert run.status is not None
    assert "cannot be written" in run.status["message"]
    assert sorted(run.checkpoints.iterdir()) == kept
    assert run.metrics.read()
    train(run, device="cpu", progress="none")
    assert traces(folder) == whole


def test_a_full_disk_without_a_checkpoint_promises_none(tmp_path: Path) -> None:
    """There is room for every line, and none for the model."""
    bare = spec(basis=steps(30), checkpoint_every=0)
    process = spawn(in_little_room, str(tmp_path / "run"), bare.to_dict(), 8000)
    process.join(180)
    assert process.exitcode == 2
    run = Run.open(tmp_path / "run")
    message = str((run.status or {})["message"])
    assert "model.safetensors cannot be written: File too large" in message
    assert "the run has no checkpoint: it starts from step 0" in message
    assert "last checkpoint" not in message
    assert not list((run.path / "model").iterdir())
    assert train(run, device="cpu", progress="none")["steps"] == 30


def test_a_model_that_cannot_be_written_leaves_the_checkpoint(folder: Path) -> None:
    (folder / "model").write_text("no folder")
    with pytest.raises(UserError, match=r"model cannot be written: .*; the run resumes from its last checkpoint"):
        train(Run.open(folder), device="cpu", progress="none")
    assert list((folder / "checkpoint").iterdir())


def test_a_second_process_is_refused_with_the_first_ones_number(tmp_path: Path) -> None:
    run = Run.create(tmp_path / "run", MADE)
    with run.locked():
        process = spawn(refused, str(tmp_path / "run"), str(tmp_path / "told"))
        process.join(180)
        assert process.exitcode == 0
    assert str(os.getpid()) in (tmp_path / "told").read_text()
    assert not (tmp_path / "run" / "metrics.jsonl").exists()


def refused(folder: str, told: str) -> None:
    """Try to train what another process has, and keep the sentence."""
    with pytest.raises(UserError, match="in use") as caught:
        train(Run.open(folder), device="cpu", progress="none")
    Path(told).write_text(str(caught.value))


def test_checkpoints_hold_everything_by_name_and_nothing_pickled(stopped: Path) -> None:
    from safetensors import safe_open

    path = stopped / "checkpoint" / "step-00000016"
    assert {file.suffix for file in path.iterdir()} == {".json", ".safetensors"}
    with safe_open(tensors(path), "pt") as file:
        kinds = {name.split(".")[0] for name in file.keys()}  # noqa: SIM118 (it is no mapping)
    assert kinds == {"model", "exp_avg", "exp_avg_sq", "ema", "losses"}
    note = json.loads((path / "note.json").read_text())
    assert note["step"] == 16
    assert note["schema"] == 1


def test_where_all_checkpoints_are_damaged_new_ones_take_their_place(folder: Path) -> None:
    """They have lower numbers, and are what a second kill goes on from."""
    for shard in folder.glob("checkpoint/step-*/*.safetensors"):
        shard.write_bytes(shard.read_bytes()[:-8])
    with pytest.raises(Stopped):
        train(Run.open(folder), device="cpu", progress=Ear(8))
    assert sorted(path.name for path in (folder / "checkpoint").iterdir()) == ["step-00000005", "step-00000008"]
    ear = Ear()
    train(Run.open(folder), device="cpu", progress=ear)
    assert "resuming from step 8" in ear.heard
