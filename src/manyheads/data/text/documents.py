"""Read documents from plain text, JSON lines and folders of Hugging Face datasets, also compressed (xz, gzip, bzip2).

For plain text the caller says what separates documents: `blank` (an empty line), `line`, `file`, or a text such as
<|endoftext|>."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import lzma
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any

from manyheads.spec.errors import UserError
from manyheads.spec.json_text import parse

from ..tables import TABLES, listed_tables, open_table

BETWEEN = {"blank": "\n\n", "line": "\n", "file": ""}
OPENERS: dict[str, Callable[..., Any]] = {".xz": lzma.open, ".gz": gzip.open, ".bz2": bz2.open}
JSON_LINES = (".jsonl", ".ndjson", ".json")
CHUNK = 1 << 20  # characters read at a time


def sources(paths: Sequence[Path]) -> list[Path]:
    """The files to read, in order. The folder of a Hugging Face dataset is replaced by its tables in alphabetical
    order."""
    files: list[Path] = []
    for path in paths:
        if path.is_dir():
            tables = listed_tables(path)
            if not tables:
                raise UserError(
                    f"{path} is a folder without .arrow or .parquet files; give a Hugging Face dataset's "
                    "folder, or the text files themselves"
                )
            files += tables
        elif path.is_file():
            files.append(path)
        else:
            raise UserError(f"{path} does not exist; give text files, JSON lines, or a Hugging Face dataset's folder")
    if not files:
        raise UserError("no files were given; name at least one to read")
    return files


def kind(path: Path) -> str:
    """`text`, `json` or `table`, by the ending of the file's name (without that of a compressed file)."""
    name = Path(path.name).stem if path.suffix in OPENERS else path.name
    ending = Path(name).suffix
    return "table" if ending in TABLES else "json" if ending in JSON_LINES else "text"


def documents(path: Path, *, between: str | None = None, field: str = "text") -> Iterator[str]:
    """The documents of one file, without white space at both ends. An empty document is an empty string."""
    match kind(path):
        case "table":
            return _table(path, field)
        case "json":
            return _json_lines(path, field)
        case _:
            if between is None:
                raise UserError(
                    f"{path} is plain text, which does not say where a document ends; write between=blank, "
                    "line, file, or the text that separates documents, such as '<|endoftext|>'"
                )
            return _plain(path, BETWEEN.get(between, between))


def all_documents(
    paths: Sequence[Path], *, between: str | None = None, field: str = "text", but_last: int = 0, only_last: int = 0
) -> Iterator[str]:
    """The documents of all files in order: all but the last `but_last` that have text, or the last `only_last`
    alone."""
    if min(but_last, only_last) < 0 or (but_last and only_last):
        raise UserError(f"but_last is {but_last} and only_last {only_last}; write one number of documents from 1 on")
    texts = (text for path in paths for text in documents(path, between=between, field=field))
    if only_last:
        return iter(deque(filter(None, texts), maxlen=only_last))
    return _but_last(texts, but_last)


def _but_last(texts: Iterable[str], count: int) -> Iterator[str]:
    """All documents but the last `count` that have text; one without text counts for nothing."""
    waiting: deque[str] = deque()
    for text in texts:
        if text:
            waiting.append(text)
        if len(waiting) > count or not text:
            yield waiting.popleft() if text else text


def digest(path: Path) -> str:
    """The sha256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def open_text(path: Path) -> IO[str]:
    """Open a file of text to read it, compressed or not."""
    opener = OPENERS.get(path.suffix, open)
    opened: IO[str] = opener(path, "rt", encoding="utf-8")
    return opened


def _readable(path: Path, parts: Iterator[str]) -> Iterator[str]:
    """Yield `parts`; if the file is damaged or in another encoding, raise a `UserError`."""
    try:
        yield from parts
    except UnicodeDecodeError as error:
        wrong = error.object[error.start]
        raise UserError(
            f"{path} is not UTF-8 ({error.reason}, byte {wrong:#04x}); convert it, for example with iconv"
        ) from None
    except (lzma.LZMAError, EOFError, gzip.BadGzipFile, OSError) as error:
        raise UserError(f"{path} cannot be read to its end: {error}; it is damaged or incomplete") from None


def _plain(path: Path, mark: str) -> Iterator[str]:
    def chunks() -> Iterator[str]:
        with open_text(path) as file:
            while chunk := file.read(CHUNK if mark else -1):
                yield chunk

    rest = ""  # the beginning of a document whose end has not been read yet
    for chunk in _readable(path, chunks()):
        *whole, rest = (rest + chunk).split(mark) if mark else (chunk,)
        for part in whole:
            yield part.strip()
    if rest.strip():
        yield rest.strip()


def _json_lines(path: Path, field: str) -> Iterator[str]:
    def lines() -> Iterator[str]:
        with open_text(path) as file:
            yield from file

    for number, line in enumerate(_readable(path, lines()), 1):
        if not line.strip():
            continue
        try:
            entry = parse(line, finite=False)
        except ValueError:
            raise UserError(
                f"line {number} of {path} is no JSON: {line[:60]!r}; write one object on each line"
            ) from None
        if not isinstance(entry, dict) or field not in entry:
            has = f"it has {', '.join(map(str, entry))}" if isinstance(entry, dict) else f"it is {line[:60]!r}"
            raise UserError(
                f"line {number} of {path} has no field {field!r} ({has}); name the field that holds the text"
            )
        if not isinstance(entry[field], str):
            raise UserError(
                f"field {field!r} in line {number} of {path} is {str(entry[field])[:40]!r}, which is no text"
            )
        yield entry[field].strip()


def _table(path: Path, field: str) -> Iterator[str]:
    table = open_table(path)
    if field not in table.columns:
        raise UserError(
            f"{path} has no column {field!r}; it has {', '.join(table.columns)}: name the column that holds the text"
        )
    for (text,) in table.rows([field]):
        yield (text or "").strip()
