"""Names become modules with what they take; what cannot be loaded is a sentence."""

from __future__ import annotations

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


def test_a_folder_without_a_configuration_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("transformers", reason="transformers is in the hf extra")
    with pytest.raises(UserError, match=r"holds no config\.json"):
        load(f"hf:{tmp_path}")


def test_a_users_images(tmp_path: Path) -> None:
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
