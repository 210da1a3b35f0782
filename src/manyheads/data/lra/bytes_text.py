"""IMDB reviews (Maas et al. 2011) as bytes: the official folder, or two tables of tab-separated values.

LRA takes the test set for validation, and so picks its checkpoint on it. Here a tenth of the training reviews is held
out: those whose text has a hash below 1/10, so that the same review, however it is stored and even if it is there
twice, is always on the same side."""

from __future__ import annotations

import hashlib
import lzma
from functools import lru_cache
from pathlib import Path

import numpy as np

from manyheads.spec.errors import UserError

from ..places import first_found
from .sequences import Sequences, joined

CLASSES = ("neg", "pos")
HELD = 0.1  # share of the training texts that validation takes
SOURCE = "https://ai.stanford.edu/~amaas/data/sentiment (aclImdb_v1.tar.gz, unpacked)"
PLACES = (
    "aclImdb",
    "imdb/aclImdb",
    "imdb/imdb_train.tsv.xz",
    "imdb/imdb_train.tsv",
    "imdb_train.tsv.xz",
    "imdb_train.tsv",
)
Texts = list[tuple[int, bytes]]


@lru_cache(maxsize=1)
def imdb(root: Path) -> dict[str, Sequences]:
    """Training, validation and test reviews below `root`, whole; labels 0 (negative) and 1 (positive)."""
    found = first_found(root, PLACES, "IMDB", SOURCE)
    if found.is_dir():
        train, test = _folder(found / "train"), _folder(found / "test")
    else:
        train, test = _table(found), _table(found.with_name(found.name.replace("train", "test")))
    held = [_held(text) for _, text in train]
    return {
        "train": _sequences([entry for entry, out in zip(train, held, strict=True) if not out]),
        "valid": _sequences([entry for entry, out in zip(train, held, strict=True) if out]),
        "test": _sequences(test),
    }


def _held(text: bytes) -> bool:
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little") < HELD * 2**64


def _folder(folder: Path) -> Texts:
    """Reviews of one split: neg/*.txt and pos/*.txt; other folders, such as unsup, are not looked at."""
    out: Texts = []
    for label, name in enumerate(CLASSES):
        files = sorted((folder / name).glob("*.txt"))
        if not files:
            raise UserError(
                f"{folder / name} has no *.txt; unpack aclImdb_v1.tar.gz again: it has train and test, "
                "each with neg and pos"
            )
        out += [(label, _some(file.read_bytes(), file)) for file in files]
    return out


def _table(path: Path) -> Texts:
    """Reviews of one split: lines of label (0 or 1), rating, text, with tabs between them."""
    try:
        with lzma.open(path) if path.suffix == ".xz" else path.open("rb") as file:
            lines = file.read().splitlines()
    except (OSError, EOFError, lzma.LZMAError) as error:
        raise UserError(f"{path} cannot be read ({error}); put a fresh copy in its place") from None
    out: Texts = []
    for number, line in enumerate(lines, 1):
        cells = line.split(b"\t")
        if len(cells) != 3 or cells[0] not in (b"0", b"1"):
            raise UserError(
                f"{path}, line {number} has {len(cells)} columns and begins {line[:20]!r}; write label (0 or "
                "1), rating and text, with tabs between them"
            )
        out.append((int(cells[0]), _some(cells[2], f"{path}, line {number}")))
    if not out:
        raise UserError(f"{path} is empty; put a fresh copy in its place")
    return out


def _some(text: bytes, where: object) -> bytes:
    if not text:
        raise UserError(f"{where} holds no text, and an empty sequence has no class; take it out")
    return text


def _sequences(texts: Texts) -> Sequences:
    store = np.frombuffer(bytearray(b"".join(text for _, text in texts)), np.uint8)
    return joined(store, np.array([len(text) for _, text in texts], int), np.array([label for label, _ in texts], int))
