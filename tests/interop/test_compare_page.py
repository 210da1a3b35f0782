"""docs/compare.md tells the truth: its commands and its Python run as they are printed."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from manyheads.cli import main

TEXT = (Path(__file__).resolve().parents[2] / "docs" / "compare.md").read_text()
CONSOLE = re.findall(r"^```console\n(.*?)^```", TEXT, flags=re.MULTILINE | re.DOTALL)
COMMANDS = [line.removeprefix("$ manyheads ") for block in CONSOLE for line in block.splitlines()]
OWN, CALLS = re.findall(r"^```python\n(.*?)^```", TEXT, flags=re.MULTILINE | re.DOTALL)
TRAINING = ("run", "compare")


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with the page's experiment."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_experiment.py").write_text(OWN)
    return tmp_path


def call(*args: str) -> None:
    with pytest.raises(SystemExit) as left:
        main([*args])
    assert not left.value.code


@pytest.mark.parametrize("line", [line for line in COMMANDS if line.startswith(TRAINING)])
def test_the_pages_commands_are_understood(line: str, place: Path) -> None:
    call(*shlex.split(line), "--dry-run")
    assert not (place / "runs").exists()


def test_the_pages_python_runs(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    exec(compile(CALLS, "docs/compare.md", "exec"), {"__name__": "page"})
    assert "lean against original" in capsys.readouterr().out
    assert (place / "report.html").is_file()


@pytest.mark.slow
def test_the_pages_commands_run(place: Path) -> None:
    for line in COMMANDS:
        call(*shlex.split(line), *(["--device", "cpu"] if line.startswith(TRAINING) else []))
    assert (place / "runs/original_vs_lean/report.html").is_file()
    assert (place / "runs/slower-own/experiment.json").is_file()
    assert any(folder.name.startswith("fig2_") for folder in (place / "runs").iterdir())
