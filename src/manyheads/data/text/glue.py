"""GLUE (1804.07461): read the official files and encode their sentences as rows of ids, <cls> A <sep> B <sep>.

The files are train.tsv and dev.tsv in a folder for each task, tab-separated and never quoted. Encoded rows are cached
in a file, so that a second run, or a machine without the package `tokenizers`, need not encode them."""

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
from manyheads.spec.files import writing

from ..local_data import first_found
from ..randomness import Indices
from .documents import digest
from .vocabulary import Vocabulary

SHORT = 0.01  # share of lines that may lack columns: QQP's official file has some
BLOCK = 10_000  # pairs encoded at a time


@dataclass(frozen=True)
class Examples:
    """The sentences and labels of one file. `second` is empty in tasks on single sentences; a label is the number of a
    class, or a score. `short` lines had too few columns and were left out."""

    first: list[str]
    second: list[str]
    labels: np.ndarray
    short: int = 0


def glue_folder(task: GlueSet, data: str, root: Path) -> Path:
    """The folder with the files of a task."""
    return first_found(root, (f"{data}/{task.folder}",), f"GLUE's {task.folder}", "https://gluebenchmark.com/tasks")


def read_examples(task: GlueSet, path: Path) -> Examples:
    """The examples of one file."""
    if not path.is_file():
        raise UserError(
            f"{path} is missing; {task.folder} has train.tsv and {' and '.join(task.held)}: unpack it again"
        )
    try:
        lines = path.read_text(encoding="utf-8-sig").split("\n")
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not UTF-8 ({error.reason}); take the official file") from None
    names = list(task.header) or lines[0].rstrip("\r").split("\t")
    needed = [task.first, *([task.second] if task.second else []), task.label]
    if missing := [name for name in needed if name not in names]:
        raise UserError(
            f"{path} has no column {' and no column '.join(missing)}; it has {', '.join(names)}. The official "
            "file has them; test.tsv has no labels"
        )
    columns = [names.index(name) for name in needed]
    first, second, labels, short = [], [], [], 0
    for number, line in enumerate(lines[0 if task.header else 1 :], 1 if task.header else 2):
        cells = line.rstrip("\r").split("\t")
        if not line.strip():
            continue
        if len(cells) <= max(columns):
            short += 1
            continue
        label = cells[columns[-1]]
        if task.name == "mnli" and label == "-":  # its annotators disagreed
            continue
        first.append(cells[columns[0]])
        second.append(cells[columns[1]] if task.second else "")
        labels.append(_label(task, label, path, number))
    if not labels or short > SHORT * (len(labels) + short):
        raise UserError(
            f"{path} has {len(labels)} whole lines and {short} with fewer than {max(columns) + 1} columns; "
            "take the official file: columns are separated by tabs"
        )
    return Examples(first, second, np.array(labels, dtype=np.int64 if task.classes else np.float64), short)


def _label(task: GlueSet, label: str, path: Path, number: int) -> float:
    if task.classes:
        if label not in task.classes:
            raise UserError(
                f"line {number} of {path} has the label {label[:40]!r}; {task.folder} has {', '.join(task.classes)}"
            )
        return task.classes.index(label)
    try:
        score = float(label)
    except ValueError:
        score = -1.0
    if not 0 <= score <= 5:
        raise UserError(f"line {number} of {path} has the score {label[:40]!r}; {task.folder} has numbers from 0 to 5")
    return score


@dataclass(frozen=True)
class Encoded:
    """Rows of ids, padded at the end. `lengths` counts the ids before the padding; B begins at `parts`."""

    ids: Int[np.ndarray, "rows tokens"]
    lengths: Int[np.ndarray, " rows"]
    parts: Int[np.ndarray, " rows"]
    labels: Int[np.ndarray, " rows"] | Float[np.ndarray, " rows"]

    def first(self, count: int | None) -> Encoded:
        """The first `count` rows."""
        return Encoded(*(getattr(self, field.name)[:count] for field in fields(self)))

    def at(self, rows: Indices) -> Encoded:
        """These rows alone, in this order."""
        return Encoded(*(getattr(self, field.name)[rows] for field in fields(self)))


def encode(examples: Examples, vocabulary: Vocabulary, tokens: int) -> Encoded:
    """Encode pairs of sentences. Of a pair that is too long, the longer sentence loses tokens at its end."""
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
    """Both lists, cut to at most `room` together: the longer one is cut, and once both are equally long, both in
    turn."""
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
    """The training rows and the held-out rows of a GLUE task, cached below `root`/`data`/encoded if that can be
    written."""
    place = glue_folder(task, data, root)
    splits = []
    for name in ("train.tsv", *task.held):
        path = place / name
        if not path.is_file():
            read_examples(task, path)  # raises the error that says what is missing
        mark = hashlib.sha256(f"{vocabulary.digest} {digest(path)} {tokens}".encode()).hexdigest()[:16]
        cache = root / data / "encoded" / f"{task.name}-{Path(name).stem}-{mark}.safetensors"
        rows = _read_cache(cache)
        if rows is None:
            rows = encode(read_examples(task, path), vocabulary, tokens)
            _write_cache(rows, cache)
        if rows.ids.max() >= vocabulary.size:
            raise UserError(
                f"{cache} has ids up to {rows.ids.max()}, and tokenizer {vocabulary.name} has 0 to "
                f"{vocabulary.size - 1}; delete it"
            )
        splits.append(rows)
    return splits[0], tuple(splits[1:])


def _read_cache(path: Path) -> Encoded | None:
    """Rows from the cache; None for a missing or damaged file."""
    with suppress(OSError, SafetensorError, ValueError, TypeError):
        return Encoded(**load_file(path))
    return None


def _write_cache(rows: Encoded, path: Path) -> None:
    with suppress(OSError, UserError, SafetensorError):  # a folder that cannot be written only costs time
        path.parent.mkdir(parents=True, exist_ok=True)
        with writing(path, shared=True) as partial:
            save_file({field.name: np.ascontiguousarray(getattr(rows, field.name)) for field in fields(rows)}, partial)
