"""Shards: folders of token ids in memory-mapped files, with a manifest; together they are read as one long row of ids.

The manifest names the tokenizer and the source files and has the counts and a checksum of every shard."""

from __future__ import annotations

import json
import lzma
import zlib
from bisect import bisect_right
from dataclasses import asdict, dataclass, fields
from functools import lru_cache
from itertools import accumulate
from pathlib import Path

import numpy as np
from jaxtyping import Int

from manyheads.spec.errors import UserError
from manyheads.spec.files import dump, replace

from .vocabulary import BYTES, Vocabulary, read
from .vocabulary import load as named

SCHEMA = 1
CHECKED = 1 << 24  # bytes that a checksum reads at a time
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
class SourceFile:
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
    sources: tuple[SourceFile, ...]
    shards: tuple[Shard, ...]
    without: tuple[SourceFile, ...] = ()
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
        replace(folder / MANIFEST, dump(asdict(self), sort=True))


def read_manifest(folder: Path) -> Manifest:
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
        lists = {name: tuple(SourceFile(**source) for source in data.get(name, ())) for name in ("sources", "without")}
        found = Manifest(**data | parts | lists)
    except UserError:
        raise
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise UserError(f"{path} is damaged ({error}); tokenize again into a new folder") from None
    _check_manifest(found, path)
    return found


def _check_manifest(found: Manifest, path: Path) -> None:
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


class Tokens:
    """A row of ids that may lie in several files; `cut` gives a part of it without reading anything."""

    def __init__(self, parts: list[np.ndarray], first: int = 0, last: int | None = None) -> None:
        self.parts = parts
        self.ends = list(accumulate(len(part) for part in parts))
        self.first, self.last = first, self.ends[-1] if last is None else last

    def __len__(self) -> int:
        return self.last - self.first

    def cut(self, first: int, last: int) -> Tokens:
        """The ids from `first` up to, not including, `last`."""
        assert 0 <= first <= last <= len(self)
        return Tokens(self.parts, self.first + first, self.first + last)

    def read(self, start: int, count: int) -> np.ndarray:
        """`count` ids from `start` on, across files where they end."""
        at, stop = self.first + start, self.first + start + count
        assert start >= 0
        assert stop <= self.last
        part = bisect_right(self.ends, at)
        before = self.ends[part - 1] if part else 0
        found = self.parts[part][at - before : stop - before]
        if len(found) == count:
            return found
        return np.concatenate((found, Tokens(self.parts).read(at + len(found), count - len(found))))

    def rows(self, starts: Int[np.ndarray, " rows"], count: int) -> Int[np.ndarray, "rows count"]:
        """`count` ids from each of `starts` on."""
        out = np.empty((len(starts), count), dtype=np.int64)
        for row, start in zip(out, starts.tolist(), strict=True):
            row[:] = self.read(start, count)
        return out


@lru_cache(maxsize=8)
def open_shards(folder: Path) -> tuple[Manifest, Tokens]:
    """The manifest of a folder of shards and its ids; sizes and checksums have been compared (about 1 GB a second)."""
    manifest = read_manifest(folder)
    return manifest, Tokens([_read_shard(folder, shard, manifest.dtype) for shard in manifest.shards])


def _read_shard(folder: Path, shard: Shard, dtype: str) -> np.ndarray:
    path, kind = folder / shard.file, np.dtype(dtype).newbyteorder("<")
    again = "; delete the folder and tokenize again"
    try:
        if path.suffix == ".xz":
            data = np.frombuffer(lzma.decompress(path.read_bytes()), dtype=kind)
        elif path.stat().st_size != shard.tokens * kind.itemsize:
            raise UserError(
                f"{path} has {path.stat().st_size} bytes, and its manifest says {shard.tokens} ids of "
                f"{kind.itemsize}{again}"
            )
        else:
            data = np.memmap(path, dtype=kind, mode="r")
    except FileNotFoundError:
        raise UserError(f"{path} is missing, and the manifest beside it lists it{again}") from None
    except (OSError, ValueError, lzma.LZMAError) as error:
        raise UserError(f"{path} is damaged: {error}{again}") from None
    if len(data) != shard.tokens or checksum(data) != shard.crc32:
        raise UserError(f"{path} is damaged: its ids are not those that were written (checksum){again}")
    return data


def checksum(ids: np.ndarray) -> int:
    """crc32 of the bytes of `ids`."""
    found = 0
    flat = memoryview(ids.view(np.uint8))  # type: ignore[arg-type]  # an array is a buffer, which its stubs do not say
    for start in range(0, len(flat), CHECKED):
        found = zlib.crc32(flat[start : start + CHECKED], found)
    return found


def vocabulary(folder: Path) -> Vocabulary:
    """The tokenizer that shards were made with: a copy lies beside them."""
    manifest = read_manifest(folder)
    plain = named(BYTES, folder)
    if manifest.digest == plain.digest:
        return plain
    place = next((at / TOKENIZER for at in (folder, folder.parent) if (at / TOKENIZER).is_file()), folder / TOKENIZER)
    found = read(place, manifest.tokenizer)
    if found.digest != manifest.digest:
        raise UserError(
            f"{place} is not the tokenizer of these shards: its sha256 is {found.digest[:12]}, and the "
            f"manifest says {manifest.digest[:12]}; put the right one there"
        )
    return found
