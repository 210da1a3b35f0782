"""Shards are read across their borders; a damaged, missing or foreign one is told, with its name."""

from __future__ import annotations

import json
import lzma
import shutil
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from manyheads.data.text.corpora import corpus, tokenizer
from manyheads.data.text.shards import Tokens, open_shards, vocabulary
from manyheads.data.text.tokenization import tokenize_files
from manyheads.data.text.vocabulary import load
from manyheads.spec.errors import UserError

BYTES, STORIES = load("bytes", Path()), load("stories", Path())
TEXT = "\n\n".join(f"This is document {i}, and that is all it says." for i in range(60))


@pytest.fixture
def made(tmp_path: Path) -> Path:
    """A corpus with both splits, of several shards each."""
    for split in ("train", "valid"):
        source = tmp_path / f"{split}.txt"
        source.write_text(TEXT if split == "train" else TEXT[:900])
        tokenize_files([source], tmp_path / "corpus" / split, STORIES, between="blank", piece=300)
    return tmp_path


def test_a_row_is_read_across_files() -> None:
    whole = np.arange(100)
    tokens = Tokens([whole[:7], whole[7:8], whole[8:60], whole[60:]])
    for start in range(100):
        for count in (0, 1, 5, 60):
            if start + count <= 100:
                assert tokens.read(start, count).tolist() == list(range(start, start + count))
    part = tokens.cut(5, 70).cut(1, 60)
    assert len(part) == 59
    assert part.read(0, 59).tolist() == list(range(6, 65))
    assert part.rows(np.array([0, 54]), 5).tolist() == [[6, 7, 8, 9, 10], [60, 61, 62, 63, 64]]
    for start, count in ((0, 60), (55, 5), (-1, 2)):
        with pytest.raises(AssertionError):
            part.read(start, count)


def test_a_corpus_has_its_splits_and_its_tokenizer(made: Path) -> None:
    found = corpus("shards:corpus", made)
    assert len(found.train.manifest.shards) > 5
    assert STORIES.decode(found.train.tokens.read(0, 8)) == TEXT[: len(STORIES.decode(found.train.tokens.read(0, 8)))]
    assert found.train.bytes_per_token == pytest.approx((len(TEXT) - 2 * 59) / len(found.train.tokens))
    assert found.roles["mask"] == 4
    assert tokenizer("shards:corpus", made) == STORIES
    last = corpus("shards:corpus", made, held=0.1)
    count = len(found.train.tokens)
    assert (len(last.train.tokens), len(last.held.tokens)) == (int(0.9 * count), count - int(0.9 * count))
    assert last.held.tokens.read(0, 5).tolist() == found.train.tokens.read(int(0.9 * count), 5).tolist()


def damage(name: str, change: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    """A change to one file."""
    return lambda folder: (folder / name).write_bytes(change((folder / name).read_bytes())) and None


def manifest(change: Callable[[dict], object]) -> Callable[[Path], None]:
    """A change to the manifest."""

    def act(folder: Path) -> None:
        data = json.loads((folder / "manifest.json").read_text())
        change(data)
        (folder / "manifest.json").write_text(json.dumps(data))

    return act


def flip(data: bytes) -> bytes:
    """One bit, in the middle."""
    return data[:20] + bytes([data[20] ^ 4]) + data[21:]


def bomb(size: int) -> Callable[[Path], None]:
    """In the place of a shard, a small file that inflates to `size` bytes."""

    def act(folder: Path) -> None:
        data = json.loads((folder / "manifest.json").read_text())
        data["shards"][0]["file"] = "shard-000000.bin.xz"
        (folder / "manifest.json").write_text(json.dumps(data))
        (folder / "shard-000000.bin.xz").write_bytes(lzma.compress(bytes(size), preset=1))

    return act


CASES = {
    "bomb": (bomb(100_000_000), r"shard-000000.bin.xz does not inflate to the \d+ ids of 2 bytes"),
    "too little": (bomb(10), r"shard-000000.bin.xz does not inflate to the \d+ ids of 2 bytes"),
    "name is a number": (manifest(lambda data: data["shards"][0].update(file=5)), r"shards\[0\].file is 5; write text"),
    "dtype is a list": (manifest(lambda data: data.update(dtype=["uint16"])), "manifest.dtype is .*; write text"),
    "shards is a number": (manifest(lambda data: data.update(shards=3)), "manifest.json is damaged"),
    "source": (manifest(lambda data: data["sources"][0].update(bytes="x")), r"sources\[0\].bytes is 'x'"),
    "role": (manifest(lambda data: data["roles"].update(end="x")), "role end is 'x'"),
    "vocab is too large": (manifest(lambda data: data.update(vocab=10**400)), "whole number of 401 digits"),
    "nested": (damage("manifest.json", lambda data: b"[" * 5000 + b"]" * 5000), "nested more than 100 deep"),
    "a bit flipped": (damage("shard-000002.bin", flip), r"shard-000002.bin is damaged: .*checksum"),
    "cut short": (
        damage("shard-000001.bin", lambda data: data[:-2]),
        r"shard-000001.bin has \d+ bytes, and its manifest",
    ),
    "missing": (lambda folder: (folder / "shard-000003.bin").unlink(), r"shard-000003.bin is missing"),
    "no manifest": (lambda folder: (folder / "manifest.json").unlink(), "no manifest.json and is unfinished"),
    "manifest cut": (damage("manifest.json", lambda data: data[:-30]), r"manifest.json is damaged"),
    "newer": (manifest(lambda data: data.update(schema=2)), "has schema 2; this manyheads reads 1"),
    "field lost": (manifest(lambda data: data.pop("vocab")), "is damaged .*vocab"),
    "another type": (
        manifest(lambda data: data["shards"][0].update(tokens="7")),
        r"shards\[0\].tokens is '7'; write a whole number",
    ),
    "elsewhere": (manifest(lambda data: data["shards"][0].update(file="../x.bin")), "a shard is called"),
    "dtype": (manifest(lambda data: data.update(dtype="object")), "dtype is 'object'"),
    "id too high": (
        manifest(lambda data: data.update(vocab=100)),
        r"has ids up to \d+, and tokenizer stories has 0 to 99",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_damage_is_told_and_nothing_is_repaired_in_silence(case: str, made: Path) -> None:
    act, words = CASES[case]
    folder = made / "corpus" / "train"
    act(folder)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    for read in (lambda: open_shards(folder), lambda: corpus("shards:corpus", made)):
        with pytest.raises(UserError, match=words):
            read()
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_no_more_of_a_shard_is_inflated_than_its_manifest_says(made: Path) -> None:
    folder = made / "corpus" / "train"
    bomb(100_000_000)(folder)
    assert (folder / "shard-000000.bin.xz").stat().st_size < 20_000
    tracemalloc.start()
    try:
        with pytest.raises(UserError, match="does not inflate"):
            open_shards(folder)
        assert tracemalloc.get_traced_memory()[1] < 10_000_000
    finally:
        tracemalloc.stop()


def test_a_tokenizer_that_does_not_match_is_told(made: Path) -> None:
    (made / "valid2.txt").write_text(TEXT)
    shutil.rmtree(made / "corpus" / "valid")
    tokenize_files([made / "valid2.txt"], made / "corpus" / "valid", BYTES, between="blank")
    with pytest.raises(UserError, match=r"train was made with tokenizer stories .* and valid with bytes"):
        corpus("shards:corpus", made)
    copy = made / "corpus" / "train" / "tokenizer.json"
    copy.write_text(copy.read_text().replace("<mask>", "<musk>"))
    with pytest.raises(UserError, match="is not the tokenizer of these shards"):
        vocabulary(made / "corpus" / "train")


def test_a_corpus_that_is_not_there_says_how_to_make_it(made: Path) -> None:
    (made / "bare").mkdir()
    for name, words in [
        ("shards:other", "is not at .*other; write it with `manyheads tokenize FILES"),
        ("tinystory", "did you mean tiny"),
        ("shards:", "is no corpus"),
        ("shards:corpus/train", "shards, not splits"),
        ("shards:bare", "holds no shards"),
    ]:
        with pytest.raises(UserError, match=words):
            corpus(name, made)
    shutil.rmtree(made / "corpus" / "valid")
    with pytest.raises(UserError, match=r"no folder valid; .* write held=0.1"):
        corpus("shards:corpus", made)
