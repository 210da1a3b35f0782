"""Beside the parameters of a language model stand those in its layers, in every command that tells the total."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from manyheads.arch import zoo
from manyheads.arch.count import params
from manyheads.arch.families import gpt2
from manyheads.cli import main
from manyheads.cli.numbers import millions
from manyheads.runs import Run
from manyheads.spec import serialise as record

ARCH = gpt2(16, 1, 2, 8, 32, vocab=2048, tokens=16, positions=16)
LAYERS, TOTAL = params(ARCH).non_embedding, params(ARCH).total
BOTH = f"{millions(TOTAL)}, of them {millions(LAYERS)} in the layers"


def said(capsys: pytest.CaptureFixture[str], *args: str) -> tuple[str, str]:
    """What a command prints, and what it tells beside it."""
    with pytest.raises(SystemExit) as left:
        main(list(args))
    out = capsys.readouterr()
    assert left.value.code == 0, out.err
    return out.out, out.err


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the record of a small language model."""
    assert LAYERS < 0.1 * TOTAL
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "160")
    record.save(ARCH, tmp_path / "small.json")
    return tmp_path


def test_training_listing_and_generating(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("tokenizers", reason="tokenizers is in the text extra")
    train = (
        "train",
        "small.json",
        "--task",
        "languagemodel",
        "--set",
        "task.tokens=16",
        "--set",
        "task.test_limit=8",
        "--batch",
        "4",
        "--steps",
        "2",
        "--device",
        "cpu",
        "--quiet",
        "--out",
        "runs/small",
    )
    assert f"parameters {BOTH}" in " ".join(said(capsys, *train, "--dry-run")[0].split())
    out, _ = said(capsys, *train)
    assert f"; parameters: {BOTH}: runs/small\n" in out
    result = Run.open(place / "runs/small").result
    assert result is not None
    assert (result["params"], result["non_embedding"]) == (TOTAL, LAYERS)
    (row,) = json.loads(said(capsys, "runs", "--json")[0])
    assert (row["params"], row["non_embedding"]) == (TOTAL, LAYERS)
    table = said(capsys, "runs")[0]
    assert "in layers" in table
    assert f"{millions(TOTAL)}" in table
    assert f"{millions(LAYERS)}" in table
    _, told = said(capsys, "generate", "run:runs/small", "--tokens", "2", "--device", "cpu")
    assert f"parameters: {BOTH}" in told
    found = json.loads(said(capsys, "generate", "run:runs/small", "--tokens", "2", "--device", "cpu", "--json")[0])
    assert (found["params"], found["non_embedding"]) == (TOTAL, LAYERS)


def test_originals_and_controls(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = {row["name"]: row for row in json.loads(said(capsys, "zoo", "--json")[0])}
    assert rows["gpt2_tinystories"]["non_embedding"] == params(zoo.get("gpt2_tinystories")).non_embedding
    assert rows["vit_b"]["non_embedding"] is None
    assert millions(rows["gpt2"]["non_embedding"]) in said(capsys, "zoo")[0]
    given = ("shape", "gpt2", "--depth", "6", "--heads", "24", "--controls")
    controls = json.loads(said(capsys, *given, "--json")[0])["controls"]
    assert (
        controls["depth_only"]["non_embedding"]
        == params(record.arch_from_dict(controls["depth_only"]["arch"])).non_embedding
    )
    assert millions(controls["depth_only"]["non_embedding"]) in said(capsys, *given)[0]


def test_an_image_model_is_told_as_before(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "layers" not in said(capsys, "train", "demo:lean", "--steps", "2", "--dry-run")[0]
    shown = said(capsys, "shape", "vit_b", "--depth", "7", "--heads", "16", "--controls")[0]
    assert "non-embedding" not in shown[shown.index("control") :]
