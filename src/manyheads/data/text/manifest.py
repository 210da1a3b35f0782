"""What a folder of shards holds, in its manifest.json: tokenizer, sources, counts, and a checksum of every shard."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from manyheads.spec.errors import UserError

SCHEMA = 1
MANIFEST, TOKENIZER = "manifest.json", "tokenizer.json"
DTYPES = {"uint16": 2**16, "uint32": 2**32}


@dataclass(frozen=True)
class Shard:
    """One file of little-endian ids. `text_bytes` is what they were in UTF-8, separators not counted; `largest` the
    highest id; `crc32` that of the ids."""

    file: str
    tokens: int
    documents: int
    empty: int
    text_bytes: int
    largest: int
    crc32: int


@dataclass(frozen=True)
class Source:
    """A file that was read."""

    name: str
    bytes: int
    sha256: str


@dataclass(frozen=True)
class Manifest:
    """All of a folder. `tokenizer` is its name, `digest` its sha256, `vocab` the number of its ids, `roles` its special
    tokens. After each document stands `separator`: an id, or a text that was tokenized with it. `between` and `field`
    say where the documents were found, `empty` how many had no text and were left out, `dropped` how many because they
    stand in the files `without`."""

    tokenizer: str
    digest: str
    vocab: int
    roles: dict[str, int]
    separator: int | str
    between: str | None
    field: str
    dtype: str
    empty: int
    sources: tuple[Source, ...]
    shards: tuple[Shard, ...]
    without: tuple[Source, ...] = ()
    dropped: int = 0
    schema: int = SCHEMA

    @property
    def tokens(self) -> int:
        """Ids in all shards, separators among them."""
        return sum(shard.tokens for shard in self.shards)

    @property
    def documents(self) -> int:
        """Documents that were not empty."""
        return sum(shard.documents for shard in self.shards)

    @property
    def text_bytes(self) -> int:
        """Bytes of text, in UTF-8."""
        return sum(shard.text_bytes for shard in self.shards)

    def save(self, folder: Path) -> None:
        """Write manifest.json, in one step."""
        write(folder / MANIFEST, json.dumps(asdict(self), indent=1, sort_keys=True) + "\n")


def load(folder: Path) -> Manifest:
    """The manifest of a folder; a missing, damaged or newer one is a sentence."""
    path = folder / MANIFEST
    if not path.is_file():
        state = (
            "is unfinished: run the same `manyheads tokenize` again"
            if list(folder.glob("shard-*"))
            else ("holds no shards; make some with `manyheads tokenize FILES --out FOLDER`")
        )
        raise UserError(f"{folder} has no {MANIFEST} and {state}")
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        if data.get("schema") != SCHEMA:
            raise UserError(f"{path} has schema {data.get('schema')!r}; this manyheads reads {SCHEMA}")
        parts = {"shards": tuple(Shard(**shard) for shard in data["shards"])}
        lists = {name: tuple(Source(**source) for source in data.get(name, ())) for name in ("sources", "without")}
        found = Manifest(**data | parts | lists)
    except UserError:
        raise
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise UserError(f"{path} is damaged ({error}); tokenize again into a new folder") from None
    _check(found, path)
    return found


def _check(found: Manifest, path: Path) -> None:
    wrong = [
        f"{name} is {value!r}"
        for name, value, good in (
            ("dtype", found.dtype, found.dtype in DTYPES),
            ("vocab", found.vocab, isinstance(found.vocab, int) and found.vocab > 0),
            ("shards", found.shards, bool(found.shards)),
        )
        if not good
    ]
    for shard in found.shards:
        counts = {field.name: getattr(shard, field.name) for field in fields(Shard) if field.type == "int"}
        wrong += [
            f"{name} of {shard.file} is {value!r}"
            for name, value in counts.items()
            if not isinstance(value, int) or value < 0
        ]
        if "/" in shard.file or ".." in shard.file:
            wrong.append(f"a shard is called {shard.file!r}")
    if wrong:
        raise UserError(f"{path} is damaged: {wrong[0]}; tokenize again into a new folder")
    high = max(found.shards, key=lambda shard: shard.largest)
    if high.largest >= found.vocab:
        raise UserError(
            f"{path}: {high.file} has ids up to {high.largest}, and tokenizer {found.tokenizer} has 0 to "
            f"{found.vocab - 1}; tokenize again with the right tokenizer"
        )


def write(path: Path, content: str | bytes) -> None:
    """Replace a file in one step: what is there is whole, whatever happens."""
    partial = path.with_name(path.name + ".partial")
    data: Any = content.encode() if isinstance(content, str) else content
    try:
        with partial.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise UserError(
            f"{path} cannot be written: {error.strerror or error}; what was there before is whole, make room "
            "and run the same command again"
        ) from error
