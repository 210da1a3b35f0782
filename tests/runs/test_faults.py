"""Killed anywhere, on a full disk, in a folder that may only be read: what was written stays whole and can go on."""

from __future__ import annotations

import random
import signal
import time
from pathlib import Path

import pytest

from manyheads.runs import Run
from tests.runs.examples import done, on_small_disk, spec, start

# Forks a writer again and again and kills the n-th of its system calls that change the disk, half of a write done.
KILL = """
CALLS = ("write", "pwrite", "fsync", "replace", "ftruncate", "mkdir", "open", "close")

def scenario(path):
    run = Run.create(path, spec())
    if run.state == "done":
        return
    with run.locked():
        size = (run.status or {}).get("size", 0)
        run.metrics.cut(size)
        for step in range(len(run.metrics.read()), 4):
            run.metrics.append({"step": step, "loss": 1 / (step + 1)})
            run.metrics.flush()
            run.write_status(state="running", step=step, total=4, size=run.metrics.size())
        run.finish({"loss": 0.25})

def deadly(n):
    left = [n]
    def wrap(name, real):
        def call(*args, **more):
            left[0] -= 1
            if left[0] < 0:
                if name in ("write", "pwrite"):
                    real(args[0], bytes(args[1])[: len(args[1]) // 2], *args[2:])
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*args, **more)
        return call
    for name in CALLS:
        setattr(os, name, wrap(name, getattr(os, name)))

def kept(path):
    return {name: (path / name).read_bytes() for name in ("spec.json", "metrics.jsonl", "result.json")}

scenario(folder / "whole")
deaths, n = [], 0
while True:
    path = folder / f"killed {n}"
    child = os.fork()
    if child == 0:
        deadly(n)
        scenario(path)
        os._exit(0)
    code = os.waitpid(child, 0)[1]
    for found in find(path):  # whatever is there is listed, and damaged only before there is a specification
        assert found.problem is None or "no spec.json" in found.problem, found
        assert found.state != "running", found
        if found.problem is None:
            assert [record["step"] for record in Run.open(path).metrics.read()] in [list(range(i)) for i in range(5)]
        deaths.append(found.state)
    scenario(path)
    assert kept(path) == kept(folder / "whole"), n
    if code == 0:
        break
    assert code == signal.SIGKILL
    n += 1
print(n, *sorted(set(deaths)))
"""


def test_killed_at_any_system_call_a_run_goes_on_and_ends_with_the_same_bytes(tmp_path: Path) -> None:
    kills, *states = done(start(KILL, tmp_path)).split()
    assert int(kills) > 60
    assert states == ["damaged", "done", "new", "stopped"]


def test_killed_at_any_moment_from_outside_no_record_that_was_told_is_lost(tmp_path: Path) -> None:
    code = """
run = Run.create(folder, spec())
with run.locked():
    for step in range(len(run.metrics.read()), 10**6):
        run.metrics.append({"step": step, "text": "x" * 3000})
        print(step, flush=True)
        run.write_status(state="running", step=step)
"""
    chance = random.Random(5)
    for _ in range(8):
        writer = start(code, tmp_path / "run")
        assert writer.stdout is not None
        told = [writer.stdout.readline()]
        time.sleep(chance.uniform(0, 0.03))
        writer.send_signal(signal.SIGKILL)
        told += writer.communicate()[0].splitlines()
        run = Run.open(tmp_path / "run")
        steps = [record["step"] for record in run.metrics.read()]
        assert steps == list(range(len(steps)))
        assert len(steps) > max(int(line) for line in told if line.endswith("\n") or line.isdigit())
        assert run.state == "stopped"
        assert (run.status or {"step": 0})["step"] <= len(steps)


FULL = """
def fill():
    with open(folder / "filler", "wb", buffering=0) as file:
        try:
            while file.write(bytes(512)):
                pass
        except OSError:
            pass

def bytes_of(run):
    return {path.name: path.read_bytes() for path in sorted(run.path.iterdir()) if path.is_file()}

run = Run.create(folder / "run", spec())
big = {"text": "x" * 50_000}
run.write_status(state="running", step=1, more=big)
run.metrics.append({"step": 1})
with run.locked():
    fill()
    before = bytes_of(run)
    writes = (
        lambda: run.metrics.append({"step": 2} | big), lambda: run.spectra.append({"step": 2} | big),
        lambda: run.write_status(state="running", step=2, more=big), lambda: run.finish(big),
        lambda: Run.create(folder / "another", spec(1)),
    )
    for write in writes:
        try:
            write()
        except UserError as error:
            print(error)
    after = bytes_of(run)
    assert {name: after[name] for name in before} == before, (before.keys(), after.keys())
    assert [name for name in after if name not in before] in ([], ["spectra.jsonl"]), after.keys()
    os.unlink(folder / "filler")
    run.metrics.append({"step": 2})
    run.finish({"top1": 1.0})
assert Run.open(run.path).state == "done"
assert run.metrics.read() == [{"step": 1}, {"step": 2}]
Run.create(folder / "another", spec(1))
"""


def test_a_full_disk_loses_nothing_that_was_written(tmp_path: Path) -> None:
    told = on_small_disk(FULL, tmp_path / "disk", "256k").splitlines()
    names = ("metrics.jsonl", "spectra.jsonl", "status.json", "status.json", "another")
    assert len(told) == len(names)
    for sentence, name in zip(told, names, strict=True):
        assert name in sentence
        assert "cannot be written: No space left on device" in sentence
        assert "intact, make room and start again" in sentence


def test_a_file_that_may_not_grow_stays_as_it_was(tmp_path: Path) -> None:
    code = """
import resource
run = Run.create(folder, spec())
with run.locked():
    run.metrics.append({"step": 1})
    before = run.metrics.path.read_bytes()
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
    for write in (lambda: run.metrics.append({"text": "x" * 9000}), lambda: run.finish({"text": "x" * 9000})):
        try:
            write()
        except UserError as error:
            print(error)
    assert run.metrics.path.read_bytes() == before
    assert run.state == "running"
    run.metrics.append({"step": 2})
    run.finish({"top1": 1.0})
"""
    told = done(start(code, tmp_path / "run")).splitlines()
    assert ["metrics.jsonl cannot be written: File too large" in told[0], "result.json cannot" in told[1]] == [
        True,
        True,
    ]
    run = Run.open(tmp_path / "run")
    assert (run.state, run.result, len(run.metrics.read())) == ("done", {"top1": 1.0}, 2)


def test_a_folder_that_may_only_be_read_is_read(tmp_path: Path) -> None:
    code = """
import subprocess
for name, result in (("done", {"top1": 1.0}), ("stopped", None)):
    run = Run.create(folder / name, spec())
    run.metrics.append({"step": 1})
    if result:
        run.finish(result)
subprocess.run(["mount", "-o", "remount,ro", str(folder)], check=True)
for name in ("done", "stopped"):
    run = Run.create(folder / name, spec())
    assert run.state == name
    assert run.metrics.read() == [{"step": 1}]
    assert [found.state for found in find(folder / name)] == [name]
    try:
        run.metrics.append({"step": 2})
    except UserError as error:
        print(error)
try:
    Run.create(folder / "new", spec())
except UserError as error:
    print(error)
"""
    told = on_small_disk(code, tmp_path / "disk", "256k").splitlines()
    assert len(told) == 3
    assert all("cannot be written: Read-only file system" in sentence for sentence in told)


def test_an_interrupt_between_two_parts_of_a_line_leaves_no_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import os

    run = Run.create(tmp_path / "run", spec())
    with run.locked():
        run.metrics.append({"step": 1})
        real = os.write

        def torn(file: int, data: memoryview) -> int:
            real(file, bytes(data)[:5])
            raise KeyboardInterrupt

        monkeypatch.setattr(os, "write", torn)
        with pytest.raises(KeyboardInterrupt):
            run.metrics.append({"step": 2})
        monkeypatch.undo()
        run.metrics.append({"step": 3})
    assert run.metrics.read() == [{"step": 1}, {"step": 3}]
