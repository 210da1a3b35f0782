"""`Sequences`: labelled byte sequences of any length, in memory or in files that are mapped into memory.

A file consists of a header (magic, samples, documents of a sample, bytes, CRC-32 of all that follows), then labels and
lengths as little-endian uint32, then the bytes of all documents in order."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int, UInt8

from manyheads.spec.errors import UserError
from manyheads.spec.files import writing

from ..randomness import Indices, balanced

MAGIC = b"MHSEQ01\0"
HEADER = struct.Struct("<8sIIQI4x")
Lengths = Int[np.ndarray, " documents"]


@dataclass(frozen=True)
class Sequences:
    """Samples that consist of one or two documents each.

    Document d is `length[d]` bytes of `stores[store[d]]`, beginning at `start[d]`. A row of `documents` lists the
    documents of one sample."""

    stores: tuple[UInt8[np.ndarray, " bytes"], ...]
    store: Lengths
    start: Lengths
    length: Lengths
    documents: Int[np.ndarray, "samples documents"]
    labels: Indices

    def __len__(self) -> int:
        return len(self.labels)

    def at(self, samples: Indices) -> Sequences:
        """These samples alone, in this order."""
        return replace(self, documents=self.documents[samples], labels=self.labels[samples])

    def first(self, limit: int) -> Sequences:
        """The first samples of each class, equally many where possible, at most `limit` in all, in the same order."""
        return self if limit >= len(self) else self.at(np.sort(balanced(self.labels, limit)))

    def cut(self, longest: int) -> Sequences:
        """The same samples with at most `longest` bytes of each document."""
        return replace(self, length=np.minimum(self.length, longest))

    def one(self, sample: int) -> tuple[UInt8[np.ndarray, " bytes"], ...]:
        """The bytes of one sample, document by document."""
        return tuple(self._document(document) for document in self.documents[sample].tolist())

    def _document(self, number: int) -> UInt8[np.ndarray, " bytes"]:
        start = self.start[number]
        return self.stores[self.store[number]][start : start + self.length[number]]

    @property
    def lengths(self) -> Int[np.ndarray, "samples documents"]:
        """The length in bytes of each document of each sample."""
        return self.length[self.documents]

    def rows(
        self, samples: Indices, tokens: int
    ) -> tuple[UInt8[np.ndarray, "rows documents tokens"], Int[np.ndarray, "rows documents"]]:
        """The bytes of these samples, cut or padded with 0 to `tokens`, and how many of each row are not padding."""
        chosen = self.documents[samples]
        lengths = np.minimum(self.length[chosen], tokens)
        padded = np.zeros((*chosen.shape, tokens), np.uint8)
        flat = padded.reshape(-1, tokens)
        for row, (document, length) in enumerate(zip(chosen.ravel().tolist(), lengths.ravel().tolist(), strict=True)):
            start = self.start[document]
            flat[row, :length] = self.stores[self.store[document]][start : start + length]
        return padded, lengths


def joined(store: UInt8[np.ndarray, " bytes"], length: Lengths, labels: Indices, documents: int = 1) -> Sequences:
    """Samples of `documents` documents each, which lie in `store` one after another."""
    length = length.astype(np.int64)
    return Sequences(
        stores=(store,),
        store=np.zeros_like(length),
        start=np.cumsum(length) - length,
        length=length,
        documents=np.arange(len(length)).reshape(-1, documents),
        labels=labels.astype(np.int64),
    )


def packed(parts: Sequence[Sequences]) -> Sequences:
    """The samples of all parts in order. The bytes of the documents are not copied."""
    if len(parts) == 1:
        return parts[0]
    stores = np.cumsum([0, *(len(part.stores) for part in parts)])
    before = np.cumsum([0, *(len(part.length) for part in parts)])
    return Sequences(
        stores=tuple(store for part in parts for store in part.stores),
        store=np.concatenate([part.store + offset for part, offset in zip(parts, stores, strict=False)]),
        start=np.concatenate([part.start for part in parts]),
        length=np.concatenate([part.length for part in parts]),
        documents=np.concatenate([part.documents + offset for part, offset in zip(parts, before, strict=False)]),
        labels=np.concatenate([part.labels for part in parts]),
    )


def write_sequences(path: Path, samples: Sequences) -> None:
    """Write samples into one file, which appears when it is complete."""
    table = np.concatenate((samples.labels, samples.lengths.ravel())).astype("<u4")
    store = np.concatenate([document for sample in range(len(samples)) for document in samples.one(sample)])
    crc = zlib.crc32(store.data, zlib.crc32(table.data))
    header = HEADER.pack(MAGIC, len(samples), samples.documents.shape[1], len(store), crc)
    with writing(path, shared=True) as partial, partial.open("wb") as file:
        for part in (header, table.data, store.data):
            file.write(part)


def manifest_line(path: Path) -> dict[str, Any]:
    """What a manifest says about a file, after the file was checked."""
    samples = len(read_sequences(path))
    with path.open("rb") as file:
        *_, size, crc = HEADER.unpack(file.read(HEADER.size))
    return {"file": path.name, "samples": samples, "bytes": size, "crc32": crc}


def read_sequences(path: Path, line: dict[str, Any] | None = None) -> Sequences:
    """The samples of one file, mapped into memory. The file is checked against its own checksum and against its `line`
    of the manifest."""
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            head = file.read(HEADER.size)
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror or error}); {make_again(path)}") from None
    if len(head) < HEADER.size or not head.startswith(MAGIC):
        raise UserError(f"{path} is no file of sequences; {make_again(path)}")
    _, samples, documents, total, crc = HEADER.unpack(head)
    numbers = samples * (1 + documents)
    whole = HEADER.size + 4 * numbers + total
    if size != whole:
        raise UserError(
            f"{path} has {size:,} bytes and its header promises {whole:,}: it was cut short; {make_again(path)}"
        )
    # Mode "c" is copy on write: pages are shared and the file never changes, and torch, which warns of read-only
    # arrays, accepts the memory.
    body = np.memmap(path, np.uint8, "c", offset=HEADER.size)
    if zlib.crc32(body.data) != crc or (line is not None and line["crc32"] != crc):
        raise UserError(f"{path} is damaged: its content does not match its checksum; {make_again(path)}")
    table = body[: 4 * numbers].view("<u4").astype(np.int64)
    return joined(body[4 * numbers :].view(np.ndarray), table[samples:], table[:samples], documents)


def make_again(path: Path) -> str:
    """What to do about a damaged file of a generated set."""
    return f"delete {path.parent} and the set is made again"
