"""What a newcomer wants on the first day, in the commands that do it: own images, own text, own loop, own question."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from manyheads.cli import main
from manyheads.runs import find
from tests.data.written import COLOURS, write_image

HERE = ["--workers", "0", "--device", "cpu", "--quiet"]
BRIEF = ["--steps", "2", "--batch", "4", "--seeds", "0"]


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder, and no datasets."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MANYHEADS_DATA", str(tmp_path / "data"))
    return tmp_path


def do(capsys: pytest.CaptureFixture[str], *args: str) -> str:
    """What a command prints when it succeeds."""
    with pytest.raises(SystemExit) as left:
        main([*args])
    told = capsys.readouterr()
    assert not left.value.code, told.err
    return told.out


def test_a_timm_vit_and_a_folder_of_images(capsys: pytest.CaptureFixture[str], place: Path) -> None:
    pytest.importorskip("timm", reason="in the vision extra")
    for name, colour in COLOURS.items():
        for i in range(10):
            write_image(place / "photos" / name / f"{i}.png", colour, (32, 32), seed=i)
    model = "vit_tiny_patch16_224"
    do(capsys, "shape", model, "--depth", "6", "--heads", "6", "--save", "lean.json")
    task = ["--set", "task.size=32", "--set", "recipe.probe_every=0.5", "--set", "recipe.probe_samples=2"]
    said = do(capsys, "compare", model, "lean.json", "--data", "photos", "--no-loss", "1%", *task, *BRIEF, *HERE)
    assert f"verdict: lean against {model}: top1" in said
    (run, _) = find(place / "runs")
    assert run.spec is not None
    assert run.spec.task.data.startswith("folder:own/photos-")  # type: ignore[attr-defined]


def test_a_hugging_face_gpt2_and_a_text_file(capsys: pytest.CaptureFixture[str], place: Path) -> None:
    transformers = pytest.importorskip("transformers", reason="transformers is in the hf extra")
    tokenizers = pytest.importorskip("tokenizers", reason="tokenizers is in the hf extra")
    config = transformers.GPT2Config(vocab_size=300, n_positions=16, n_embd=16, n_layer=4, n_head=2)
    transformers.GPT2LMHeadModel(config).save_pretrained(place / "gpt")
    words = tokenizers.Tokenizer(tokenizers.models.BPE())
    words.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel()
    alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=300, special_tokens=["<|endoftext|>"], initial_alphabet=alphabet
    )
    words.train_from_iterator(["a story"], trainer)
    words.save(str(place / "gpt" / "tokenizer.json"))
    (place / "novel.txt").write_text("Once upon a time there was a cat. It sat and it sat.\n\n" * 60)
    do(capsys, "shape", "hf:gpt", "--depth", "2", "--heads", "4", "--save", "lean.json")
    said = do(capsys, "compare", "hf:gpt", "lean.json", "--data", "novel.txt", "--equal", "0.01", *BRIEF, *HERE)
    assert "verdict: lean against gpt: loss" in said
    (run, _) = find(place / "runs")
    assert run.spec is not None
    assert run.spec.task.data.startswith("shards:own/novel-")  # type: ignore[attr-defined]
    assert json.loads((place / "data" / run.spec.task.data[7:] / "train" / "manifest.json").read_text())["vocab"] < 300  # type: ignore[attr-defined]


OWN = """
from dataclasses import replace
from manyheads.experiments.demo import DEMO, shortened
from manyheads.spec.experiment import Comparison

def experiment():
    return replace(shortened(DEMO, 1), name="mine", run="", comparisons=(Comparison("lean", "split", "better"),))
"""


def test_an_experiment_of_ones_own_with_a_page(capsys: pytest.CaptureFixture[str], place: Path) -> None:
    (place / "mine.py").write_text(OWN)
    do(capsys, "run", "mine.py", "--arms", "lean,split", "--seeds", "0", "--executor", "process", "--device", "cpu")
    assert "lean against split" in do(capsys, "report", "runs")
    assert "lean against split" in (place / "report.html").read_text()
