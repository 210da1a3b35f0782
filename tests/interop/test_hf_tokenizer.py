"""A tokenizer beside an exported model: AutoTokenizer gives our ids, and `generate` ends where a document does."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from manyheads.arch.families import crammed_bert, gpt2, vit
from manyheads.data.text.vocabulary import load
from manyheads.models.build import build
from manyheads.spec.errors import UserError

transformers = pytest.importorskip("transformers", reason="transformers is in the hf extra")
door = pytest.importorskip("manyheads.interop.hf", reason="transformers is in the hf extra")

GPT = gpt2(16, 1, 2, 8, 32, vocab=2048, tokens=32, positions=32)
TEXT = "Once upon a time, there was a little dog."


def test_ids_and_special_tokens_are_ours(tmp_path: Path) -> None:
    words = load("stories", tmp_path)
    for name, arch in (("gpt", GPT), ("bert", crammed_bert(16, 1, 2, 8, 32, vocab=2048, tokens=32))):
        door.export(arch, tmp_path / name, seed=0, tokenizer=words)
        read = transformers.AutoTokenizer.from_pretrained(tmp_path / name)
        assert read(TEXT)["input_ids"] == words.encode([TEXT])[0]
        assert read.decode(read(TEXT)["input_ids"]) == TEXT
        assert (read.eos_token_id, read.pad_token_id, read.mask_token_id) == tuple(
            map(words.role, ("end", "pad", "mask"))
        )
        assert read.model_max_length == 32


def test_generate_stops_at_the_end_of_a_document(tmp_path: Path) -> None:
    words = load("stories", tmp_path)
    twin = build(GPT, seed=0)
    with torch.no_grad():
        twin.embed.vocab.weight[words.role("end")] = 5 * twin.head.norm.weight
        twin.head.norm.bias.fill_(1.0)  # every next token is the end
    door.export(twin, tmp_path / "gpt", tokenizer=words)
    model = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "gpt").eval()
    read = transformers.AutoTokenizer.from_pretrained(tmp_path / "gpt")
    ids = model.generate(**read(TEXT, return_tensors="pt"), max_new_tokens=9, do_sample=False)
    assert ids[0].tolist() == [*words.encode([TEXT])[0], words.role("end")]


def test_a_tokenizer_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    words = load("stories", tmp_path)
    small = gpt2(16, 1, 2, 8, 32, vocab=100, tokens=32, positions=32)
    with pytest.raises(UserError, match="has 2048 ids and the model a vocabulary of 100"):
        door.export(small, tmp_path / "a", tokenizer=words)
    with pytest.raises(UserError, match="has 2048 ids and the model no vocabulary"):
        door.export(vit(16, 1, 2, 8, 32, image=8, patch=4, classes=4), tmp_path / "b", tokenizer=words)
    with pytest.raises(UserError, match=r"tokenizer bytes has no tokenizer\.json"):
        door.export(
            gpt2(16, 1, 2, 8, 32, vocab=300, tokens=32, positions=32), tmp_path / "c", tokenizer=load("bytes", tmp_path)
        )
