"""`manyheads report` as a person meets it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from manyheads.experiments.demo import DEMO

from ..report.made import quick


def run(*args: str, cwd: Path, code: int = 0) -> subprocess.CompletedProcess[str]:
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
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs of the demonstration with made-up numbers, and a folder that cannot be read."""
    root = tmp_path_factory.mktemp("report")
    quick(root / "runs", DEMO, "smoke", lambda spec: 0.8 + 0.01 * spec.seed)
    (root / "runs" / "broken").mkdir()
    (root / "runs" / "broken" / "spec.json").write_text("{")
    return root


def test_it_prints_tables_verdicts_and_what_cannot_be_read(folder: Path) -> None:
    lines = run("report", "runs", "--out", "page.html", cwd=folder).stdout.splitlines()
    assert lines[-1] == "page: page.html"
    assert "1 folder cannot be read:" in lines
    assert any("broken" in line for line in lines)
    assert any(line.startswith("- lean against original: top1") for line in lines)
    assert (folder / "page.html").read_text().count("<figure") > 4


def test_assets_are_written_beside_the_page(folder: Path) -> None:
    out = run("report", "runs", "--out", "page.html", "--assets", "files", cwd=folder).stdout
    assert "figures and tables: files" in out
    names = {file.suffix for file in (folder / "files").iterdir()}
    assert {".svg", ".csv"} <= names
    assert "manyheads report runs --out page.html --assets files" in (folder / "page.html").read_text()


def test_a_folder_that_is_a_file_is_told(folder: Path) -> None:
    (folder / "taken").write_text("")
    told = run("report", "runs", "--out", "page.html", "--assets", "taken", cwd=folder, code=2).stderr
    assert "taken cannot be written" in told
    assert "Traceback" not in told


def test_a_folder_whose_name_is_not_utf_8_is_listed(tmp_path: Path) -> None:
    folder = tmp_path / os.fsdecode(b"run\xff")
    folder.mkdir()
    (folder / "spec.json").write_text("{")
    assert "run\\udcff" in run("report", ".", "--out", "page.html", cwd=tmp_path).stdout
    assert "run\\udcff is a name that is not UTF-8" in (tmp_path / "page.html").read_text()
