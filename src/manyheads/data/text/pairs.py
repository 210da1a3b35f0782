"""Pairs of sentences as rows of ids: <cls> A <sep> B <sep>, cut to a length, kept in a file so that a second run, or a
machine without the tokenizer's package, does not have to encode them."""

from __future__ import annotations

import hashlib
from contextlib import suppress
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np
from jaxtyping import Float, Int
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from manyheads.spec.datasets import GlueSet
from manyheads.spec.errors import UserError

from .documents import digest
from .glue import Examples, folder, read
from .vocabulary import Vocabulary

BLOCK = 10_000  # pairs encoded at a time


@dataclass(frozen=True)
class Encoded:
    """Rows of ids, padded at the end; `lengths` are their real tokens, `parts` where B begins."""

    ids: Int[np.ndarray, "rows tokens"]
    lengths: Int[np.ndarray, " rows"]
    parts: Int[np.ndarray, " rows"]
    labels: Int[np.ndarray, " rows"] | Float[np.ndarray, " rows"]

    def first(self, count: int | None) -> Encoded:
        """The first `count` rows."""
        return Encoded(*(getattr(self, field.name)[:count] for field in fields(self)))


def encode(examples: Examples, vocabulary: Vocabulary, tokens: int) -> Encoded:
    """The pairs of `examples`; of a pair that is too long the longer sentence is cut, token by token from its end."""
    pad, cls, sep = (vocabulary.role(name) for name in ("pad", "cls", "sep"))
    if tokens < 4:
        raise UserError(f"{tokens} tokens hold no pair; write at least 4: three are special")
    count = len(examples.labels)
    rows = np.full((count, tokens), pad, dtype=np.int32)
    lengths, parts = np.zeros(count, dtype=np.int32), np.zeros(count, dtype=np.int32)
    for start in range(0, count, BLOCK):
        a = vocabulary.encode(examples.first[start : start + BLOCK])
        b = vocabulary.encode(examples.second[start : start + BLOCK])
        for row, (left, right) in enumerate(zip(a, b, strict=True), start):
            left, right = shortened(left, right, tokens - 3)
            whole = [cls, *left, sep, *right, sep]
            rows[row, : len(whole)] = whole
            lengths[row], parts[row] = len(whole), len(left) + 2
    return Encoded(rows, lengths, parts, examples.labels)


def shortened(left: list[int], right: list[int], room: int) -> tuple[list[int], list[int]]:
    """Both lists, together at most `room` long: the longer one gives way, and from equal lengths on both in turn."""
    over = len(left) + len(right) - room
    if over <= 0:
        return left, right
    short = min(len(left), len(right))
    if room >= 2 * short:
        keep = room - short
        return (left[:keep], right) if len(left) > len(right) else (left, right[:keep])
    return left[: (room + 1) // 2], right[: room // 2]


def encoded(
    task: GlueSet, data: str, root: Path, vocabulary: Vocabulary, tokens: int
) -> tuple[Encoded, tuple[Encoded, ...]]:
    """Training and held-out rows of a GLUE task. They are kept below `root`/`data`/encoded, where that can be
    written."""
    place = folder(task, data, root)
    found = []
    for name in ("train.tsv", *task.held):
        path = place / name
        if not path.is_file():
            read(task, path)  # says what is missing
        mark = hashlib.sha256(f"{vocabulary.digest} {digest(path)} {tokens}".encode()).hexdigest()[:16]
        kept = root / data / "encoded" / f"{task.name}-{Path(name).stem}-{mark}.safetensors"
        rows = _kept(kept)
        if rows is None:
            rows = encode(read(task, path), vocabulary, tokens)
            _keep(rows, kept)
        if rows.ids.max() >= vocabulary.size:
            raise UserError(
                f"{kept} has ids up to {rows.ids.max()}, and tokenizer {vocabulary.name} has 0 to "
                f"{vocabulary.size - 1}; delete it"
            )
        found.append(rows)
    return found[0], tuple(found[1:])


def _kept(path: Path) -> Encoded | None:
    """Rows that were kept; a damaged file counts as none."""
    with suppress(OSError, SafetensorError, ValueError, TypeError):
        return Encoded(**load_file(path))
    return None


def _keep(rows: Encoded, path: Path) -> None:
    partial = path.with_suffix(".partial")
    with suppress(OSError, SafetensorError):  # a folder that cannot be written costs time, nothing else
        path.parent.mkdir(parents=True, exist_ok=True)
        save_file({field.name: np.ascontiguousarray(getattr(rows, field.name)) for field in fields(rows)}, partial)
        partial.replace(path)
