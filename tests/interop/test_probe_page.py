"""The snippets of docs/probe.md run as they are printed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).resolve().parents[2] / "docs" / "probe.md"
SNIPPETS = dict(
    zip(
        re.findall(r"^## (.*)$", PAGE.read_text(), flags=re.MULTILINE),
        re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), flags=re.MULTILINE | re.DOTALL),
        strict=True,
    )
)


def run(title: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict:
    """The names that a section's snippet leaves, run in a folder of its own."""
    monkeypatch.chdir(folder)
    space: dict = {"__name__": "page"}
    exec(compile(SNIPPETS[title], f"docs/probe.md, {title}", "exec"), space)
    return space


def test_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert len(run("Once", tmp_path, monkeypatch)["sites"]) == 12
    assert capsys.readouterr().out.startswith("Sites(12 of softmax attention, kappa ")


def test_in_a_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    space = run("In your own loop", tmp_path, monkeypatch)
    assert [reading.step for reading in space["monitor"].readings] == [0, 5, 10]
    assert capsys.readouterr().out.count("log_kappa/softmax") == 2 * 2  # raw and centred, at steps 5 and 10


def test_in_the_trainer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("transformers", reason="transformers is in the hf extra")
    pytest.importorskip("accelerate", reason="the Trainer needs accelerate, which no extra brings")
    history = run("In the Hugging Face Trainer", tmp_path, monkeypatch)["trainer"].state.log_history
    assert [line["step"] for line in history if "log_kappa/softmax" in line] == [0, 2, 4]


def test_in_lightning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("lightning", reason="lightning is in the lightning extra")
    callback = run("In Lightning", tmp_path, monkeypatch)["callback"]
    assert [reading.step for reading in callback.monitor.readings] == [0, 2, 4]
    assert "log_kappa/softmax" in next(tmp_path.rglob("metrics.csv")).read_text()
