"""Shards as one long row of ids: memory-mapped, checked when opened, read at any place."""

from __future__ import annotations

import lzma
import zlib
from bisect import bisect_right
from functools import lru_cache
from itertools import accumulate
from pathlib import Path

import numpy as np
from jaxtyping import Int

from manyheads.spec.errors import UserError

from .manifest import TOKENIZER, Manifest, Shard, load
from .vocabulary import BYTES, Vocabulary, read
from .vocabulary import load as named

CHECKED = 1 << 24  # bytes at a time


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
def opened(folder: Path) -> tuple[Manifest, Tokens]:
    """The manifest of a folder of shards and its ids; sizes and checksums have been compared (about 1 GB a second)."""
    manifest = load(folder)
    return manifest, Tokens([_shard(folder, shard, manifest.dtype) for shard in manifest.shards])


def _shard(folder: Path, shard: Shard, dtype: str) -> np.ndarray:
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
    manifest = load(folder)
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
