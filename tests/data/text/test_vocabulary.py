"""Tokenizers: sizes and special tokens without the package, the same ids as the originals', mistakes told."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from manyheads.data.text import vocabulary
from manyheads.data.text.tokenizer_training import train_tokenizer
from manyheads.data.text.vocabulary import load, parse
from manyheads.spec.errors import UserError

TEXTS = ["Once upon a time, there was a little café.", "The cat sat on the mat; the dog \t ran. 猫", "x" * 50]
STORY = "Tom and Lily played in the park. They saw a big red ball and ran to it. " * 4


def test_bytes_need_no_package_and_give_any_text_back(tmp_path: Path) -> None:
    words = load("bytes", tmp_path)
    assert (words.size, words.roles) == (261, {"pad": 0, "end": 1, "cls": 2, "sep": 3, "mask": 4})
    ids = words.encode(TEXTS)
    assert [words.decode([1, *row, 0]) for row in ids] == TEXTS
    assert min(map(min, ids)) >= 5
    assert words.decode([5 + 0xE7]) == "\ufffd"  # half a character


def test_the_embedded_tokenizer_gives_any_text_back(tmp_path: Path) -> None:
    words = load("stories", tmp_path)
    assert (words.size, words.roles) == (2048, {"pad": 0, "end": 1, "cls": 2, "sep": 3, "mask": 4})
    ids = words.encode(TEXTS)
    assert [words.decode(row) for row in ids] == TEXTS
    assert len(ids[0]) < len(TEXTS[0]) / 2


def test_special_tokens_in_a_text_are_text(tmp_path: Path) -> None:
    for name in ("bytes", "stories"):
        words = load(name, tmp_path)
        (ids,) = words.encode(["a <mask> b<|endoftext|>"])
        assert not {1, 4} & set(ids)
        assert words.decode(ids) == "a <mask> b<|endoftext|>"


def test_gpt2s_files_give_gpt2s_tokenizer(tmp_path: Path) -> None:
    """Files of the two names under which they are found, read as the package's own ByteLevelBPETokenizer reads them."""
    tokenizers = pytest.importorskip("tokenizers", reason="tokenizers is in the dev extra")
    trained = train_tokenizer("bpe", [STORY, *TEXTS], 300)
    model = json.loads(trained.text)["model"]
    vocab, merges = json.dumps(model["vocab"]), "#version: 0.2\n" + "\n".join(model["merges"]) + "\n"
    for folder, names in (
        ("tokenizers", ("encoder.json", "vocab.bpe")),
        ("tokenizers/gpt2", ("vocab.json", "merges.txt")),
    ):
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
        for name, content in zip(names, (vocab, merges), strict=True):
            (tmp_path / folder / name).write_text(content, encoding="utf-8")
        words = load("gpt2", tmp_path)
        assert words.roles["end"] == 1
        theirs = tokenizers.ByteLevelBPETokenizer(*(str(tmp_path / folder / name) for name in names))
        for text in (STORY, *TEXTS):
            assert words.encode([text])[0] == theirs.encode(text).ids
    assert words.digest == load(str(tmp_path / "tokenizers/gpt2"), tmp_path).digest


def test_berts_word_pieces_are_those_of_the_package(tmp_path: Path) -> None:
    tokenizers = pytest.importorskip("tokenizers", reason="tokenizers is in the dev extra")
    pieces = [
        "[PAD]",
        "[UNK]",
        "[CLS]",
        "[SEP]",
        "[MASK]",
        *"abcdefghijklmnopqrstuvwxyz.,!",
        "##s",
        "##ed",
        "play",
        "cafe",
    ]
    pieces += [f"##{letter}" for letter in "acdeilnprtuvy"]
    path = tmp_path / "bert-base-uncased-vocab.txt"
    path.write_text("\n".join(pieces), encoding="utf-8")
    words = load(str(path), tmp_path)
    assert words.roles == {"pad": 0, "end": 3, "cls": 2, "sep": 3, "mask": 4}
    theirs = tokenizers.BertWordPieceTokenizer(str(path))
    for text in ("Played a Café, plays!", "zzz played", ""):
        assert words.encode([text])[0] == theirs.encode(text, add_special_tokens=False).ids
    assert words.decode(words.encode(["Played a Café!"])[0]) == "played a cafe!"


@pytest.mark.parametrize("kind", ["bpe", "wordpiece"])
def test_training_gives_the_size_asked_for_and_the_same_tokenizer_twice(kind: str) -> None:
    size = 300 if kind == "bpe" else 60
    first, second = (train_tokenizer(kind, iter([STORY, *TEXTS]), size) for _ in range(2))  # type: ignore[arg-type]
    assert first == second
    assert first.size == size
    assert first.roles == {"pad": 0, "end": 1, "cls": 2, "sep": 3, "mask": 4}
    assert parse(first.text, first.name).encode([STORY]) == first.encode([STORY])
    told = {"bpe": STORY, "wordpiece": STORY.lower().replace(".", " .")}[kind]
    assert first.decode(first.encode([STORY])[0]).split() == told.replace(" .", ".").split()


def test_a_crammed_wordpiece_is_lower_case_ascii() -> None:
    words = train_tokenizer("wordpiece", [STORY, "cafe naive"], 60)
    assert words.encode(["CAFÉ  naïve 猫"]) == words.encode(["cafe naive "])
    assert words.encode(["``ball''"]) == words.encode(['"ball"'])


def test_mistakes_are_told(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text("{}")
    (tmp_path / "vocab.txt").write_text("a\nb\n")
    (tmp_path / "empty").mkdir()
    for name, words in [
        ("storys", "did you mean stories"),
        ("gpt2", r"gpt2 is not at .*tokenizers/gpt2.*encoder.json"),
        (str(tmp_path / "tokenizer.json"), "no model with a vocabulary"),
        (str(tmp_path / "vocab.txt"), r"no \[UNK\]"),
        (str(tmp_path / "empty"), "holds no tokenizer"),
    ]:
        with pytest.raises(UserError, match=words):
            load(name, tmp_path)
    with pytest.raises(UserError, match="id 300 is none of tokenizer bytes"):
        load("bytes", tmp_path).decode([300])
    with pytest.raises(UserError, match="write size=2"):
        train_tokenizer("bpe", ["a b"], 2000)
    with pytest.raises(UserError, match="more than 261"):
        train_tokenizer("bpe", [STORY], 100)
    bare = parse(json.dumps({"model": {"vocab": {"a": 0}}, "added_tokens": []}), "bare")
    with pytest.raises(UserError, match=r"bare has no token <mask> or \[MASK\]"):
        bare.role("mask")


def test_without_the_package_a_tokenizer_says_what_to_install(tmp_path: Path) -> None:
    code = f"""
import sys
sys.modules["tokenizers"] = None
from pathlib import Path
from manyheads.spec.errors import UserError
from manyheads.data.text.vocabulary import load
root = Path({str(tmp_path)!r})
assert load("bytes", root).decode(load("bytes", root).encode(["text"])[0]) == "text"
assert load("stories", root).size == 2048
try:
    load("stories", root).encode(["text"])
except UserError as error:
    assert "pip install tokenizers" in str(error), error
else:
    raise AssertionError("encoded without the package")
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_damaged_tokenizer_is_a_sentence(tmp_path: Path) -> None:
    text = load("stories", tmp_path).text.replace('"BPE"', '"ABC"')
    with pytest.raises(UserError, match="tokenizer broken cannot be read"):
        parse(text, "broken").encode(["a"])
    assert vocabulary.EMBEDDED.is_file()
