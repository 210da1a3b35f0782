"""AAN (Radev et al. 2013), as LRA pairs it: do two papers cite one another, or the like?

The files are those of LRA's archive: lines of label (0 or 1, also 1.0), two ids and two texts, with tabs between them.
A paper stands in many pairs and is kept once, by its id."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import numpy as np

from manyheads.spec.errors import UserError

from ..places import first_found
from .sequences import Sequences

NAME = "new_aan_pairs.{}.tsv"
FILES = {"train": NAME.format("train"), "valid": NAME.format("eval"), "test": NAME.format("test")}
FOLDERS = ("aan", ".", "tsv_data", "lra_release/tsv_data", "lra_release/lra_release/tsv_data")
LABELS = {b"0": 0, b"0.0": 0, b"1": 1, b"1.0": 1}


@lru_cache(maxsize=1)
def aan(root: Path, longest: int) -> dict[str, Sequences]:
    """The pairs of the three splits below `root`, at most `longest` bytes of each paper."""
    places = tuple(f"{folder}/{FILES['train']}" for folder in FOLDERS)
    source = (
        "LRA's archive lra_release.gz (https://github.com/google-research/long-range-arena; 8 GB, three files of it)"
    )
    folder = first_found(root, places, "AAN", source).parent
    return {split: _pairs(folder / name, longest) for split, name in FILES.items()}


def _pairs(path: Path, longest: int) -> Sequences:
    numbers: dict[bytes, int] = {}
    store, lengths, labels = bytearray(), list[int](), list[int]()
    rows: list[tuple[int, int]] = []
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, 1):
                cells = line.rstrip(b"\r\n").split(b"\t")
                if len(cells) != 5 or cells[0] not in LABELS:
                    raise UserError(
                        f"{path}, line {number} has {len(cells)} columns and begins {line[:20]!r}; write label "
                        "(0 or 1), two ids and two texts, with tabs between them"
                    )
                for id_, text in ((cells[1], cells[3]), (cells[2], cells[4])):
                    if not text:
                        raise UserError(
                            f"{path}, line {number}: paper {id_.decode(errors='replace')} has no text, and an "
                            "empty sequence cannot be compared; take the line out"
                        )
                    if id_ not in numbers:
                        numbers[id_] = len(lengths)
                        lengths.append(min(len(text), longest))
                        store += text[:longest]
                rows.append((numbers[cells[1]], numbers[cells[2]]))
                labels.append(LABELS[cells[0]])
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror or error}); put LRA's file there") from None
    if not rows:
        raise UserError(f"{path} is empty; put LRA's file in its place")
    length = np.array(lengths)
    start = np.cumsum(length) - length
    flat = np.frombuffer(store, np.uint8)
    return Sequences((flat,), np.zeros_like(length), start, length, np.array(rows), np.array(labels))
