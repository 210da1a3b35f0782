"""What a newcomer wants on the first day, in the commands that do it: own images, own text, own loop, own question."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

import pytest
import torch

from manyheads import Probe
from manyheads.cli import main
from manyheads.data import cifar_archive
from manyheads.runs import find
from tests.data.written import COLOURS, tiny_cifar, write_image

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


def plotted(folder: Path) -> list[int]:
    """The steps at which TensorBoard shows kappa."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    (file,) = folder.rglob("events.out.tfevents.*")
    events = EventAccumulator(str(file.parent))
    events.Reload()
    (tag,) = [tag for tag in events.Tags()["scalars"] if tag.endswith("log_kappa/softmax") and "centred" not in tag]
    return [event.step for event in events.Scalars(tag)]


def test_kappa_in_an_own_loop_is_seen_in_tensorboard(place: Path) -> None:
    pytest.importorskip("tensorboard", reason="tensorboard is in the trackers extra")
    from torch.utils.tensorboard import SummaryWriter

    model = torch.nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    monitor = Probe(every=2, batch=torch.randn(8, 16, 32))
    with SummaryWriter(str(place / "events")) as writer:
        for step in range(1, 5):
            model(torch.randn(4, 16, 32)).square().mean().backward()
            optimizer.step()
            if reading := monitor.probe_if_due(step, model):
                for name, value in reading.scalars().items():
                    writer.add_scalar(name, value, step)
    assert plotted(place / "events") == [2, 4]


def test_kappa_in_the_trainer_is_seen_in_tensorboard(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("tensorboard", reason="tensorboard is in the trackers extra")
    pytest.importorskip("accelerate", reason="the Trainer needs accelerate, which no extra brings")
    transformers = pytest.importorskip("transformers", reason="transformers is in the hf extra")
    from manyheads.interop.callbacks import KappaCallback

    monkeypatch.setenv("TENSORBOARD_LOGGING_DIR", str(place / "events"))
    config = transformers.GPT2Config(vocab_size=64, n_positions=16, n_embd=16, n_layer=2, n_head=2)
    ids = torch.randint(0, 64, (8, 16))
    trainer = transformers.Trainer(
        model=transformers.GPT2LMHeadModel(config),
        args=transformers.TrainingArguments(
            str(place / "out"),
            max_steps=4,
            report_to="tensorboard",
            use_cpu=True,
            save_strategy="no",
            disable_tqdm=True,
        ),
        train_dataset=[{"input_ids": row, "labels": row} for row in ids],
        callbacks=[KappaCallback({"input_ids": ids[:4]}, every=2)],
    )
    trainer.train()
    assert plotted(place / "events") == [0, 2, 4]


def test_kappa_in_lightning_is_seen_in_tensorboard(place: Path) -> None:
    pytest.importorskip("tensorboard", reason="tensorboard is in the trackers extra")
    pytest.importorskip("lightning", reason="lightning is in the lightning extra")
    from lightning.pytorch.loggers import TensorBoardLogger

    page = (Path(__file__).resolve().parents[2] / "docs" / "probe.md").read_text()
    snippet = re.findall(r"^```python\n(.*?)^```", page, flags=re.MULTILINE | re.DOTALL)[-1]
    assert "logger=CSVLogger" in snippet
    logger = TensorBoardLogger(str(place / "events"))
    exec(re.sub(r"logger=CSVLogger\([^)]*\)", "logger=LOGGER", snippet), {"__name__": "page", "LOGGER": logger})
    assert plotted(place / "events") == [0, 2, 4]


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


def test_figure_3_on_the_official_images_at_fewer_steps(
    capsys: pytest.CaptureFixture[str], place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = tiny_cifar(place / "served")
    monkeypatch.setattr(cifar_archive, "RECORDS", 20)
    monkeypatch.setattr(cifar_archive, "SIZE", archive.stat().st_size)
    monkeypatch.setattr(cifar_archive, "SHA256", hashlib.sha256(archive.read_bytes()).hexdigest())
    do(capsys, "data", "cifar10", "--from", str(archive.parent))
    few = [
        "--steps",
        "1",
        "--batch",
        "4",
        "--set",
        "recipe.probe_samples=2",
        "--seeds",
        "0",
        "--arms",
        "L12_h12,L8_h16",
    ]
    do(capsys, "run", "fig3", "--scale", "small", *few, "--executor", "process", "--device", "cpu", "--quiet")
    said = " ".join(do(capsys, "report", "runs").split())
    assert "This is fig3, changed: steps 1; batch 4; recipe.probe_samples=2. It decides no claim of the papers." in said
    (run, _) = find(place / "runs")
    assert run.spec is not None
    assert run.result is not None
    assert run.spec.task.data == "cifar10"  # type: ignore[attr-defined]
    assert len(run.result["data_sha256"]) == 64
