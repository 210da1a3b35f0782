"""What `manyheads train` writes into a new run's record where nobody stated it, and what it tells."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from manyheads.arch.families import gpt2, vit
from manyheads.cli import main
from manyheads.models.build import build
from manyheads.models.store import save as save_model
from manyheads.runs import Run
from manyheads.spec.serialise import save

GPT = gpt2(16, 1, 2, 8, 32, vocab=2048, tokens=64, positions=64)
BRIEF = ("--steps", "1", "--batch", "2", "--set", "recipe.probe_every=0", "--device", "cpu", "--quiet")


def trained(folder: Path, *args: str) -> Run:
    """The run that `manyheads train ARGS` trains in `folder`."""
    with pytest.raises(SystemExit) as left:
        main(["train", *args, "--out", str(folder), *BRIEF])
    assert left.value.code == 0
    return Run.open(folder)


@pytest.fixture
def planned(tmp_path: Path) -> str:
    """The saved record of a GPT planned at 64 tokens."""
    save(GPT, tmp_path / "gpt.json")
    return str(tmp_path / "gpt.json")


def test_text_has_the_length_of_the_models_record(
    planned: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = trained(tmp_path / "a", planned, "--task", "languagemodel", "--set", "task.test_limit=2")
    assert (run.spec.task.tokens, run.spec.arch) == (64, GPT)
    assert "the model is built for" not in capsys.readouterr().err


def test_another_length_that_is_asked_for_is_told(
    planned: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ("--task", "languagemodel", "--set", "task.test_limit=2", "--set", "task.tokens=32")
    run = trained(tmp_path / "a", planned, *asked)
    assert (run.spec.task.tokens, run.spec.arch.stages[0].tokens) == (32, 32)
    assert "the model is built for LanguageModel" in (told := capsys.readouterr().err)
    assert "32 tokens and not 64" in told


IMAGES = ("--data", "fashion_mnist", "--set", "task.size=32", "--set", "task.limit=20", "--set", "task.test_limit=10")


def test_a_crop_of_a_new_run_counts_pixels_that_the_model_sees(tmp_path: Path) -> None:
    save(vit(16, 1, 2, 8, 32, image=32, patch=16, channels=1, classes=10), tmp_path / "vit.json")
    model, crop = str(tmp_path / "vit.json"), ("--set", 'task.augment={"is": "Augment", "crop": 4}')
    assert trained(tmp_path / "new", model, *IMAGES, *crop).spec.task.augment.resize_first
    asked = (*crop, "--set", "task.augment.resize_first=false")
    assert not trained(tmp_path / "asked", model, *IMAGES, *asked).spec.task.augment.resize_first


def test_a_folder_of_trained_weights_says_that_training_starts_from_random_ones(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arch = vit(16, 1, 2, 8, 32, image=28, patch=14, channels=1, classes=10)
    save_model(build(arch, device="cpu"), tmp_path / "saved")
    (tmp_path / "hf").mkdir()
    transformers = {"model_type": "vit", "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    sizes = {"intermediate_size": 32, "image_size": 28, "patch_size": 14, "num_channels": 1, "num_labels": 10}
    (tmp_path / "hf" / "config.json").write_text(json.dumps(transformers | sizes))
    for number, name in enumerate((f"hf:{tmp_path / 'hf'}", str(tmp_path / "saved"))):
        run = trained(tmp_path / f"run{number}", name, "--set", "task.limit=20", "--set", "task.test_limit=10")
        told = capsys.readouterr().err
        assert f"{name} gives the architecture alone, and training starts from random weights" in told
        assert f"to start from its trained ones, add --weights {name}" in told
        assert run.spec.label == {"model": name, "weights": "random"}


def test_a_record_without_weights_says_nothing_of_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save(vit(16, 1, 2, 8, 32, image=28, patch=14, channels=1, classes=10), tmp_path / "vit.json")
    run = trained(tmp_path / "a", str(tmp_path / "vit.json"), "--set", "task.limit=20", "--set", "task.test_limit=10")
    assert "random weights" not in capsys.readouterr().err
    assert run.spec.label == {}
