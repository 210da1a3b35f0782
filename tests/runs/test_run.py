"""A run folder says where it stands, belongs to one process at a time, and is never rewritten once done."""

from __future__ import annotations

import json
import math
import os
import signal
import threading
from pathlib import Path

import pytest

from manyheads.runs import Busy, Run
from manyheads.spec.errors import UserError
from tests.runs.examples import done, spec, start

HOLD = """
run = Run.open(folder)
with run.locked():
    run.write_status(state="running", step=3, total=9)
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run.create(tmp_path / "ein lauf für λ 🙂" / "s0", spec())


def test_a_run_walks_from_new_to_done(run: Run) -> None:
    assert (run.state, run.status, run.result) == ("new", None, None)
    with run.locked():
        assert run.state == "running"
        run.write_status(state="running", step=5, total=10, rate=31.5)
        run.metrics.append({"step": 5, "loss": 1.0})
        assert run.state == "running"
    assert run.state == "stopped"
    run.write_status(state="failed", step=6, total=10, message="loss is NaN at step 6")
    assert Run.open(run.path).state == "failed"
    assert (run.status or {})["message"] == "loss is NaN at step 6"
    with run.locked():
        assert run.state == "running"  # tried again
        run.write_status(state="stopped", step=10, total=10)
        run.finish({"top1": 0.5, "loss": math.inf})
    again = Run.open(run.path)
    assert again.state == "done"
    assert again.result == {"top1": 0.5, "loss": None}
    status = again.status or {}
    assert (status["state"], status["step"], status["message"]) == ("done", 10, "")
    assert again.spec == run.spec
    assert again.id == run.id == run.spec.id
    assert sorted(path.name for path in run.path.iterdir()) == [
        "lock",
        "metrics.jsonl",
        "result.json",
        "spec.json",
        "status.json",
    ]


def test_a_finished_run_is_never_rewritten(run: Run) -> None:
    run.metrics.append({"step": 1})
    run.finish({"top1": 1.0})
    before = {path.name: path.read_bytes() for path in run.path.iterdir() if path.name != "lock"}
    writes = (
        lambda: run.metrics.append({"step": 2}),
        lambda: run.metrics.cut(0),
        lambda: run.finish({}),
        lambda: run.write_status(state="running"),
        lambda: Run.open(run.path).spectra.append({"step": 1}),
    )
    for write in writes:
        with pytest.raises(UserError, match="never rewritten"):
            write()
    assert {path.name: path.read_bytes() for path in run.path.iterdir() if path.name != "lock"} == before


def test_two_equal_runs_write_equal_bytes(tmp_path: Path) -> None:
    runs = [Run.create(tmp_path / name, spec()) for name in "ab"]
    for run, order in zip(runs, (1, -1), strict=True):
        for lines in (run.metrics, run.spectra):
            lines.append(dict([("step", 1), ("loss", 0.1 + 0.2), ("größe", 1e-30)][::order]))
        run.finish(dict([("top1", 1 / 3), ("loss", 2.0)][::order]))
    for name in ("spec.json", "metrics.jsonl", "spectra.jsonl", "result.json"):
        assert (runs[0].path / name).read_bytes() == (runs[1].path / name).read_bytes()


@pytest.mark.parametrize("state", ["done", "new", "paused"])
def test_a_writer_cannot_say_what_only_the_folder_can(run: Run, state: str) -> None:
    with pytest.raises(UserError, match=f"state '{state}'"):
        run.write_status(state=state)


def test_creating_again_opens_and_another_run_is_refused_by_field(run: Run) -> None:
    run.metrics.append({"step": 1})
    assert Run.create(run.path, spec()).metrics.read() == [{"step": 1}]
    with pytest.raises(UserError, match=r"holds another run: recipe.lr is 0.001 there and 0.002 here.*new folder"):
        Run.create(run.path, spec(lr=2e-3))
    with pytest.raises(UserError, match="seed is 0 there and 1 here"):
        Run.create(run.path, spec(1))


def test_a_mistake_that_trained_nothing_does_not_block_its_correction(run: Run) -> None:
    run.write_status(state="failed", message="batch does not split")
    corrected = Run.create(run.path, spec(lr=2e-3))
    assert (corrected.spec.recipe.lr, corrected.state) == (2e-3, "new")
    corrected.metrics.append({"step": 1})
    corrected.write_status(state="failed", message="diverged")
    with pytest.raises(UserError, match="holds another run"):
        Run.create(run.path, spec())


def test_a_folder_with_other_things_in_it_does_not_become_a_run(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(UserError, match=r"holds thesis.tex and no spec.json"):
        Run.create(tmp_path, spec())
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]
    with pytest.raises(UserError, match="is a file"):
        Run.create(tmp_path / "thesis.tex", spec())
    with pytest.raises(UserError, match="cannot be written: Not a directory"):
        Run.create(tmp_path / "thesis.tex" / "run", spec())


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("spec.json", None, "no run folder: it holds no spec.json"),
        ("spec.json", b"", r"spec.json is damaged: it is not JSON"),
        ("spec.json", b'{"schema": 1', r"spec.json is damaged"),
        ("spec.json", b"\x00" * 400, r"spec.json is damaged"),
        ("spec.json", b"[]", r"no JSON object"),
        ("spec.json", b'{"name": "other"}', r"not the specification of a run"),
        ("spec.json", b'{"a":' * 400 + b"1" + b"}" * 400, "nested more than 100 deep"),
        ("spec.json", b'{"schema": 1, "arch": {"family": "vit"}}', "damaged: it has no `id`"),
        ("spec.json", b'{"schema": 7, "arch": {}}', "newer manyheads"),
        ("result.json", b"", r"result.json is damaged.*delete it and train again"),
        ("result.json", b'{"schema": 1, "id": "x", "result": {}}', "belongs to run 'x'"),
        ("result.json", b'{"schema": 1, "top1": 1}', "has no `result`"),
        ("result.json", b'{"top1": 1}', "schema None"),
    ],
)
def test_a_damaged_or_foreign_folder_is_refused_saying_what_is_wrong(
    run: Run, name: str, content: bytes | None, words: str
) -> None:
    (run.path / name).unlink(missing_ok=True)
    if content is not None:
        (run.path / name).write_bytes(content)
    with pytest.raises(UserError, match=words):
        Run.open(run.path)


def test_a_specification_that_was_edited_is_refused(run: Run) -> None:
    data = json.loads((run.path / "spec.json").read_bytes())
    data["recipe"]["lr"] = 1.0
    (run.path / "spec.json").write_text(json.dumps(data))
    with pytest.raises(UserError, match="changed after it was written"):
        Run.open(run.path)


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b'{"schema": 9}', b"\xff"])
def test_a_damaged_status_is_mended_by_the_next(run: Run, content: bytes) -> None:
    (run.path / "status.json").write_bytes(content)
    assert (run.status, run.state) == (None, "stopped")
    with run.locked():
        assert run.state == "running"
        run.write_status(state="stopped", step=1)
    assert (run.status or {})["step"] == 1
    (run.path / "status.json").write_bytes(content)
    run.finish({})
    assert run.state == "done"


def test_work_without_a_status_is_stopped_and_not_new(run: Run) -> None:
    run.checkpoints.mkdir()
    assert run.state == "stopped"


def test_a_second_process_is_refused_by_pid_and_a_killed_one_lets_go(run: Run) -> None:
    first = start(HOLD, run.path)
    assert first.stdout is not None
    assert first.stdout.readline() == "held\n"
    assert run.state == "running"
    for write in (lambda: run.metrics.append({"step": 1}), lambda: run.finish({}), lambda: run.locked().__enter__()):
        with pytest.raises(Busy, match=f"in use by process {first.pid} on "):
            write()
    assert Run.create(run.path, spec()).id == run.id  # reading is free
    first.send_signal(signal.SIGKILL)
    first.communicate()
    assert (run.path / "lock").exists()
    assert run.state == "stopped"  # though its status says running
    with run.locked():
        assert run.state == "running"


def test_the_same_process_cannot_take_a_run_twice(run: Run) -> None:
    with run.locked(), pytest.raises(Busy, match=f"process {os.getpid()}"), Run.open(run.path).locked():
        pass


def test_readers_who_ask_for_the_state_never_refuse_a_writer(run: Run) -> None:
    stop = threading.Event()
    reader = threading.Thread(target=lambda: [Run.open(run.path).state for _ in iter(stop.is_set, True)])
    reader.start()
    try:
        for step in range(200):
            run.metrics.append({"step": step})  # takes and leaves the lock each time
    finally:
        stop.set()
        reader.join()
    assert len(run.metrics.read()) == 200


def test_a_forked_worker_neither_has_the_lock_nor_keeps_it(run: Run) -> None:
    code = """
run = Run.open(folder)
with run.locked():
    child = os.fork()
    if child == 0:
        try:
            run.metrics.append({"step": 1})
        except Busy as error:
            print(os.getppid(), error, flush=True)
        os.close(1)
        os.close(2)
        time.sleep(60)
    print(child, flush=True)
    time.sleep(60)
"""
    parent = start(code, run.path)
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    try:
        refused = parent.stdout.readline()
        assert f"in use by process {parent.pid}" in refused
        assert run.state == "running"
        parent.kill()
        parent.wait()
        os.kill(child, 0)  # it lives
        assert run.state == "new"
        run.metrics.append({"step": 2})
    finally:
        os.kill(child, signal.SIGKILL)
        parent.communicate()


def test_a_deleted_lock_stops_its_holder(run: Run) -> None:
    with run.locked():
        (run.path / "lock").unlink()
        with pytest.raises(UserError, match="deleted or moved"):
            run.metrics.append({"step": 1})


def test_of_many_processes_that_create_one_folder_one_run_comes_out(tmp_path: Path) -> None:
    code = """
print("ready", flush=True)
sys.stdin.read(1)
lr = 0.1 * (1 + os.getpid() % 2)
try:
    print(Run.create(folder, spec(lr=lr)).spec.recipe.lr == lr)
except UserError as error:
    assert "holds another run" in str(error), error
    print("other")
"""
    for turn in range(3):
        folder = tmp_path / f"deep {turn}" / "er"
        racers = [start(code, folder) for _ in range(6)]
        assert {racer.stdout.readline() for racer in racers if racer.stdout} == {"ready\n"}
        for racer in racers:
            assert racer.stdin is not None
            racer.stdin.write("x")
            racer.stdin.flush()
        told = [done(racer).strip() for racer in racers]
        assert set(told) <= {"True", "other"}
        assert "True" in told
        won = Run.open(folder).spec.recipe.lr
        assert [word == "True" for word in told] == [0.1 * (1 + racer.pid % 2) == won for racer in racers]
