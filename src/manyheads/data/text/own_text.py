"""Text of one's own, tokenized once: a file, a folder of files, or tables with a column of text.

The shards lie below the data root, in own/NAME-KEY. The key depends on the content of the files and on the tokenizer, so
that the same text with the same tokenizer is the same corpus wherever its files are. Files whose names begin with valid,
val, dev or test are held-out text; where there are none, the last tenth of the ids is held out."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from manyheads.spec.errors import UserError

from ..made_once import OWN, made_once
from .documents import OPENERS, digest, kind, open_text
from .shards import MANIFEST
from .tokenization import tokenize_files
from .vocabulary import Vocabulary

HELD = 0.1  # share of the ids that is held out where no file is
ENDINGS = (".txt", ".text", ".md", ".jsonl", ".ndjson", ".json")
HELD_OUT = ("valid", "validation", "val", "dev", "test")
MARK = "<|endoftext|>"
LOOKED = 1 << 20  # characters that are searched for it


def is_text(path: Path) -> bool:
    """Whether a file holds text, by the ending of its name without that of a compressed file."""
    ending = Path(path.stem).suffix if path.suffix in OPENERS else path.suffix
    return ending.lower() in ENDINGS


def text_files(path: Path) -> dict[str, list[Path]]:
    """The text files of a path by split, train and, where there is held-out text, valid."""
    if path.is_file():
        return {"train": [path]}
    files = sorted(file for file in path.rglob("*") if file.is_file() and is_text(file))
    return by_split(files, path)


def by_split(files: Sequence[Path], folder: Path) -> dict[str, list[Path]]:
    """Files by split, by the beginning of their names or of a folder's that they are in. The first kind of held-out text
    that exists is taken, so that test text is not looked at where there is validation text."""

    def begins(file: Path, words: tuple[str, ...]) -> bool:
        first = (re.match("[a-z]*", part.lower()) for part in file.relative_to(folder).parts)
        return any(word is not None and word[0] in words for word in first)

    train = [file for file in files if not begins(file, HELD_OUT)]
    held = next((found for word in HELD_OUT if (found := [file for file in files if begins(file, (word,))])), [])
    if not train:
        raise UserError(
            f"{folder} has held-out text alone ({held[0].name if held else 'no file'}); add text to train on"
        )
    return {"train": train, "valid": held} if held else {"train": train}


def own_text(files: Mapping[str, Sequence[Path]], name: str, vocabulary: Vocabulary, root: Path) -> str:
    """The name below the data root of the corpus that is made of text files, by split."""
    between = _between([path for paths in files.values() for path in paths])
    content = [f"{split} {digest(path)}" for split, paths in sorted(files.items()) for path in paths]
    key = hashlib.sha256("\n".join([*content, vocabulary.digest, str(between)]).encode()).hexdigest()[:12]

    def make(place: Path) -> None:
        for split, paths in files.items():
            tokenize_files(list(paths), place / split, vocabulary, between=between)
            assert (place / split / MANIFEST).is_file()

    folder = made_once(root / OWN / f"{name}-{key}", make, f"the shards of {name}")
    return folder.relative_to(root).as_posix()


def _between(files: Sequence[Path]) -> str | None:
    """What separates the documents of plain text: <|endoftext|> where it occurs; the file, where there are many files;
    an empty line in a single file."""
    plain = [path for path in files if kind(path) == "text"]
    if not plain:
        return None
    with open_text(plain[0]) as file:
        if MARK in file.read(LOOKED):
            return MARK
    return "file" if len(plain) > 2 else "blank"
