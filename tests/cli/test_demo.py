"""The main job and the report as a person meets them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from manyheads.runs import find

Demonstrated = tuple[Path, subprocess.CompletedProcess[str]]
ARMS = ("original", "lean", "depth_only", "split")


def run(*args: str, code: int = 0, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run `manyheads ARGS` in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "manyheads", *args],
        capture_output=True,
        text=True,
        cwd=cwd,
        env=os.environ | {"COLUMNS": "80"},
    )
    assert done.returncode == code, done.stderr
    return done


@pytest.fixture(scope="module")
def demonstrated(tmp_path_factory: pytest.TempPathFactory) -> Demonstrated:
    """The demonstration with two steps of training: everything but the waiting."""
    folder = tmp_path_factory.mktemp("demo")
    return folder, run("demo", "--steps", "2", cwd=folder)


def test_it_prints_the_table_the_verdict_and_the_page(demonstrated: Demonstrated) -> None:
    folder, done = demonstrated
    lines = done.stdout.splitlines()
    for arm in ARMS:
        row = next(line for line in lines if line.startswith(arm))
        assert "…" not in row, "the table is cut in a terminal of 80 columns"
        assert " k " in row
        assert "%" in row
    assert "2 seeds per arm allow hardly any claim" in done.stdout
    assert "lean against depth_only: top1" in done.stdout
    assert lines[-1] == "page: runs/demo.html"
    assert "<svg" in (folder / "runs" / "demo.html").read_text()


def test_every_arm_was_trained_and_probed_with_two_seeds(demonstrated: Demonstrated) -> None:
    found = find(demonstrated[0] / "runs")
    assert {item.path.name for item in found} == {f"{arm}-s{seed}" for arm in ARMS for seed in (0, 1)}
    assert {item.state for item in found} == {"done"}
    assert all((item.path / "spectra.jsonl").stat().st_size for item in found)


def test_again_it_trains_nothing_and_says_the_same(demonstrated: Demonstrated) -> None:
    folder, first = demonstrated
    before = {file: file.stat().st_mtime_ns for item in find(folder) for file in item.path.rglob("*")}
    second = run("demo", "--steps", "2", cwd=folder)
    assert second.stdout == first.stdout
    assert second.stderr.count("finished before, skipped") == 8
    assert {file: file.stat().st_mtime_ns for item in find(folder) for file in item.path.rglob("*")} == before


def test_another_budget_in_the_same_folder_is_refused(demonstrated: Demonstrated) -> None:
    told = run("demo", "--steps", "3", cwd=demonstrated[0], code=2).stderr
    assert "holds another run: recipe.basis.amount is 2 there and 3 here" in told
    assert "Traceback" not in told


def test_report_makes_the_same_page_of_the_same_runs(demonstrated: Demonstrated) -> None:
    folder, first = demonstrated
    done = run("report", "runs", "--out", "all.html", cwd=folder)
    assert done.stdout.splitlines()[:-1] == first.stdout.splitlines()[:-1]
    assert (folder / "all.html").read_text().count("<svg") == (folder / "runs" / "demo.html").read_text().count("<svg")
    assert run("report", "runs", "--out", "all.html", "--quiet", cwd=folder).stdout == ""


def test_report_of_nothing_is_told(tmp_path: Path) -> None:
    told = run("report", str(tmp_path), code=2).stderr
    assert "holds no run folder" in told
    assert "Traceback" not in told


def test_interrupted_it_saves_and_says_how_to_go_on(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "manyheads", "demo", "--steps", "100000", "--quiet"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 90
    while sum((item.status or {}).get("step") is not None for item in find(tmp_path)) < 2:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=90)
    assert process.returncode == 130, told
    assert "the same command resumes them" in told
    assert "running" not in {item.state for item in find(tmp_path)}
