"""Sets are made once, the same in any number of processes, found again, and damage is told."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from manyheads.data.lra import generated_sets
from manyheads.data.lra.generated_sets import generated_set, set_folder
from manyheads.data.lra.sequences import Sequences, write_sequences
from manyheads.spec.errors import UserError
from manyheads.spec.generated import Grammar, Topics

TREES = Grammar(depth=3, arity=4, shortest=8, longest=30)
SIZES = {"train": 70, "valid": 20, "test": 10}


@pytest.fixture(autouse=True)
def _small_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generated_sets, "SHARD", 25)


def same(one: Sequences, other: Sequences) -> bool:
    """Whether two sets hold the same samples."""
    return np.array_equal(one.labels, other.labels) and all(
        all(np.array_equal(a, b) for a, b in zip(one.one(n), other.one(n), strict=True)) for n in range(len(one))
    )


def test_a_set_is_kept_and_found_again(tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    made = generated_set(
        tmp_path, "listops", TREES, SIZES, 0, workers=1, progress=lambda done, all_: told.append((done, all_))
    )
    assert {name: len(split) for name, split in made.items()} == SIZES
    assert told[-1] == (100, 100)
    again = generated_set(tmp_path, "listops", TREES, SIZES, 0, progress=lambda *_: pytest.fail("made again"))
    assert all(same(made[name], again[name]) for name in SIZES)
    manifest = json.loads((set_folder(tmp_path, "listops", TREES, SIZES, 0)[0] / "manifest.json").read_text())
    assert manifest["made"]["setting"] == {"depth": 3, "arity": 4, "shortest": 8, "longest": 30}
    assert [line["samples"] for line in manifest["splits"]["train"]] == [25, 25, 20]


def test_bytes_stay_in_their_files_until_they_are_read(tmp_path: Path) -> None:
    made = generated_set(tmp_path, "listops", TREES, SIZES, 0, workers=1)["train"]
    assert all(isinstance(store.base, np.memmap) or isinstance(store.base.base, np.memmap) for store in made.stores)


def test_several_processes_make_the_same_set(tmp_path: Path) -> None:
    topics = Topics(shortest=20, longest=40)
    alone = generated_set(tmp_path / "a", "retrieval", topics, SIZES, 3, workers=1)
    many = generated_set(tmp_path / "b", "retrieval", topics, SIZES, 3, workers=2)
    assert all(same(alone[name], many[name]) for name in SIZES)
    files = [sorted((tmp_path / root / "lra").rglob("*.seq")) for root in "ab"]
    assert [file.read_bytes() for file in files[0]] == [file.read_bytes() for file in files[1]]


SCRIPT = """
import sys
from pathlib import Path
from manyheads.data.lra import generated_sets
from manyheads.spec.generated import Grammar
generated_sets.SHARD = 25
trees = Grammar(depth=3, arity=4, shortest=8, longest=30)
generated_sets.generated_set(Path(sys.argv[1]), "listops", trees, {"train": 70, "valid": 20, "test": 10}, 0, workers=2)
print("once")
"""


def test_a_script_without_a_guard_runs_once_and_two_of_them_wait_for_one_another(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    command = [sys.executable, str(tmp_path / "script.py"), str(tmp_path / "data")]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    assert [process.communicate()[0] for process in both] == ["once\n", "once\n"]
    assert len(generated_set(tmp_path / "data", "listops", TREES, SIZES, 0)["train"]) == 70


def test_a_worker_that_fails_is_told(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"part of a set failed: Grammar.*grew no tree of 5 to 6 tokens"):
        generated_set(tmp_path, "listops", Grammar(arity=2, shortest=5, longest=6), SIZES, 0, workers=2)


def test_an_interrupted_set_goes_on_where_it_stopped(tmp_path: Path) -> None:
    folder, _ = set_folder(tmp_path, "listops", TREES, SIZES, 0)
    made = generated_set(tmp_path, "listops", TREES, SIZES, 0, workers=1)
    (folder / "manifest.json").unlink()
    (folder / "train-00001.seq").unlink()
    before = (folder / "train-00000.seq").stat().st_mtime_ns
    again = generated_set(tmp_path, "listops", TREES, SIZES, 0, workers=1)
    assert (folder / "train-00000.seq").stat().st_mtime_ns == before
    assert same(made["train"], again["train"])


def test_splits_share_nothing_and_other_settings_are_other_sets(tmp_path: Path) -> None:
    trees = Grammar(depth=4, arity=5, shortest=40, longest=80)
    made = generated_set(tmp_path, "listops", trees, SIZES, 0, workers=1)
    texts = {name: {split.one(n)[0].tobytes() for n in range(len(split))} for name, split in made.items()}
    assert sum(map(len, texts.values())) == len(set().union(*texts.values())) == 100
    places = {
        set_folder(tmp_path, "listops", *rest)[0] for rest in ((trees, SIZES, 0), (TREES, SIZES, 0), (trees, SIZES, 1))
    }
    assert len(places) == 3


def test_a_larger_set_begins_with_the_smaller_one(tmp_path: Path) -> None:
    small = generated_set(tmp_path, "listops", TREES, {"train": 30}, 0, workers=1)["train"]
    large = generated_set(tmp_path, "listops", TREES, {"train": 60}, 0, workers=1)["train"]
    assert same(small, large.at(np.arange(30)))


@pytest.mark.parametrize(
    ("harm", "told"),
    [
        (lambda data: data[:-3], "was cut short"),
        (lambda data: data[:-3] + b"\x01\x02\x03", "is damaged"),
        (lambda data: b"", "is no file of sequences"),
        (lambda data: b"PK" + data[2:], "is no file of sequences"),
    ],
)
def test_a_damaged_file_is_told_and_nothing_is_lost(harm: object, told: str, tmp_path: Path) -> None:
    folder, _ = set_folder(tmp_path, "listops", TREES, SIZES, 0)
    generated_set(tmp_path, "listops", TREES, SIZES, 0, workers=1)
    file = folder / "train-00001.seq"
    file.write_bytes(harm(file.read_bytes()))  # type: ignore[operator]
    others = sorted(path.name for path in folder.iterdir())
    with pytest.raises(UserError, match=told) as error:
        generated_set(tmp_path, "listops", TREES, SIZES, 0)
    assert f"delete {folder} and the set is made again" in str(error.value)
    assert sorted(path.name for path in folder.iterdir()) == others


def test_a_missing_file_and_a_damaged_manifest_are_told(tmp_path: Path) -> None:
    folder, _ = set_folder(tmp_path, "listops", TREES, SIZES, 0)
    generated_set(tmp_path, "listops", TREES, SIZES, 0, workers=1)
    (folder / "valid-00000.seq").unlink()
    with pytest.raises(UserError, match=r"valid-00000.seq cannot be read \(No such file"):
        generated_set(tmp_path, "listops", TREES, SIZES, 0)
    (folder / "manifest.json").write_text('{"schema": 1, ')
    with pytest.raises(UserError, match=r"manifest.json cannot be read"):
        generated_set(tmp_path, "listops", TREES, SIZES, 0)
    (folder / "manifest.json").write_text('{"schema": 2}')
    with pytest.raises(UserError, match="is of schema 2, and this version reads 1"):
        generated_set(tmp_path, "listops", TREES, SIZES, 0)


def test_a_place_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot be written"):
        generated_set(tmp_path / "file", "listops", TREES, SIZES, 0)
    with pytest.raises(UserError, match="did you mean listops"):
        generated_set(tmp_path, "listop", TREES, SIZES, 0)


def test_a_file_is_there_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = generated_set(tmp_path, "listops", TREES, {"train": 5}, 0)["train"]

    def full(*_: object) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(UserError, match="No space left"):
        write_sequences(tmp_path / "one.seq", made)
    assert [path.name for path in tmp_path.iterdir()] == ["lra"]
