"""Every run folder is found, sound or not; none of them breaks the list, and thousands take seconds."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

from manyheads.runs import Run, find
from tests.runs.examples import done, powerless, spec, start


def test_all_kinds_are_listed_and_nothing_raises(tmp_path: Path) -> None:
    names = ("new", "done", "stopped", "failed", "torn", "half", "edited", "gone", "later", "status", "deep")
    runs = {name: Run.create(tmp_path / "a" / name, spec(seed)) for seed, name in enumerate(names)}
    runs["done"].finish({"top1": 0.9})
    runs["stopped"].write_status(state="running", step=1)
    runs["failed"].write_status(state="failed", step=1, message="NaN")
    (runs["torn"].path / "spec.json").write_bytes(b'{"schema": 1, "id"')
    (runs["half"].path / "result.json").write_bytes(b'{"schema": 1')
    text = (runs["edited"].path / "spec.json").read_text()
    (runs["edited"].path / "spec.json").write_text(text.replace("0.001", "0.1"))
    runs["gone"].metrics.append({"step": 1})
    (runs["gone"].path / "spec.json").unlink()
    (runs["later"].path / "spec.json").write_text(text.replace('"schema": 1', '"schema": 2', 1))
    (runs["status"].path / "status.json").write_bytes(b"\0" * 100)
    (runs["deep"].path / "spec.json").write_text(text.replace('"batch": 64', '"batch": ' + "[" * 400 + "]" * 400))
    foreign = tmp_path / "b"
    foreign.mkdir()
    (foreign / "spec.json").write_text('{"openapi": "3.0"}')
    Run.create(foreign / "below", spec())
    (tmp_path / "empty").mkdir()
    (tmp_path / "notes.txt").write_text("no folder")
    (tmp_path / ".hidden").mkdir()
    Run.create(tmp_path / ".hidden" / "run", spec())

    found = {item.path.relative_to(tmp_path).as_posix(): item for item in find(tmp_path)}
    assert {name: item.state for name, item in found.items()} == {
        "a/new": "new",
        "a/done": "done",
        "a/stopped": "stopped",
        "a/failed": "failed",
        "a/status": "stopped",
        "a/torn": "damaged",
        "a/half": "damaged",
        "a/edited": "damaged",
        "a/gone": "damaged",
        "a/deep": "damaged",
        "a/later": "foreign",
        "b": "foreign",
        "b/below": "new",
    }
    assert list(found) == sorted(found)
    for item in found.values():
        assert (item.problem is not None) == (item.state in ("damaged", "foreign")), item
        assert item.problem is None or str(item.path) in item.problem
    assert found["a/done"].result == {"top1": 0.9}
    assert found["a/done"].spec == spec(1)
    assert found["a/half"].spec == spec(5)  # a damaged result hides nothing else
    assert (found["a/failed"].status or {})["message"] == "NaN"


def test_a_run_is_running_while_its_process_lives(tmp_path: Path) -> None:
    code = """
with Run.create(folder / "run", spec()).locked():
    assert [found.state for found in find(folder)] == ["running"]
assert [found.state for found in find(folder)] == ["new"]
"""
    done(start(code, tmp_path))


def test_a_run_folder_is_its_own_root_and_a_missing_root_holds_none(tmp_path: Path) -> None:
    run = Run.create(tmp_path / "run", spec())
    assert [item.path for item in find(run.path)] == [run.path]
    assert find(tmp_path / "nothing") == []


def test_links_are_followed_once_and_loops_end(tmp_path: Path) -> None:
    Run.create(tmp_path / "elsewhere" / "run", spec())
    root = tmp_path / "root"
    root.mkdir()
    (root / "linked").symlink_to(tmp_path / "elsewhere")
    (root / "again").symlink_to(tmp_path / "elsewhere")
    (root / "loop").symlink_to(root)
    (root / "self").symlink_to("self")
    (root / "broken").symlink_to("nowhere")
    assert len(find(root)) == 1


def test_checkpoints_are_not_searched(tmp_path: Path) -> None:
    run = Run.create(tmp_path / "run", spec())
    shutil.copytree(run.path, run.checkpoints / "step_5")
    assert [item.path for item in find(tmp_path)] == [run.path]


def test_five_thousand_runs_are_listed_in_seconds(tmp_path: Path) -> None:
    run = Run.create(tmp_path / "one", spec())
    run.write_status(state="running", step=1)
    run.finish({"top1": 0.5})
    (run.path / "metrics.jsonl").touch()
    for number in range(5000):
        folder = tmp_path / f"experiment {number % 20}" / f"arm-s{number}"
        os.makedirs(folder)
        for name in ("spec.json", "status.json", "lock", "metrics.jsonl", "result.json")[: 4 + number % 2]:
            os.link(run.path / name, folder / name)
    began = time.process_time()
    found = find(tmp_path)
    spent = time.process_time() - began
    assert len(found) == 5001
    assert {item.state for item in found} == {"done", "stopped"}
    assert spent < 2


def test_a_folder_that_cannot_be_read_is_listed_with_its_problem(tmp_path: Path) -> None:
    code = """
(found,) = find(folder)
print(found.state, found.problem)
for act in (lambda: Run.open(found.path), lambda: Run.create(found.path, spec())):
    try:
        act()
    except UserError as error:
        print(error)
"""
    run = Run.create(tmp_path / "run", spec())
    run.path.chmod(0)
    try:
        told = done(start(code, tmp_path, *powerless())).splitlines()
    finally:
        run.path.chmod(0o755)
    assert told[0] == f"damaged {run.path} cannot be read: Permission denied"
    assert len(told) == 3
    assert all("cannot be read: Permission denied" in sentence for sentence in told)
