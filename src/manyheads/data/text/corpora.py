"""Corpora by name: the embedded `tinystories`, and `shards:NAME`, a folder that `manyheads tokenize` wrote.

A corpus is a folder that holds one folder of shards for each split: train and, for held-out text, valid. Further splits
hold other held-out text, such as that on which a learning rate is chosen."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from manyheads.spec.datasets import SHARDS, STORIES, VALID, check_corpus
from manyheads.spec.errors import UserError

from .shards import MANIFEST, Manifest, Tokens, open_shards, vocabulary
from .vocabulary import Vocabulary

EMBEDDED = Path(__file__).parent / "stories"


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
    """Training text and held-out text (`held`): the split valid or another one, or the last part of the split train."""

    name: str
    folder: Path
    train: Split
    held: Split

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
            f"{name} is not at {folder}; write it with `manyheads tokenize FILES --out {folder}`, or name the "
            "folder that holds it with MANYHEADS_DATA=FOLDER"
        )
    return folder


def corpus(name: str, root: Path, held: float = 0.0, split: str = VALID) -> Corpus:
    """Open a corpus. `split` holds its held-out text; `held` > 0 holds out that share of the training ids instead, the
    last ones."""
    folder = corpus_folder(name, root)
    if not (folder / "train").is_dir() and (folder / MANIFEST).is_file():
        raise UserError(f"{folder} holds shards, not splits; write them to {folder / 'train'}")
    train = Split(*open_shards(folder / "train"))
    if held:
        border = int((1 - held) * len(train.tokens))
        parts = train.tokens.cut(0, border), train.tokens.cut(border, len(train.tokens))
        return Corpus(name, folder, Split(train.manifest, parts[0]), Split(train.manifest, parts[1]))
    if not (folder / split).is_dir():
        raise UserError(
            f"{folder} has no folder {split}; tokenize held-out text into it (--split {split}), or write held=0.1 "
            "to hold out the last tenth of the training ids"
        )
    valid = Split(*open_shards(folder / split))
    if valid.manifest.digest != train.manifest.digest:
        one, other = (f"{split.manifest.tokenizer} ({split.manifest.digest[:12]})" for split in (train, valid))
        raise UserError(
            f"{folder}: train was made with tokenizer {one} and {split} with {other}; tokenize one of them again"
        )
    return Corpus(name, folder, train, valid)


def tokenizer(name: str, root: Path) -> Vocabulary:
    """The tokenizer of a corpus."""
    return vocabulary(corpus_folder(name, root) / "train")
