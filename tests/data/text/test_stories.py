"""The embedded stories are the stated part of TinyStories, byte for byte, with their licence."""

from __future__ import annotations

import hashlib
import lzma
import re
from pathlib import Path

import numpy as np

from manyheads.data.text.corpora import EMBEDDED, corpus, tokenizer
from manyheads.spec.datasets import CORPUS_VOCAB

from .pack_stories import BEGINS, held_out, kept, pack

# Of the decoded text, stories joined by a line of <|endoftext|>: what the sources were when the folder was packed.
DIGESTS = {
    "train": "ac794cb4910e4fffdb3bc3279be26853d296238efc659d8c5d8f911d76d36631",
    "valid": "2c307cdf6f7602500f8974fac5eccbf5d4fff360b731781e45d058d7e57b0a0c",
}
COUNTS = {"train": (5000, 1_136_346), "valid": (788, 215_789)}


def stories() -> dict[str, list[str]]:
    """The text of both splits."""
    found, words = corpus("tinystories", Path()), tokenizer("tinystories", Path())
    out = {}
    for name, split in (("train", found.train), ("valid", found.held)):
        row = split.tokens.read(0, len(split.tokens)).astype(np.int64)
        out[name] = [words.decode(part) for part in np.split(row, np.flatnonzero(row == 1) + 1)[:-1]]
    return out


def test_decoding_gives_the_text_that_was_packed() -> None:
    found = stories()
    for name, digest in DIGESTS.items():
        text = "\n<|endoftext|>\n".join(found[name])
        assert hashlib.sha256(text.encode()).hexdigest() == digest
        split = corpus("tinystories", Path())
        manifest = (split.train if name == "train" else split.held).manifest
        assert (manifest.documents, manifest.tokens) == COUNTS[name]
        assert manifest.sources[0].sha256 == digest
    assert not set(found["train"]) & set(found["valid"])
    held = " ".join(" ".join(story.split()) for story in found["valid"])
    assert not [story for story in found["train"] if " ".join(story.split()) in held]
    assert sum(bool(BEGINS.match(story)) for story in found["train"]) > 0.6 * 5000
    assert not [story for story in found["train"] for line in story.split("\n")[1:] if BEGINS.match(line)]


def test_encoding_the_text_gives_the_ids() -> None:
    found, words, split = stories(), tokenizer("tinystories", Path()), corpus("tinystories", Path())
    ids = [i for row in words.encode(found["valid"]) for i in (*row, 1)]
    assert ids == split.held.tokens.read(0, len(split.held.tokens)).tolist()
    assert words.size == CORPUS_VOCAB["tinystories"] == split.train.manifest.vocab


def test_licence_and_notice_stand_beside_it() -> None:
    licence, notice = (EMBEDDED / "LICENSE").read_text(), (EMBEDDED / "NOTICE").read_text()
    assert licence.startswith("Community Data License Agreement - Sharing - Version 1.0")
    assert [f"Section {i}." in licence for i in range(1, 8)] == [True] * 7
    for words in (
        "CDLA-Sharing-1.0",
        "Eldan",
        "THESE FILES WERE CHANGED",
        "1,136,346",
        "215,789",
        "https://huggingface.co",
    ):
        assert words in notice
    size = sum(path.stat().st_size for path in EMBEDDED.rglob("*") if path.is_file())
    assert size < 1.05e6


def test_packing_drops_what_is_also_held_out_and_finds_beginnings(tmp_path: Path) -> None:
    train = ["Once upon a time there was a cat.\nIt sat.", "One day, a dog ran.", "Once upon a time\na bird sang."]
    valid = "the end of it.\n\nOnce upon a time\n\na bird sang.\n\nOnce there was a frog.\n\nOne day, it slept."
    assert held_out(valid) == ["Once upon a time\na bird sang.", "Once there was a frog.\nOne day, it slept."]
    assert kept(train, valid, 9) == train[:2]
    for name, text in (("train", "\n<|endoftext|>\n".join(train * 3)), ("valid", valid)):
        with lzma.open(tmp_path / f"{name}.txt.xz", "wt", encoding="utf-8") as file:
            file.write(text)
    pack(tmp_path / "train.txt.xz", tmp_path / "valid.txt.xz", tmp_path / "out", 4, 270)
    names = sorted(str(path.relative_to(tmp_path / "out")) for path in (tmp_path / "out").rglob("*") if path.is_file())
    assert names == [
        "tokenizer.json",
        "train/manifest.json",
        "train/shard-000000.bin.xz",
        "valid/manifest.json",
        "valid/shard-000000.bin.xz",
    ]
    assert re.search(r'"documents": 4', (tmp_path / "out/train/manifest.json").read_text())
