"""Shards: folders of token ids in memory-mapped files, with a manifest; together they are read as one long row of ids.

The manifest names the tokenizer and the source files and has the counts and a checksum of every shard."""

from __future__ import annotations

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
from manyheads.spec.field_checks import check_types, shown
from manyheads.spec.files import dump, replace
from manyheads.spec.json_text import parse

from ..local_data import read_at_most
from .vocabulary import BYTES, Vocabulary, read
from .vocabulary import load as named

SCHEMA = 1
CHECKED = 1 << 24  # bytes that a checksum reads at a time
MANIFEST, TOKENIZER = "manifest.json", "tokenizer.json"
DTYPES = {"uint16": 2**16, "uint32": 2**32}


@dataclass(frozen=True, kw_only=True)
class Shard:
    """One file of little-endian ids. `text_bytes` is the length of their text in UTF-8 without separators, `largest`
    the highest id, `crc32` the checksum of the ids."""

    file: str
    tokens: int
    documents: int
    empty: int
    text_bytes: int
    largest: int
    crc32: int


@dataclass(frozen=True)
class SourceFile:
    """A source file of the corpus."""

    name: str
    bytes: int
    sha256: str


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """What a folder of shards holds.

    `tokenizer` is the name of the tokenizer, `digest` its sha256, `vocab` the number of its ids, `roles` its special
    tokens. `separator` comes after each document: an id, or a text that was tokenized with the document. `between` and
    `field` say how documents were found in the `sources`. `empty` documents had no text and `dropped` ones occur in the
    held-out files `without`; both were left out. Of the sources' documents, the last `but_last` were not read, or the last
    `only_last` alone; 0 means that all were."""

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
    but_last: int = 0
    only_last: int = 0
    schema: int = SCHEMA

    @property
    def tokens(self) -> int:
        """The number of ids in all shards, including separators."""
        return sum(shard.tokens for shard in self.shards)

    @property
    def documents(self) -> int:
        """The number of documents that were not empty."""
        return sum(shard.documents for shard in self.shards)

    @property
    def text_bytes(self) -> int:
        """The length of all text in bytes of UTF-8."""
        return sum(shard.text_bytes for shard in self.shards)

    def save(self, folder: Path) -> None:
        """Write manifest.json."""
        replace(folder / MANIFEST, dump(asdict(self), sort=True))


class Newer(UserError):
    """The manifest is of a schema that this version does not read."""


def read_manifest(folder: Path) -> Manifest:
    """The manifest of a folder. A `UserError` says when it is missing, damaged or of a newer schema."""
    path = folder / MANIFEST
    if not path.is_file():
        state = (
            "is unfinished: run the same `manyheads tokenize` again"
            if list(folder.glob("shard-*"))
            else ("holds no shards; make some with `manyheads tokenize FILES --out FOLDER`")
        )
        raise UserError(f"{folder} has no {MANIFEST} and {state}")
    try:
        data = parse(path.read_bytes())
        if (schema := data.get("schema")) != SCHEMA:
            raise Newer(f"{path} has schema {shown(schema)}; this manyheads reads {SCHEMA}")
        parts = {"shards": tuple(Shard(**shard) for shard in data["shards"])}
        lists = {name: tuple(SourceFile(**source) for source in data.get(name, ())) for name in ("sources", "without")}
        manifest = Manifest(**data | parts | lists)
        for i, shard in enumerate(manifest.shards):
            check_types(shard, f"shards[{i}]")
        for name, sources in lists.items():
            for i, source in enumerate(sources):
                check_types(source, f"{name}[{i}]")
        check_types(manifest, "manifest")
    except Newer:
        raise
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise UserError(f"{path} is damaged ({error}); tokenize again into a new folder") from None
    _check_manifest(manifest, path)
    return manifest


def _check_manifest(manifest: Manifest, path: Path) -> None:
    wrong = [
        f"{name} is {value!r}"
        for name, value, good in (
            ("dtype", manifest.dtype, manifest.dtype in DTYPES),
            ("vocab", manifest.vocab, isinstance(manifest.vocab, int) and manifest.vocab > 0),
            ("shards", manifest.shards, bool(manifest.shards)),
        )
        if not good
    ]
    wrong += [f"role {name} is {number!r}" for name, number in manifest.roles.items() if not isinstance(number, int)]
    for shard in manifest.shards:
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
    high = max(manifest.shards, key=lambda shard: shard.largest)
    if high.largest >= manifest.vocab:
        raise UserError(
            f"{path}: {high.file} has ids up to {high.largest}, and tokenizer {manifest.tokenizer} has 0 to "
            f"{manifest.vocab - 1}; tokenize again with the right tokenizer"
        )


class Tokens:
    """A long row of ids, stored in one or several arrays."""

    def __init__(self, parts: list[np.ndarray], first: int = 0, last: int | None = None) -> None:
        self.parts = parts
        self.ends = list(accumulate(len(part) for part in parts))
        self.first, self.last = first, self.ends[-1] if last is None else last

    def __len__(self) -> int:
        return self.last - self.first

    def cut(self, first: int, last: int) -> Tokens:
        """The ids from `first` up to, but not including, `last`; nothing is read."""
        assert 0 <= first <= last <= len(self)
        return Tokens(self.parts, self.first + first, self.first + last)

    def read(self, start: int, count: int) -> np.ndarray:
        """`count` ids from `start` on, from as many arrays as they reach over."""
        at, stop = self.first + start, self.first + start + count
        assert start >= 0
        assert stop <= self.last
        part = bisect_right(self.ends, at)
        before = self.ends[part - 1] if part else 0
        ids = self.parts[part][at - before : stop - before]
        if len(ids) == count:
            return ids
        return np.concatenate((ids, Tokens(self.parts).read(at + len(ids), count - len(ids))))

    def rows(self, starts: Int[np.ndarray, " rows"], count: int) -> Int[np.ndarray, "rows count"]:
        """`count` ids from each of `starts` on."""
        rows = np.empty((len(starts), count), dtype=np.int64)
        for row, start in zip(rows, starts.tolist(), strict=True):
            row[:] = self.read(start, count)
        return rows


@lru_cache(maxsize=8)
def open_shards(folder: Path) -> tuple[Manifest, Tokens]:
    """The manifest and the ids of a folder of shards. Sizes and checksums are compared first (about 1 GB a second)."""
    manifest = read_manifest(folder)
    return manifest, Tokens([_read_shard(folder, shard, manifest.dtype) for shard in manifest.shards])


def _read_shard(folder: Path, shard: Shard, dtype: str) -> np.ndarray:
    path, kind = folder / shard.file, np.dtype(dtype).newbyteorder("<")
    again = "; delete the folder and tokenize again"
    try:
        if path.suffix == ".xz":
            with lzma.open(path) as file:
                inflated = read_at_most(file, shard.tokens * kind.itemsize)
            if len(inflated) != shard.tokens * kind.itemsize:
                raise UserError(
                    f"{path} does not inflate to the {shard.tokens} ids of {kind.itemsize} bytes that its manifest "
                    f"says{again}"
                )
            data = np.frombuffer(inflated, dtype=kind)
        elif path.stat().st_size != shard.tokens * kind.itemsize:
            raise UserError(
                f"{path} has {path.stat().st_size} bytes, and its manifest says {shard.tokens} ids of "
                f"{kind.itemsize}{again}"
            )
        else:
            data = np.memmap(path, dtype=kind, mode="r")
    except FileNotFoundError:
        raise UserError(f"{path} is missing, but the manifest lists it{again}") from None
    except UserError:
        raise
    except (OSError, EOFError, ValueError, lzma.LZMAError) as error:
        raise UserError(f"{path} is damaged: {error}{again}") from None
    if len(data) != shard.tokens or checksum(data) != shard.crc32:
        raise UserError(f"{path} is damaged: its ids are not those that were written (checksum){again}")
    return data


def checksum(ids: np.ndarray) -> int:
    """The CRC-32 of the bytes of `ids`."""
    crc = 0
    flat = memoryview(ids.view(np.uint8))  # type: ignore[arg-type]  # an array is a buffer, which its stubs do not say
    for start in range(0, len(flat), CHECKED):
        crc = zlib.crc32(flat[start : start + CHECKED], crc)
    return crc


def vocabulary(folder: Path) -> Vocabulary:
    """The tokenizer that the shards were made with, from the copy in their folder or the one above it."""
    manifest = read_manifest(folder)
    plain = named(BYTES, folder)
    if manifest.digest == plain.digest:
        return plain
    place = next((at / TOKENIZER for at in (folder, folder.parent) if (at / TOKENIZER).is_file()), folder / TOKENIZER)
    tokenizer = read(place, manifest.tokenizer)
    if tokenizer.digest != manifest.digest:
        raise UserError(
            f"{place} is not the tokenizer of these shards: its sha256 is {tokenizer.digest[:12]}, and the "
            f"manifest says {manifest.digest[:12]}; put the right one there"
        )
    return tokenizer
