"""`--data PATH`: the dataset that a path stands for. It may be a folder of images, a file or a folder of text, or a
Hugging Face dataset (Parquet, or the folder that `save_to_disk` wrote)."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from manyheads.spec.datasets import CORPUS_VOCAB, FOLDER, IMAGE_SETS, SHARDS, TOKENIZER_VOCAB
from manyheads.spec.errors import UserError

if TYPE_CHECKING:
    from manyheads.data.text.vocabulary import Vocabulary
    from manyheads.spec.arch import Arch

TOKENIZER_FILES = ("tokenizer.json", "encoder.json", "vocab.json", "vocab.txt")  # that text is tokenized with here
KNOWN = (*IMAGE_SETS, *CORPUS_VOCAB)
LAYOUTS = (
    "images as CLASS/* or train/CLASS/* and val/CLASS/*, text as *.txt or *.jsonl, or a Hugging Face dataset "
    "(*.parquet, *.arrow)"
)


@dataclass(frozen=True)
class NamedDataset:
    """A dataset by the name that a task's `data` takes, and the fields of the task that follow from its files."""

    name: str
    fields: dict[str, Any] = field(default_factory=dict)


def is_path(data: str) -> bool:
    """Whether `data` is the path of a file or folder, and not the name of a dataset."""
    if data in KNOWN or data.startswith((FOLDER, SHARDS)):
        return False
    return os.path.exists(Path(data).expanduser()) or os.sep in data


def named_dataset(
    data: str,
    root: Path | None = None,
    tokenizer: str | None = None,
    model: str = "",
    arch: Arch | None = None,
    weights: Path | None = None,
) -> NamedDataset:
    """The dataset that `data` stands for. Of a path the files are prepared below the data root, once; text is tokenized
    with `tokenizer`, else with that of the model's folder, else with the one that has the model's vocabulary. `weights`
    is the folder of the saved model that training starts from, and `arch` is then its record: its folder takes the place
    of the model's, and text for which no tokenizer is found is refused."""
    from manyheads.data.local_data import data_root

    if not is_path(data):
        return NamedDataset(data)
    path, place = Path(data).expanduser(), data_root(root)
    if not path.exists():
        raise UserError(f"--data {data} does not exist; give {LAYOUTS}, or a name of `manyheads datasets`")
    if path.is_dir() and (path / "train" / "manifest.json").is_file():
        held = {} if (path / "valid" / "manifest.json").is_file() else {"held": 0.1}
        return NamedDataset(f"{SHARDS}{_below(path, place)}", held)
    return _images(path, place) or _text(path, place, tokenizer, model, arch, weights)


def _below(path: Path, root: Path) -> str:
    """A path as it is named below the data root; elsewhere in full."""
    here, there = path.resolve(), root.resolve()
    return here.relative_to(there).as_posix() if here.is_relative_to(there) else str(here)


def _images(path: Path, root: Path) -> NamedDataset | None:
    """The image folder that a path stands for; None where it holds no images."""
    from manyheads.data.own_images import has_classes, image_column, own_images, own_tables, split_folders
    from manyheads.data.tables import open_table

    if path.is_dir():
        places = [path, *split_folders(path).values()]
        if any(has_classes(place) for place in places):
            return NamedDataset(f"{FOLDER}{own_images(path, root)}")
    tables = _tables(path)
    if tables and image_column(open_table(tables["train"][0])) is not None:
        splits = {"train": tables["train"]} | ({"val": tables["valid"]} if "valid" in tables else {})
        return NamedDataset(f"{FOLDER}{own_tables(splits, _name(path), root)}")
    return None


def _tables(path: Path) -> dict[str, list[Path]]:
    """The tables of a path by split."""
    from manyheads.data.tables import TABLES, listed_tables
    from manyheads.data.text.own_text import by_split

    if path.is_file():
        return {"train": [path]} if path.suffix in TABLES else {}
    files = listed_tables(path)
    return by_split(files, path) if files else {}


def _text(
    path: Path, root: Path, tokenizer: str | None, model: str, arch: Arch | None, weights: Path | None
) -> NamedDataset:
    from manyheads.data.text.own_text import HELD, is_text, own_text, text_files

    files = _tables(path)
    if not files and (path.is_dir() or is_text(path)):
        files = text_files(path) if path.is_file() or any(map(is_text, path.rglob("*"))) else {}
    if not files:
        raise UserError(f"--data {path} holds neither images nor text; give {LAYOUTS}")
    vocabulary = _vocabulary(tokenizer, model, arch, root, weights)
    if vocabulary is None:
        raise UserError(
            f"--data {path} is text, and no tokenizer is found for the weights that training starts from: {weights} holds "
            f"none of {', '.join(TOKENIZER_FILES)}. Ids of another tokenizer mean other words to these weights; write "
            "--tokenizer with the tokenizer that they were trained with"
        )
    name = f"{SHARDS}{own_text(files, _name(path), vocabulary, root)}"
    return NamedDataset(name, {} if "valid" in files else {"held": HELD})


def _name(path: Path) -> str:
    return path.resolve().name.partition(".")[0] or "text"


def _vocabulary(
    tokenizer: str | None, model: str, arch: Arch | None, root: Path, weights: Path | None
) -> Vocabulary | None:
    """The tokenizer that is named, the one in the folder of the weights or of the model, the one that has the model's
    number of ids, or bytes; for weights, None in place of bytes. Which one it is, is told where nobody named it."""
    from manyheads.data.text.vocabulary import load
    from manyheads.spec.parts import Token

    if tokenizer is not None:
        return load(tokenizer, root)
    folder = weights or Path(model.partition(":")[2] if model.startswith(("hf:", "run:")) else model)
    if (model or weights) and folder.is_dir() and any((folder / name).is_file() for name in TOKENIZER_FILES):
        return _told(load(str(folder), root), "the one in the model's folder")
    size = arch.embed.vocab if arch is not None and isinstance(arch.embed, Token) else 0
    for name, count in TOKENIZER_VOCAB.items():
        if count == size:
            try:
                return _told(load(name, root), "it has the model's number of ids")
            except UserError:
                break
    if weights is not None:
        return None
    return _told(load("bytes", root), "the model brings none; --tokenizer NAME takes another")


def _told(vocabulary: Vocabulary, why: str) -> Vocabulary:
    if os.environ.get("RANK", "0") == "0":
        print(f"text is tokenized with {vocabulary.name}: {why}", file=sys.stderr)
    return vocabulary
