"""How the embedded stories were made of two files of TinyStories; run once, kept so that it can be checked.

    python -m tests.data.text.pack_stories TRAIN.txt.xz VALID.txt.xz src/manyheads/data/text/stories
    python -m tests.data.text.pack_stories VALID.txt.xz held_out.txt      # the validation text alone, for other tokenizers

TRAIN has <|endoftext|> between stories. VALID, the head of the official validation file, has an empty line between
paragraphs and nothing between stories: a story begins where a paragraph begins with "Once upon a time", "Once there" or
"Once,", as no later paragraph of a training story does. Others, about a third of them, stay joined to the one before.
"""

from __future__ import annotations

import lzma
import re
import sys
from dataclasses import replace
from pathlib import Path

from manyheads.data.text.documents import documents
from manyheads.data.text.shards import Manifest
from manyheads.data.text.tokenization import tokenize_files
from manyheads.data.text.tokenizer_training import train_tokenizer

KEEP, SIZE = 5000, 2048  # stories to train on, tokens of the BPE trained on them
BEGINS = re.compile(r"Once upon a time|Once there|Once,")
PACKED = [{"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME, "lc": 0, "lp": 1, "pb": 1}]  # words of two bytes


def held_out(text: str) -> list[str]:
    """Stories of the validation head; what comes before the first beginning is the end of a story and is left out."""
    stories: list[str] = []
    for paragraph in filter(None, (line.strip() for line in text.splitlines())):
        if BEGINS.match(paragraph):
            stories.append(paragraph)
        elif stories:
            stories[-1] += "\n" + paragraph
    return stories


def kept(train: list[str], valid: str, count: int) -> list[str]:
    """The first `count` training stories that do not also stand in the validation head; white space does not count."""
    seen = " ".join(valid.split())
    return [story for story in train if " ".join(story.split()) not in seen][:count]


def pack(train: Path, valid: Path, target: Path, count: int = KEEP, size: int = SIZE) -> None:
    """Write tokenizer.json and, for each split, a manifest and one compressed shard."""
    text = lzma.decompress(valid.read_bytes()).decode()
    target.mkdir(exist_ok=True)
    splits = {"train": kept(list(documents(train, between="<|endoftext|>")), text, count), "valid": held_out(text)}
    vocabulary = train_tokenizer("bpe", splits["train"], size, "stories")
    for split, stories in splits.items():
        folder = target / split
        raw = target / f"{split}.txt"
        raw.write_text("\n<|endoftext|>\n".join(stories), encoding="utf-8")
        made = tokenize_files([raw], folder, vocabulary, between="<|endoftext|>", piece=10**9)
        (shard,) = made.shards
        packed = lzma.compress((folder / shard.file).read_bytes(), lzma.FORMAT_XZ, filters=PACKED)
        (folder / f"{shard.file}.xz").write_bytes(packed)
        finished: Manifest = replace(made, shards=(replace(shard, file=f"{shard.file}.xz"),))
        finished.save(folder)
        for path in (folder / shard.file, folder / "tokenizer.json", raw):
            path.unlink()
    (target / "tokenizer.json").write_text(vocabulary.text, encoding="utf-8")


if __name__ == "__main__":
    given = list(map(Path, sys.argv[1:]))
    if len(given) == 3:
        pack(*given)
    else:
        stories = held_out(lzma.decompress(given[0].read_bytes()).decode())
        given[1].write_text("\n<|endoftext|>\n".join(stories), encoding="utf-8")
