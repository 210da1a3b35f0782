"""Tokenizing: the same shards in any number of processes, after any kill; nothing that was done is lost."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from manyheads.data.text.shards import Manifest, open_shards, vocabulary
from manyheads.data.text.tokenization import tokenize_files
from manyheads.data.text.tokenizer_training import train_tokenizer
from manyheads.data.text.vocabulary import Vocabulary, load, parse
from manyheads.spec.errors import UserError

BYTES = load("bytes", Path())


def written(folder: Path, documents: int = 40, name: str = "a.txt") -> Path:
    """A file of documents of different lengths, some of them empty."""
    texts = [f"Document {i}. " + "word " * (i % 7) if i % 9 else "" for i in range(documents)]
    path = folder / name
    path.write_text("\n<|endoftext|>\n".join(texts), encoding="utf-8")
    return path


def make(path: Path, out: Path, words: Vocabulary = BYTES, **how: object) -> Manifest:
    """Shards of about 200 characters."""
    return tokenize_files([path], out, words, **{"between": "<|endoftext|>", "piece": 200} | how)  # type: ignore[arg-type]


def content(folder: Path) -> dict[str, bytes]:
    """Every file of a folder."""
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_shards_hold_the_documents_with_a_separator_after_each(tmp_path: Path) -> None:
    path = written(tmp_path)
    made = make(path, tmp_path / "out")
    assert (made.documents, made.empty, made.dtype, made.separator, made.vocab) == (35, 5, "uint16", 1, 261)
    assert len(made.shards) > 4
    found, tokens = open_shards(tmp_path / "out")
    assert found == made
    row = tokens.read(0, len(tokens))
    texts = [part.strip() for part in path.read_text().split("<|endoftext|>")]
    cuts = np.flatnonzero(row == 1)
    assert row[-1] == 1
    assert [BYTES.decode(part) for part in np.split(row, cuts + 1)[:-1]] == [text for text in texts if text]
    assert made.text_bytes == sum(len(text) for text in texts) == made.tokens - 35
    assert made.sources[0].name == "a.txt"
    assert json.loads((tmp_path / "out" / "manifest.json").read_text())["schema"] == 1


def test_a_text_may_separate_documents_instead(tmp_path: Path) -> None:
    """As the TinyStories repository joins its stories: by a line break, without an end-of-text token."""
    make(written(tmp_path), tmp_path / "out", separator="\n")
    _, tokens = open_shards(tmp_path / "out")
    row = tokens.read(0, len(tokens))
    assert 1 not in row
    texts = [part.strip() for part in written(tmp_path).read_text().split("<|endoftext|>")]
    assert BYTES.decode(row) == "\n".join(text for text in texts if text) + "\n"


def test_documents_that_are_held_out_are_dropped_whatever_their_white_space(tmp_path: Path) -> None:
    path = written(tmp_path)
    (tmp_path / "held.txt").write_text("the end.\n\nDocument 1.\n\nword \n Document 23. word word")
    made = make(path, tmp_path / "out", without=[tmp_path / "held.txt"])
    assert (made.documents, made.empty, made.dropped) == (33, 5, 2)
    assert made.without[0].name == "held.txt"
    _, tokens = open_shards(tmp_path / "out")
    text = BYTES.decode(tokens.read(0, len(tokens)))
    assert "Document 1." not in text
    assert "Document 23." not in text
    assert "Document 2." in text
    with pytest.raises(UserError, match="other without"):
        make(path, tmp_path / "out")


def test_two_calls_divide_a_corpus_and_do_not_write_over_each_other(tmp_path: Path) -> None:
    path = written(tmp_path)
    whole, first, last = (
        make(path, tmp_path / name, **how)
        for name, how in (("whole", {}), ("first", {"but_last": 10}), ("last", {"only_last": 10}))
    )
    assert (first.documents, last.documents) == (25, 10)
    rows = [open_shards(tmp_path / name)[1] for name in ("whole", "first", "last")]
    ids = [row.read(0, len(row)).tolist() for row in rows]
    assert ids[0] == ids[1] + ids[2]
    assert (first.but_last, first.only_last, last.only_last, whole.but_last) == (10, 0, 10, 0)
    with pytest.raises(UserError, match="finished shards of other but_last"):
        make(path, tmp_path / "first")


def test_any_number_of_processes_writes_the_same_shards(tmp_path: Path) -> None:
    words = train_tokenizer("bpe", ["Document 1. word word 23456789 0"] * 3, 270)
    for workers in (1, 2):
        make(written(tmp_path), tmp_path / f"{workers}", words, workers=workers)
    assert content(tmp_path / "1") == content(tmp_path / "2")
    assert vocabulary(tmp_path / "2") == words


def test_a_run_that_was_interrupted_goes_on_and_does_nothing_twice(tmp_path: Path) -> None:
    path, out = written(tmp_path), tmp_path / "out"
    whole = make(path, tmp_path / "whole")
    told: list[int] = []

    def stop(shards: int, *_: int) -> None:
        if shards == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        make(path, out, progress=stop)
    with pytest.raises(UserError, match=r"no manifest.json and is unfinished: run the same"):
        open_shards(out)
    before = {name: (out / name).stat().st_mtime_ns for name in ("shard-000000.bin", "shard-000001.bin")}
    (out / "shard-000005.bin.partial").write_bytes(b"half")  # what a kill leaves
    assert make(path, out, progress=lambda shards, *_: told.append(shards)) == whole
    assert {name: (out / name).stat().st_mtime_ns for name in before} == before
    assert told == list(range(1, len(whole.shards) + 1))
    (out / "shard-000005.bin.partial").unlink(missing_ok=True)
    assert content(out) == content(tmp_path / "whole")
    stamp = (out / "manifest.json").stat().st_mtime_ns
    assert make(path, out) == whole  # finished: nothing to do
    assert (out / "manifest.json").stat().st_mtime_ns == stamp


def test_kill_9_loses_nothing_that_was_finished(tmp_path: Path) -> None:
    path, out = written(tmp_path, 1500), tmp_path / "out"
    code = f"""
import sys, time
from pathlib import Path
from manyheads.data.text.tokenization import tokenize_files
from manyheads.data.text.vocabulary import load
tokenize_files([Path({str(path)!r})], Path({str(out)!r}), load("bytes", Path()), between="<|endoftext|>", piece=500,
         progress=lambda *_: time.sleep(0.01))
"""
    process = subprocess.Popen([sys.executable, "-c", code])
    until = time.monotonic() + 60
    while len(list(out.glob("shard-*.json"))) < 5 and time.monotonic() < until:
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    finished = len(list(out.glob("shard-*.json")))
    assert finished >= 5
    assert not (out / "manifest.json").exists()
    resumed = make(path, out, piece=500)
    assert len(resumed.shards) > finished
    assert resumed == make(path, tmp_path / "whole", piece=500)
    open_shards(out)


def test_another_tokenization_is_not_written_over_the_first(tmp_path: Path) -> None:
    path, out = written(tmp_path), tmp_path / "out"
    make(path, out)
    kept = content(out)
    other = train_tokenizer("bpe", ["Document 1. word word 23456789 0"] * 3, 270)
    for how, words in [
        ({"words": other}, "finished shards of another tokenizer"),
        ({"separator": "\n"}, "other separator"),
        ({"between": "blank"}, "other between"),
        ({"path": written(tmp_path, 41, "b.txt")}, "other sources"),
    ]:
        with pytest.raises(UserError, match=words):
            make(**{"path": path, "out": out} | how)  # type: ignore[arg-type]
    assert content(out) == kept
    (out / "manifest.json").unlink()
    (out / "plan.json").write_text("{}")
    with pytest.raises(UserError, match="holds the beginning of another"):
        make(path, out)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.tex").write_text("")
    with pytest.raises(UserError, match=r"holds thesis.tex, which is no shard"):
        make(path, tmp_path / "full")


def test_nothing_but_empty_documents_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("\n\n \n\n\t\n\n")
    with pytest.raises(UserError, match=r"a.txt: no document has any text"):
        make(tmp_path / "a.txt", tmp_path / "out", between="blank")
    assert not (tmp_path / "out" / "manifest.json").exists()


def test_ids_that_the_tokenizer_does_not_have_are_refused(tmp_path: Path) -> None:
    class Wrong(Vocabulary):
        """Gives an id too many."""

        def encode(self, texts: object) -> list[list[int]]:
            return [[300] for _ in texts]  # type: ignore[attr-defined]

    with pytest.raises(UserError, match="gave ids from 1 to 300, and has 0 to 260"):
        make(written(tmp_path), tmp_path / "out", Wrong(**BYTES.__dict__))


def test_a_large_vocabulary_takes_four_bytes(tmp_path: Path) -> None:
    data = {
        "model": {
            "type": "WordLevel",
            "vocab": {f"w{i}": i for i in range(70_000)} | {"</s>": 70_000},
            "unk_token": "w0",
        },
        "added_tokens": [],
        "pre_tokenizer": {"type": "WhitespaceSplit"},
    }
    usual = {"version": "1.0", "normalizer": None, "post_processor": None, "decoder": None}
    words = parse(json.dumps(usual | data), "many")
    (tmp_path / "a.txt").write_text("w7 w69999")
    assert make(tmp_path / "a.txt", tmp_path / "out", words, between="blank").dtype == "uint32"
    assert open_shards(tmp_path / "out")[1].read(0, 3).tolist() == [7, 69_999, 70_000]


def test_a_full_disk_is_a_sentence_and_what_is_there_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, out = written(tmp_path), tmp_path / "out"

    def full(descriptor: int) -> None:
        if len(list(out.glob("shard-*.json"))) >= 2:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(UserError, match=r"cannot be written: No space left on device; .* make room and start again"):
        make(path, out)
    monkeypatch.undo()
    assert not list(out.glob("*.partial"))
    assert make(path, out) == make(path, tmp_path / "whole")


@pytest.mark.parametrize("how", [{"workers": 0}, {"piece": 0}, {"between": None}])
def test_wrong_settings_are_told(how: dict[str, object], tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"from 1 up|where a document ends"):
        make(written(tmp_path), tmp_path / "out", **how)
