"""The official archive of CIFAR-10: downloaded when somebody asks for it, checked against its sha256, and unpacked.

The six files of records are read out of the archive by their names and sizes; nothing else in it is written, and nothing
is unpickled (the publisher's Python version is pickled, the binary version is not)."""

from __future__ import annotations

import hashlib
import os
import tarfile
import urllib.error
import urllib.request
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import IO

from manyheads.spec.errors import UserError
from manyheads.spec.files import unwritten, writing

from .local_data import PIECE
from .made_once import made_once

ADDRESS = "https://www.cs.toronto.edu/~kriz/"
VARIABLE = "MANYHEADS_CIFAR10"  # another address, or a folder, that has the archive
ARCHIVE = "cifar-10-binary.tar.gz"
SIZE = 170_052_171  # bytes
SHA256 = "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd"
FOLDER = "cifar-10-batches-bin"
SIDE = 32
RECORD, RECORDS = 1 + 3 * SIDE * SIDE, 10_000  # bytes of a label and three planes; records in each official file
TRAIN, TEST = tuple(f"data_batch_{i}.bin" for i in range(1, 6)), "test_batch.bin"
SILENCE = 60.0  # seconds without a byte after which a download is given up
Progress = Callable[[int, int], None]  # bytes that are here, and bytes in all


def download_cifar(root: Path, source: str | None = None, progress: Progress | None = None) -> Path:
    """The folder of CIFAR-10's files below `root`. If it is not there, the archive is fetched from `source` (an address or
    a folder; default $MANYHEADS_CIFAR10, else the publisher's address), checked and unpacked."""
    source = source or os.environ.get(VARIABLE) or ADDRESS
    return made_once(root / FOLDER, lambda place: _fetch_and_unpack(source, place, progress), "CIFAR-10")


def _fetch_and_unpack(source: str, place: Path, progress: Progress | None) -> None:
    archive = place / ARCHIVE
    with _opened(source) as stream, writing(archive) as partial:
        found = _copy(stream, partial, f"{source.rstrip('/')}/{ARCHIVE}", progress)
        if found != SHA256:
            raise UserError(
                f"{source.rstrip('/')}/{ARCHIVE} is not CIFAR-10's official archive: its sha256 is {found[:16]}..., and "
                f"that one's is {SHA256[:16]}...; nothing was kept. Try again, or write another address"
            )
    _unpack(archive, place)
    archive.unlink()


def _opened(source: str) -> IO[bytes]:
    """The archive at an address or in a folder, as a stream."""
    if "://" not in source:
        path = Path(source).expanduser() / ARCHIVE
        try:
            return path.open("rb")
        except OSError as error:
            raise UserError(f"{path} cannot be read: {error.strerror}; write the folder that holds {ARCHIVE}") from None
    if not source.startswith(("http://", "https://")):
        raise UserError(
            f"{source} is no address of the web and no folder; write https://... or a folder with {ARCHIVE}"
        )
    address = f"{source.rstrip('/')}/{ARCHIVE}"
    try:
        stream: IO[bytes] = urllib.request.urlopen(address, timeout=SILENCE)
        return stream
    except (OSError, ValueError) as error:
        why = getattr(error, "reason", None) or error
        raise UserError(
            f"{address} cannot be fetched ({why}); try again, or unpack the archive to FOLDER/{FOLDER} yourself"
        ) from None


def _copy(stream: IO[bytes], target: Path, address: str, progress: Progress | None) -> str:
    """Write the stream to a file, no more than the archive has; its sha256."""
    content, size = hashlib.sha256(), 0
    with target.open("wb") as file:
        while True:
            try:
                piece = stream.read(PIECE)
            except OSError as error:
                raise UserError(f"{address} broke off after {size:,} of {SIZE:,} bytes ({error}); try again") from None
            size += len(piece)
            if not piece or size > SIZE:
                break
            content.update(piece)
            file.write(piece)
            if progress is not None:
                progress(size, SIZE)
    if size != SIZE:
        more = "more than" if size > SIZE else f"{size:,} of"
        raise UserError(f"{address} gave {more} {SIZE:,} bytes, the size of the official archive; try again")
    return content.hexdigest()


def _unpack(archive: Path, place: Path) -> None:
    """Write the six files of records of an archive that was checked."""
    wanted = {*TRAIN, TEST}
    try:
        with tarfile.open(archive, "r|gz") as members:
            for member in members:
                folder, _, name = member.name.rpartition("/")
                if folder.lstrip("./") != FOLDER or name not in wanted or not member.isfile():
                    continue
                data = members.extractfile(member)
                assert data is not None
                with writing(place / name) as partial:
                    partial.write_bytes(data.read(RECORD * RECORDS + 1))
                wanted.discard(name)
    except (tarfile.TarError, EOFError, zlib.error) as error:
        raise UserError(f"{archive} cannot be unpacked ({error}); try again") from None
    except OSError as error:
        raise unwritten(place, error) from error
    if wanted:
        raise UserError(f"{archive} lacks {', '.join(sorted(wanted))}; try again")
