"""Documents are found where they are said to be, in every format, and what cannot be read is told."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
from pathlib import Path

import pytest

from manyheads.data.text import documents as module
from manyheads.data.text.documents import all_documents, documents, sources
from manyheads.spec.errors import UserError

TEXT = "\ufefffirst line\nsecond line\n\nnext one é\n\n\n\nlast\n".removeprefix("\ufeff")
OPENERS = {".txt": open, ".txt.xz": lzma.open, ".txt.gz": gzip.open, ".txt.bz2": bz2.open}


@pytest.mark.parametrize("ending", OPENERS)
@pytest.mark.parametrize("chunk", [1, 3, 1 << 20])
def test_plain_text_is_cut_where_it_was_said(
    ending: str, chunk: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "CHUNK", chunk)
    path = tmp_path / f"a{ending}"
    with OPENERS[ending](path, "wt", encoding="utf-8") as file:  # type: ignore[operator]
        file.write(TEXT)
    assert list(documents(path, between="blank")) == ["first line\nsecond line", "next one é", "", "last"]
    assert list(documents(path, between="file")) == [TEXT.strip()]
    assert [line for line in documents(path, between="line") if line] == [
        "first line",
        "second line",
        "next one é",
        "last",
    ]
    assert list(documents(path, between="next one")) == ["first line\nsecond line", "é\n\n\n\nlast"]


def test_lines_of_windows_are_lines(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(TEXT.replace("\n", "\r\n").encode())
    assert len(list(documents(tmp_path / "a.txt", between="blank"))) == 4


def test_json_lines_give_the_named_field(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    rows = [{"text": " one\n", "n": 1}, {"text": "", "n": 2}, {"text": "three"}]
    path.write_text("\n".join(json.dumps(row) for row in rows) + "\n\n")
    assert list(documents(path)) == ["one", "", "three"]
    for line, words in [
        ("{", "line 4 of .* is no JSON"),
        ('{"body": "x"}', "no field 'text' .it has body"),
        ("[1]", "it is "),
        ('{"text": 7}', "which is no text"),
    ]:
        (tmp_path / "b.jsonl").write_text("\n".join(json.dumps(row) for row in rows) + f"\n{line}\n")
        with pytest.raises(UserError, match=words):
            list(documents(tmp_path / "b.jsonl"))


def test_a_dataset_folder_needs_pyarrow_and_says_so(tmp_path: Path) -> None:
    (tmp_path / "data-00000-of-00001.arrow").write_bytes(b"")
    (tmp_path / "cache-1.arrow").write_bytes(b"")
    found = sources([tmp_path])
    assert [path.name for path in found] == ["data-00000-of-00001.arrow"]
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        with pytest.raises(UserError, match="pip install pyarrow"):
            list(documents(found[0]))


@pytest.mark.parametrize("form", ["stream.arrow", "file.arrow", "part.parquet"])
def test_a_dataset_folder_gives_the_named_column(form: str, tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow", reason="pyarrow is installed by who reads Hugging Face datasets")
    table = arrow.table({"text": ["one ", None, "three"], "n": [1, 2, 3]})
    path = tmp_path / form
    if form.endswith("parquet"):
        import pyarrow.parquet

        pyarrow.parquet.write_table(table, path)
    else:
        make = arrow.ipc.new_stream if form.startswith("stream") else arrow.ipc.new_file
        with arrow.OSFile(str(path), "wb") as sink, make(sink, table.schema) as writer:
            writer.write_table(table)
    assert list(documents(path)) == ["one", "", "three"]
    with pytest.raises(UserError, match="no column 'body'; it has text, n"):
        list(documents(path, field="body"))
    with pytest.raises(UserError, match=r"column 'n' of .* holds '1', which is no text"):
        list(documents(path, field="n"))
    for damaged in (path.read_bytes()[:-40], b"PAR1", b""):
        path.write_bytes(damaged)
        with pytest.raises(UserError, match="cannot be read"):
            list(documents(path))


def test_what_cannot_be_read_is_told(tmp_path: Path) -> None:
    (tmp_path / "latin.txt").write_bytes("é".encode("latin-1"))
    (tmp_path / "cut.txt.xz").write_bytes(lzma.compress(b"text " * 1000)[:-20])
    (tmp_path / "no.txt.gz").write_bytes(b"text")
    (tmp_path / "a.txt").write_text("text")
    for name, words in [("latin.txt", "not UTF-8.*0xe9"), ("cut.txt.xz", "to its end"), ("no.txt.gz", "to its end")]:
        with pytest.raises(UserError, match=words):
            list(documents(tmp_path / name, between="blank"))
    with pytest.raises(UserError, match="does not say where a document ends"):
        documents(tmp_path / "a.txt")
    for paths, words in [([tmp_path / "none"], "does not exist"), ([], "no files"), ([tmp_path], "without .arrow")]:
        with pytest.raises(UserError, match=words):
            sources(paths)


@pytest.mark.parametrize("count", [0, 1, 2, 4, 9])
def test_the_last_documents_with_text_are_left_out_or_taken_alone(count: int, tmp_path: Path) -> None:
    """Of all files together; empty documents do not count, and are left out where the last ones are taken."""
    for name, texts in {"a": ["one", "", "two"], "b": ["three", "", "", "four", ""]}.items():
        (tmp_path / name).write_text("|".join(texts))
    files = [tmp_path / "a", tmp_path / "b"]
    whole = ["one", "two", "three", "four"]
    assert [text for text in all_documents(files, between="|", but_last=count) if text] == whole[: max(0, 4 - count)]
    if count:
        assert list(all_documents(files, between="|", only_last=count)) == whole[-count:]
    for wrong in ({"but_last": 1, "only_last": 1}, {"but_last": -1}, {"only_last": -1}):
        with pytest.raises(UserError, match="write one number of documents"):
            all_documents(files, between="|", **wrong)
