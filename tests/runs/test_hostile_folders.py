"""A run folder from somebody else: pipes, devices and links in it hold up no reader, and lead no write elsewhere."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

import pytest

from manyheads.models.store import read_weights
from manyheads.report.page import write
from manyheads.runs import Run, find
from manyheads.runs import json_lines as lines
from manyheads.spec import files, serialise
from manyheads.spec.errors import UserError
from manyheads.spec.lock import holder

from .examples import spec

READ = ("spec.json", "status.json", "result.json", "metrics.jsonl", "spectra.jsonl")
# fmt: off
TRAPS: dict[str, Callable[[Path], None]] = {
    "a pipe": os.mkfifo,
    "an endless device": lambda path: path.symlink_to("/dev/zero"),
    "100 GB": lambda path: (path.write_bytes(b""), os.truncate(path, 10**11))[1],
}
# fmt: on


class Waiting(BaseException):
    """No OSError, which would be taken for a file that cannot be read."""


@pytest.fixture(autouse=True)
def alarm() -> Iterator[None]:
    """Fail a test that waits, instead of waiting with it."""

    def ring(number: int, frame: FrameType | None) -> None:
        raise Waiting

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(10)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """A file of the user, outside of the run folder."""
    file = tmp_path / "precious"
    file.write_text("mine, without a line's end")
    return file


def a_run(folder: Path, seed: int = 0, *, done: bool = True) -> Run:
    """A run that trained for a step."""
    run = Run.create(folder, spec(seed))
    with run.locked():
        run.write_status(state="running", step=1, total=1)
        run.metrics.append({"kind": "eval", "step": 1, "top1": 0.5})
        run.spectra.append({"step": 1, "kind": "attention between tokens", "log_kappa": 1.0})
        if done:
            run.finish({"score": {"top1": 0.5}, "better": ["top1", "up"]})
    return run


@pytest.mark.parametrize("trap", TRAPS)
@pytest.mark.parametrize("name", READ)
def test_a_trap_in_one_folder_leaves_the_report_of_the_others(name: str, trap: str, tmp_path: Path) -> None:
    for seed in (0, 1):
        a_run(tmp_path / "runs" / f"run-s{seed}", seed)
    file = tmp_path / "runs" / "run-s0" / name
    file.unlink()
    TRAPS[trap](file)
    reported = write(tmp_path / "runs", tmp_path / "page.html")
    sound = [run.path.name for section in reported.sections for run in section.runs]
    assert "run-s1" in sound
    if name != "status.json":  # of a finished run, the status says nothing that is needed
        assert [problem.path.name for problem in reported.problems] == ["run-s0"]
        assert name in str(reported.problems[0].problem)


def test_a_pipe_as_the_lock_holds_up_nobody(tmp_path: Path) -> None:
    a_run(tmp_path / "run", done=False)
    (tmp_path / "run" / "lock").unlink()
    os.mkfifo(tmp_path / "run" / "lock")
    assert [run.state for run in find(tmp_path)] == ["stopped"]
    assert holder(tmp_path / "run" / "lock") == "another process"


@pytest.mark.parametrize("trap", TRAPS)
def test_no_record_and_no_weights_are_read_from_a_trap(trap: str, tmp_path: Path) -> None:
    TRAPS[trap](tmp_path / "file")
    with pytest.raises(UserError, match=r"cannot be read: (a pipe or a device|it has more than)"):
        serialise.read_json(tmp_path / "file")
    with pytest.raises(UserError, match="is damaged or no safetensors file"):
        read_weights(tmp_path / "file")


def test_a_pipe_that_somebody_names_is_read() -> None:
    reading, writing = os.pipe()
    os.write(writing, b'{"a": 1}')
    os.close(writing)
    assert serialise.read_json(f"/dev/fd/{reading}") == {"a": 1}
    os.close(reading)


def test_a_line_that_does_not_end_is_not_read_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "LONGEST", 100)
    run = a_run(tmp_path / "run", done=False)
    with open(run.path / "metrics.jsonl", "ab") as file:
        file.write(b" " * 100)
    with pytest.raises(UserError, match="line 2 does not end"):
        run.metrics.read()
    with open(run.path / "spectra.jsonl", "ab") as file:
        file.write(b" " * 99)
    assert len(run.spectra.read()) == 1


@pytest.mark.parametrize("name", ["lock", "metrics.jsonl"])
def test_a_link_in_the_place_of_a_file_that_is_written_is_not_followed(name: str, victim: Path, tmp_path: Path) -> None:
    run = a_run(tmp_path / "run", done=False)
    (run.path / name).unlink()
    (run.path / name).symlink_to(victim)
    with pytest.raises(UserError, match=f"{name} cannot be written"), run.locked():
        run.metrics.append({"step": 2})
    assert victim.read_text() == "mine, without a line's end"


def test_a_link_in_the_place_of_a_partial_file_is_not_followed(victim: Path, tmp_path: Path) -> None:
    (tmp_path / "arch.json.partial").symlink_to(victim)
    with pytest.raises(UserError, match="cannot be written"):
        serialise.save(spec().arch, tmp_path / "arch.json")
    serialise.save(spec().arch, tmp_path / "arch.json")  # the link was deleted
    assert victim.read_text() == "mine, without a line's end"


def test_a_device_is_not_replaced_by_a_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for place in (tmp_path / "pipe", tmp_path / "link"):
        if place.name == "link":
            place.symlink_to("/dev/null")
        with pytest.raises(UserError, match="is a device or a pipe, and a file would take its place"):
            files.replace(place, b"{}")
    assert (tmp_path / "pipe").is_fifo()
    assert (tmp_path / "link").is_symlink()


@pytest.mark.parametrize("path", [Path(""), Path("/")])
def test_a_file_needs_a_name(path: Path) -> None:
    with pytest.raises(UserError, match="is a folder; write the name of a file"):
        files.replace(path, b"{}")
