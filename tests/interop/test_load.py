"""Names become modules with what they take; what cannot be loaded is a sentence."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from manyheads.conditioning.probe import probe
from manyheads.interop.load import ImageInput, TokenInput, image_batch, load, text_batch
from manyheads.models import store
from manyheads.models.build import build
from manyheads.spec import serialise as record
from manyheads.spec.errors import UserError
from tests.conditioning.others import make
from tests.models.tiny import ORIGINALS

from .evil import evil


@pytest.mark.parametrize("name", ["vit", "gpt2", "nystromformer_pair", "nearest_neighbor", "davit"])
def test_a_record_is_built_and_takes_its_noise(name: str, tmp_path: Path) -> None:
    record.save(ORIGINALS[name], tmp_path / "arch.json")
    loaded = load(str(tmp_path / "arch.json"), seed=1)
    assert loaded.initial
    assert probe(loaded.module, loaded.input.noise(2))
    assert torch.equal(loaded.input.noise(2), loaded.input.noise(2))


def test_a_saved_model_comes_with_its_weights(tmp_path: Path) -> None:
    model = build(ORIGINALS["gpt2"], seed=5)
    store.save(model, tmp_path)
    loaded = load(str(tmp_path), tokens=8)
    assert not loaded.initial
    assert loaded.input.tokens == 8
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), loaded.module.parameters(), strict=True))
    assert load(str(tmp_path), random=True).initial


def test_timm_models_by_name() -> None:
    pytest.importorskip("timm", reason="timm is in the vision extra")
    before = torch.get_rng_state()
    loaded = load("timm:vit_tiny_patch16_224", random=True)
    assert torch.equal(before, torch.get_rng_state())
    assert (loaded.input.size, loaded.input.mean) == (224, (0.5, 0.5, 0.5))
    with pytest.raises(UserError, match="did you mean vit_tiny_patch16_224"):
        load("timm:vit_tiny_patch61_224", random=True)


@pytest.mark.parametrize(
    ("name", "keyword"), [("transformers BERT", "input_ids"), ("transformers ViT", "pixel_values")]
)
def test_hugging_face_folders(name: str, keyword: str, tmp_path: Path) -> None:
    pytest.importorskip("transformers", reason="transformers is in the hf extra")
    make(name)[0].save_pretrained(tmp_path)
    for random in (False, True):
        loaded = load(f"hf:{tmp_path}", random=random, tokens=10)
        assert (loaded.initial, loaded.input.keyword) == (random, keyword)
        assert len(probe(loaded.module, loaded.input.noise(2))) == 2


@pytest.fixture
def yes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Somebody who answers yes to everything, and a folder of modules that is the test's own."""
    modules = pytest.importorskip("transformers.dynamic_module_utils", reason="transformers is in the hf extra")
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n" * 9))
    monkeypatch.setattr(modules, "HF_MODULES_CACHE", str(tmp_path / "modules"))
    monkeypatch.setattr(sys, "path", [*sys.path])


@pytest.mark.parametrize("random", [False, True])
@pytest.mark.parametrize("kind", ["evil", "bert"])
def test_python_files_of_a_folder_are_executed_only_where_that_is_asked_for(
    tmp_path: Path, yes: None, kind: str, random: bool
) -> None:
    ran = evil(tmp_path / "model", kind)
    if kind == "bert":  # transformers has the class, and takes its own
        assert load(f"hf:{tmp_path / 'model'}", random=random).module.__module__.startswith("transformers.models.bert")
    else:
        with pytest.raises(UserError, match="--trust-remote-code"):
            load(f"hf:{tmp_path / 'model'}", random=random)
    assert not ran.exists()
    if kind == "evil" and random:
        loaded = load(f"hf:{tmp_path / 'model'}", random=True, trust_remote_code=True)
        assert type(loaded.module).__name__ == "EvilModel"
        assert ran.exists()


def test_python_files_of_a_tokenizer_are_not_executed(tmp_path: Path, yes: None) -> None:
    ran = evil(tmp_path / "model", "evil")
    (tmp_path / "text.txt").write_text("some words")
    with pytest.raises(UserError, match="--trust-remote-code"):
        text_batch(tmp_path / "text.txt", f"hf:{tmp_path / 'model'}", TokenInput(100, 8), 1)
    assert not ran.exists()


def test_an_attention_program_that_a_configuration_names_is_not_fetched(tmp_path: Path) -> None:
    pytest.importorskip("transformers", reason="transformers is in the hf extra")
    make("transformers BERT")[0].save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | {"attn_implementation": "somebody/attention"}))
    for random in (False, True):
        assert load(f"hf:{tmp_path}", random=random).module.config._attn_implementation == "sdpa"


HUB = """
from manyheads.interop.resolve import resolve
resolve("hf:somebody/evil")
"""


def test_python_files_of_a_model_on_the_hub_are_not_executed(tmp_path: Path) -> None:
    """The model is in the cache of this machine, as after a download, and somebody answers yes to everything."""
    pytest.importorskip("transformers", reason="transformers is in the hf extra")
    cache = tmp_path / "hub" / "models--somebody--evil"
    snapshot = cache / "snapshots" / ("0" * 40)
    snapshot.mkdir(parents=True)
    (cache / "refs").mkdir()
    (cache / "refs" / "main").write_text("0" * 40)
    ran = evil(snapshot, "evil")
    settings = {"HF_HOME": str(tmp_path), "HF_HUB_CACHE": str(tmp_path / "hub"), "HF_HUB_OFFLINE": "1"}
    process = subprocess.run(
        [sys.executable, "-c", HUB], input="y\n" * 9, env=os.environ | settings, text=True, capture_output=True
    )
    assert "cannot fetch it" in process.stderr
    assert not ran.exists()


def test_a_folder_without_a_configuration_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("transformers", reason="transformers is in the hf extra")
    with pytest.raises(UserError, match=r"holds no config\.json"):
        load(f"hf:{tmp_path}")


def test_a_users_images(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pillow = pytest.importorskip("PIL.Image", reason="Pillow comes with the vision extra")
    for i in range(3):
        pillow.new("RGB", (50, 40), (i, 100, 200)).save(tmp_path / f"{i}.png")
    batch = image_batch(tmp_path, ImageInput(32, keyword="pixel_values"), 2)["pixel_values"]
    assert batch.shape == (2, 3, 32, 32)
    assert batch[1, 0].unique().item() == pytest.approx((1 / 255 - 0.485) / 0.229)
    assert image_batch(tmp_path, ImageInput(32, channels=1), 9).shape == (3, 1, 32, 32)
    with pytest.raises(UserError, match="holds no image"):
        image_batch(tmp_path / "none", ImageInput(32), 2)
    (tmp_path / "broken.png").write_bytes(b"no image")
    with pytest.raises(UserError, match="cannot be read"):
        image_batch(tmp_path, ImageInput(32), 9)
    monkeypatch.setattr(pillow, "MAX_IMAGE_PIXELS", 900)  # a picture of 2,000 may fill the memory
    with pytest.raises(UserError, match="decompression bomb"):
        image_batch(tmp_path, ImageInput(32), 2)
    with pytest.raises(UserError, match="does not take images"):
        image_batch(tmp_path, TokenInput(vocab=9, tokens=4), 2)


def test_a_users_text(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers", reason="transformers is in the hf extra")
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "head", "is", "not", "layer"]
    (tmp_path / "vocab.txt").write_text("\n".join(words))
    transformers.BertTokenizer(str(tmp_path / "vocab.txt")).save_pretrained(tmp_path)
    (tmp_path / "text.txt").write_text("a head is not a layer " * 10)
    batch = text_batch(tmp_path / "text.txt", f"hf:{tmp_path}", TokenInput(vocab=50, tokens=12, keyword="input_ids"), 3)
    assert batch["input_ids"].shape == (3, 12)
    with pytest.raises(UserError, match="needs the model's tokenizer"):
        text_batch(tmp_path / "text.txt", "gpt2", TokenInput(vocab=50, tokens=12), 3)
