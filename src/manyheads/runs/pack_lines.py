"""The lines of a pack: a file of finished runs, compressed with xz, one JSON object a line.

Every line carries its SHA-256 and that of the line before it, and the last line the number of runs, so that a line that
was changed, lost or put in another place is found, and so is a file that was cut. This protects against accidents: it is
no signature, and whoever edits a pack can compute the hashes again."""

from __future__ import annotations

import hashlib
import json
import lzma
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from manyheads.spec.errors import UserError
from manyheads.spec.files import plain, writing
from manyheads.spec.json_text import parse

SUFFIX = ".jsonl.xz"
SCHEMA = 1  # of a pack; every line carries it
FIRST = "0" * 64  # stands for the hash of the line before the first
MOST_RUNS = 20_000
MOST_LINE = 4 << 20  # bytes of a line
MOST_BYTES = 1 << 30  # of a pack that is decompressed
MOST_MEMORY = 128 << 20  # that xz may use to decompress
PIECE = 1 << 18  # bytes that are read, or decompressed, at a time
MAGIC = b"\xfd7zXZ\x00"  # how an xz file begins
MARK = b'{"sha256":"'  # how every line begins; 64 hexadecimal digits follow


class NoPack(UserError):
    """The file was not written as a pack."""


def seal(content: dict[str, Any], before: str) -> tuple[bytes, str]:
    """The line of `content` after the line whose hash is `before`, and its own hash: the SHA-256 of the line as it would
    be without its hash."""
    values = plain({**content, "before": before, "schema": SCHEMA}, "a line of the pack", gaps=True)
    body = json.dumps(values, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()
    own = hashlib.sha256(body).hexdigest()
    return MARK + own.encode() + b'",' + body[1:] + b"\n", own


def write_lines(path: Path, runs: Iterable[dict[str, Any]]) -> tuple[int, int]:
    """Write a pack of `runs`; how many they are, and the bytes of their lines before compression. The file appears when
    all of it is on the disk; an existing one is refused, and so is what `read_lines` would refuse as too much."""
    check_new(path)
    count, size, before = 0, 0, FIRST
    with writing(path) as partial, lzma.open(partial, "wb", preset=6 | lzma.PRESET_EXTREME) as file:
        for run in runs:
            line, before = seal({"run": run}, before)
            count, size = count + 1, size + len(line)
            _check_size(path, count, size)
            file.write(line)
        last = seal({"runs": count}, before)[0]
        _check_size(path, count, size + len(last))
        file.write(last)
    return count, size


def _check_size(path: Path, count: int, size: int) -> None:
    """Refuse more runs, or more bytes before compression, than a pack may have."""
    if count > MOST_RUNS or size > MOST_BYTES:
        most = f"{MOST_RUNS:,} runs" if count > MOST_RUNS else f"{MOST_BYTES >> 20:,} MiB before compression"
        raise UserError(f"{path} would have more than {most}, which no pack may; pack each folder of runs by itself")


def check_new(path: Path) -> None:
    """Refuse a path that cannot become a pack."""
    if not path.name.endswith(SUFFIX):
        raise UserError(f"{path}: the name of a pack ends in {SUFFIX}; write {path.name.split('.')[0] or 'x'}{SUFFIX}")
    if path.exists():
        raise UserError(f"{path} exists, and a pack is never overwritten; write another name, or delete it first")


def read_lines(path: Path) -> list[dict[str, Any]]:
    """The runs of a pack. A pack in which anything is wrong is refused as a whole, and the first bad line is named."""
    runs: list[dict[str, Any]] = []
    before, number = FIRST, 0
    count: int | None = None
    for line in _lines(path):
        number += 1
        if count is not None:
            raise _damaged(path, number, f"follows the last line, which counts {count} runs")
        content, own = _opened(path, number, line, before)
        before = own
        match content:
            case {"run": dict(run)}:
                runs.append(run)
            case {"runs": stated} if stated == len(runs):
                count = len(runs)
            case {"runs": stated}:
                raise _damaged(path, number, f"counts {stated!r} runs, and {len(runs)} lines are before it")
            case _:
                raise _damaged(path, number, "has neither a run nor the count of runs")
        if len(runs) > MOST_RUNS:
            raise _damaged(path, number, f"is beyond the {MOST_RUNS:,} runs that a pack may hold")
    if count is None:
        raise _damaged(path, number + 1, "is missing: the last line of a pack counts its runs")
    return runs


def _opened(path: Path, number: int, line: bytes, before: str) -> tuple[dict[str, Any], str]:
    """What a line holds, and its hash."""
    start = len(MARK)
    own, comma = line[start : start + 64], line[start + 64 : start + 66]
    if not line.startswith(MARK) or comma != b'",':
        if number == 1:
            raise NoPack(f"{path} is no pack of manyheads: its first line does not begin with a hash")
        raise _damaged(path, number, "does not begin with a hash")
    body = b"{" + line[start + 66 :]
    if hashlib.sha256(body).hexdigest().encode() != own:
        raise _damaged(path, number, "is not what was written: its hash does not fit")
    try:
        content = parse(body)
    except ValueError as error:
        raise _damaged(path, number, f"is not JSON ({error})") from None
    if not isinstance(content, dict):
        raise _damaged(path, number, "is no JSON object")
    if content.get("schema") != SCHEMA:
        raise _damaged(path, number, f"has schema {content.get('schema')!r}, and this version reads {SCHEMA}")
    if content.get("before") != before:
        raise _damaged(path, number, "does not follow the line before it: lines were removed, added or moved")
    return content, own.decode()


def _lines(path: Path) -> Iterator[bytes]:
    """The lines of a file as they are decompressed, so that no more than a line and a piece is in memory."""
    rest, number = b"", 1
    try:
        for piece in _pieces(path):
            *whole, rest = (rest + piece).split(b"\n")
            yield from whole
            number += len(whole)
            if len(rest) > MOST_LINE:
                raise _damaged(path, number, f"is longer than {MOST_LINE >> 20} MiB")
    except (lzma.LZMAError, EOFError) as error:
        raise _damaged(path, number, f"cannot be decompressed ({error})") from None
    if rest:
        raise _damaged(path, number, "has no end")


def _pieces(path: Path) -> Iterator[bytes]:
    """The content of an xz file, piece by piece. It may neither grow beyond `MOST_BYTES` nor ask for more than
    `MOST_MEMORY`."""
    inflate, total = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=MOST_MEMORY), 0
    try:
        with open(path, "rb") as file:
            if file.read(len(MAGIC)) != MAGIC:
                raise NoPack(f"{path} is no pack of manyheads: it is not compressed with xz")
            file.seek(0)
            while not inflate.eof:
                given = file.read(PIECE) if inflate.needs_input else b""
                if not given and inflate.needs_input:
                    raise EOFError("the file was cut")
                piece = inflate.decompress(given, max_length=PIECE)
                total += len(piece)
                if total > MOST_BYTES:
                    raise UserError(f"{path} is more than {MOST_BYTES >> 20:,} MiB when it is decompressed; no pack is")
                yield piece
            if inflate.unused_data or file.read(1):
                raise UserError(f"{path} is damaged: it has further bytes after its end; restore the file")
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror or error}") from error


def _damaged(path: Path, number: int, what: str) -> UserError:
    return UserError(f"{path} is damaged: line {number} {what}; restore the file, or make it anew with manyheads pack")
