"""Sets of sequences on disk: files of a few thousand samples each, mapped into memory, and a manifest that is written
last.

A file is a header (magic, samples, documents of a sample, bytes, CRC-32 of all that follows), then labels and lengths
as little-endian uint32, then the bytes of all documents, one behind the other."""

from __future__ import annotations

import fcntl
import json
import os
import struct
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from manyheads.spec.errors import UserError

from .sequences import Sequences, joined

SCHEMA = 1
MAGIC = b"MHSEQ01\0"
HEADER = struct.Struct("<8sIIQI4x")
MANIFEST = "manifest.json"


def write(path: Path, made: Sequences) -> None:
    """Write samples into one file, which is there whole or not at all."""
    table = np.concatenate((made.labels, made.lengths.ravel())).astype("<u4")
    store = np.concatenate([document for sample in range(len(made)) for document in made.one(sample)])
    crc = zlib.crc32(store.data, zlib.crc32(table.data))
    header = HEADER.pack(MAGIC, len(made), made.documents.shape[1], len(store), crc)
    with replaced(path) as file:
        for part in (header, table.data, store.data):
            file.write(part)


def line(path: Path) -> dict[str, Any]:
    """What the manifest says of a file, once that has been read through."""
    samples = len(read(path))
    with path.open("rb") as file:
        *_, size, crc = HEADER.unpack(file.read(HEADER.size))
    return {"file": path.name, "samples": samples, "bytes": size, "crc32": crc}


@contextmanager
def replaced(path: Path) -> Iterator[Any]:
    """A file to write to, which takes its name when it is complete and on the disk."""
    try:
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}-", delete=False) as file:
            try:
                yield file
                file.flush()
                os.fsync(file.fileno())
                os.replace(file.name, path)
            except BaseException:
                os.unlink(file.name)
                raise
    except OSError as error:
        raise UserError(
            f"{path} cannot be written ({error.strerror or error}); name another folder, with room, as --out "
            "or as MANYHEADS_DATA"
        ) from None


def read(path: Path, told: dict[str, Any] | None = None) -> Sequences:
    """The samples of one file, mapped into memory; checked against its own sum and, if given, its line of the
    manifest."""
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            head = file.read(HEADER.size)
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror or error}); {_again(path)}") from None
    if len(head) < HEADER.size or not head.startswith(MAGIC):
        raise UserError(f"{path} is no file of sequences; {_again(path)}")
    _, samples, documents, total, crc = HEADER.unpack(head)
    numbers = samples * (1 + documents)
    whole = HEADER.size + 4 * numbers + total
    if size != whole:
        raise UserError(
            f"{path} has {size:,} bytes and its header promises {whole:,}: it was cut short; {_again(path)}"
        )
    # "c", copy on write: pages are shared and the file stays as it is, but torch does not warn of a read-only array
    body = np.memmap(path, np.uint8, "c", offset=HEADER.size)
    if zlib.crc32(body.data) != crc or (told is not None and told["crc32"] != crc):
        raise UserError(f"{path} is damaged: its content does not have the sum it was written with; {_again(path)}")
    table = body[: 4 * numbers].view("<u4").astype(np.int64)
    return joined(body[4 * numbers :].view(np.ndarray), table[samples:], table[:samples], documents)


def _again(path: Path) -> str:
    return f"delete {path.parent} and it is made again"


def finish(folder: Path, made: dict[str, Any], lines: dict[str, list[dict[str, Any]]]) -> None:
    """Write the manifest: what was made, and the files of each split. With it the set is complete."""
    text = json.dumps({"schema": SCHEMA, "made": made, "splits": lines}, indent=1)
    with replaced(folder / MANIFEST) as file:
        file.write(text.encode() + b"\n")


def manifest(folder: Path) -> dict[str, Any] | None:
    """The manifest of a complete set; None where there is none yet."""
    path = folder / MANIFEST
    if not path.is_file():
        return None
    try:
        found = json.loads(path.read_text())
        if found["schema"] != SCHEMA:
            raise UserError(f"{path} is of schema {found['schema']}, and this version reads {SCHEMA}; {_again(path)}")
        return dict(found)
    except (OSError, ValueError, KeyError, TypeError) as error:
        if isinstance(error, UserError):
            raise
        raise UserError(f"{path} cannot be read ({error}); {_again(path)}") from None


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """The folder for this process, made if need be; another that wants the same set waits."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / "lock").open("w")
    except OSError as error:
        raise UserError(
            f"{folder} cannot be written ({error.strerror or error}); name another folder as --out or as MANYHEADS_DATA"
        ) from None
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
