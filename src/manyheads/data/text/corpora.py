"""Corpora by name: the embedded `tinystories`, and `shards:NAME`, a folder that `manyheads tokenize` wrote.

A corpus is a folder that holds one folder of shards for each split: train and, for held-out text, valid. Further splits
hold other held-out text, such as that on which a learning rate is chosen."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from manyheads.spec.datasets import SHARDS, STORIES, VALID, check_corpus
from manyheads.spec.errors import UserError
from manyheads.spec.shell import word

from .shards import MANIFEST, Manifest, Tokens, open_shards, read_manifest, vocabulary
from .vocabulary import Vocabulary

EMBEDDED = Path(__file__).parent / "stories"
SEARCHED = 1 << 16  # ids read at a time to find where a document begins


@dataclass(frozen=True)
class Split:
    """The token ids of a split, and their manifest."""

    manifest: Manifest
    tokens: Tokens

    @property
    def bytes_per_token(self) -> float:
        """Bytes of text for each id, averaged over the split."""
        return self.manifest.text_bytes / self.manifest.tokens


@dataclass(frozen=True)
class Corpus:
    """Training text and held-out text (`held`): the split valid or another one, or the last part of the split train.
    `validation` is the last part of the training text, where some is kept out of training to choose by."""

    name: str
    folder: Path
    train: Split
    held: Split
    validation: Split | None = None

    @property
    def roles(self) -> dict[str, int]:
        """The tokenizer's special tokens."""
        return self.train.manifest.roles


def corpus_folder(name: str, root: Path) -> Path:
    """The folder of a corpus."""
    if check_corpus(name) == STORIES:
        return EMBEDDED
    folder = root / Path(name.removeprefix(SHARDS)).expanduser()
    if not folder.is_dir():
        raise UserError(
            f"{name} is not at {folder}; write it with `manyheads tokenize FILES --out {word(folder)}`, or name the "
            "folder that holds it with MANYHEADS_DATA=FOLDER"
        )
    return folder


def find_corpus(name: str, root: Path, held: str) -> Path:
    """The folder of a corpus that has training text and, unless it is "", the split `held`; no id is read."""
    folder = corpus_folder(name, root)
    if folder != EMBEDDED:
        read_manifest(folder / "train")
        if held:
            _check_split(folder, held)
    return folder


def corpus(name: str, root: Path, held: float = 0.0, split: str = VALID, validation: float = 0.0) -> Corpus:
    """Open a corpus. `split` holds its held-out text; `held` > 0 holds out that share of the training ids instead, the
    last ones.
    `validation` > 0 keeps that share of the other training ids out of training, the last documents."""
    source = _corpus(name, root, held, split)
    if not validation:
        return source
    manifest, tokens = source.train.manifest, source.train.tokens
    border = _document_start(source.train, int((1 - validation) * len(tokens)))
    parts = tokens.cut(0, border), tokens.cut(border, len(tokens))
    return replace(source, train=Split(manifest, parts[0]), validation=Split(manifest, parts[1]))


def _document_start(split: Split, place: int) -> int:
    """The first place from `place` on at which a document begins; `place` itself where the ids do not tell, or where no
    other document begins."""
    separator = split.manifest.separator
    if isinstance(separator, str):  # a text, which was tokenized with the document
        return place
    last = len(split.tokens) - 1  # what ends there is the last document
    for start in range(max(0, place - 1), last, SEARCHED):
        ends = np.flatnonzero(split.tokens.read(start, min(SEARCHED, last - start)) == separator)
        if len(ends):
            return start + int(ends[0]) + 1
    return place


def _corpus(name: str, root: Path, held: float, split: str) -> Corpus:
    """The corpus without a validation split."""
    folder = corpus_folder(name, root)
    if not (folder / "train").is_dir() and (folder / MANIFEST).is_file():
        raise UserError(f"{folder} holds shards, not splits; write them to {folder / 'train'}")
    train = Split(*open_shards(folder / "train"))
    if held:
        border = int((1 - held) * len(train.tokens))
        parts = train.tokens.cut(0, border), train.tokens.cut(border, len(train.tokens))
        return Corpus(name, folder, Split(train.manifest, parts[0]), Split(train.manifest, parts[1]))
    _check_split(folder, split)
    valid = Split(*open_shards(folder / split))
    if valid.manifest.digest != train.manifest.digest:
        one, other = (f"{split.manifest.tokenizer} ({split.manifest.digest[:12]})" for split in (train, valid))
        raise UserError(
            f"{folder}: train was made with tokenizer {one} and {split} with {other}; tokenize one of them again"
        )
    return Corpus(name, folder, train, valid)


def _check_split(folder: Path, split: str) -> None:
    if not (folder / split).is_dir():
        raise UserError(
            f"{folder} has no folder {split}; tokenize held-out text into it (--split {split}), or write held=0.1 "
            "to hold out the last tenth of the training ids"
        )


def tokenizer(name: str, root: Path) -> Vocabulary:
    """The tokenizer of a corpus."""
    return vocabulary(corpus_folder(name, root) / "train")
