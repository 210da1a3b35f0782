"""The data of a task: whether it is here, before anything is trained, and its sha256, for the record of a run.

`check_data` looks at the names of files alone, so that a sweep of a hundred runs is refused within a second where the data
of the last one is missing. A task without data, or with data that is generated, passes."""

from __future__ import annotations

import hashlib
import os
from functools import lru_cache, singledispatch
from pathlib import Path
from typing import Any

import numpy as np
import torch

from manyheads.data.decoded_once import MOST, content_digest, file_states, held_size
from manyheads.data.image_readers import find, read
from manyheads.data.image_types import Files, Pixels, kept_apart
from manyheads.data.local_data import data_root
from manyheads.data.lra.published_sets import find_aan, find_imdb
from manyheads.data.text.corpora import corpus_folder, find_corpus
from manyheads.data.text.glue import glue_folder
from manyheads.data.text.shards import MANIFEST
from manyheads.spec.datasets import glue_set, image_set
from manyheads.spec.images import Images
from manyheads.spec.long_range import ByteText, PixelRow, Retrieval
from manyheads.spec.task import Task
from manyheads.spec.text import Glue, PackedText

from .long_range import splits
from .task import open_task


@singledispatch
def check_data(task: Task, *, root: Path | None = None) -> None:
    """Refuse a task whose data is not below `root`; the error says where to get it."""


@check_data.register(Images)
@check_data.register(PixelRow)
def _(task: Images | PixelRow, *, root: Path | None = None) -> None:
    find(task.data, data_root(root))


@check_data.register(PackedText)
def _(task: PackedText, *, root: Path | None = None) -> None:
    find_corpus(task.data, data_root(root), "" if task.held else task.held_split)


@check_data.register(Glue)
def _(task: Glue, *, root: Path | None = None) -> None:
    glue_folder(glue_set(task.task), task.data, data_root(root))


@check_data.register(ByteText)
def _(task: ByteText, *, root: Path | None = None) -> None:
    if task.data == "imdb":
        find_imdb(data_root(root))


@check_data.register(Retrieval)
def _(task: Retrieval, *, root: Path | None = None) -> None:
    if task.data == "aan":
        find_aan(data_root(root))


@singledispatch
def sample_count(task: Task, batch: int, *, root: Path | None = None) -> int | None:
    """Training samples in an epoch; None where data never repeats. Image files are counted and not decoded."""
    return open_task(task, torch.device("cpu"), 0, batch, root=root).samples


@sample_count.register(Images)
def _(task: Images, batch: int, *, root: Path | None = None) -> int | None:
    train: Any = read(task.data, data_root(root))[0]  # images in memory or files, which are divided alike
    return len(kept_apart(train, task.limit, task.validation, "Images.validation")[0].labels)


@singledispatch
def held_bytes(task: Task, *, root: Path | None = None) -> int:
    """Bytes of decoded image files that a run keeps on its device where they fit; 0 where it keeps none."""
    return 0


@held_bytes.register(Images)
def _(task: Images, *, root: Path | None = None) -> int:
    if not image_set(task.data).streamed or task.augment.resized is not None:
        return 0
    train, test = read(task.data, data_root(root))
    count = held_size(train, test, task.shape[1])
    return count if count <= MOST else 0


@singledispatch
def data_digest(task: Task, *, root: Path | None = None) -> str | None:
    """The sha256 of the data that a task reads below `root`: training and held-out samples, before any is left out. None
    where there is no data, or where the record of the task alone decides it."""
    return None


@data_digest.register(Images)
@data_digest.register(PixelRow)
def _(task: Images | PixelRow, *, root: Path | None = None) -> str | None:
    return _of_images(task.data, data_root(root))


def _of_images(name: str, root: Path) -> str:
    """Of images in memory, labels and pixels. Of image files, labels and what is in the files; of more than `MOST` bytes
    of them, labels, and the names and sizes of the files."""
    train, test = read(name, root)
    if isinstance(train, Pixels):
        return _of_pixels(name, root)
    assert isinstance(train, Files)
    assert isinstance(test, Files)
    listed = [Path(os.fsdecode(path)) for split in (train, test) for path in split.paths.tolist()]
    sizes = [stated.size for stated in file_states(train, test)]
    if sum(sizes) <= MOST:
        return content_digest(train, test)
    content = hashlib.sha256()
    labels = [*train.labels.tolist(), *test.labels.tolist()]
    for label, path, size in zip(labels, listed, sizes, strict=True):
        content.update(f"{label} {path.name} {size}\n".encode(errors="surrogateescape"))
    return content.hexdigest()


@lru_cache(maxsize=4)
def _of_pixels(name: str, root: Path) -> str:
    content = hashlib.sha256()
    for split in read(name, root):
        assert isinstance(split, Pixels)
        content.update(f"{split.images.shape}".encode())
        content.update(np.ascontiguousarray(split.labels, dtype="<i8").data)
        content.update(np.ascontiguousarray(split.images).data)
    return content.hexdigest()


@data_digest.register(PackedText)
def _(task: PackedText, *, root: Path | None = None) -> str | None:
    """Of the manifests, which hold the checksums of the shards, and the sha256 of the tokenizer and of every source."""
    folder = corpus_folder(task.data, data_root(root))
    content = hashlib.sha256((folder / "train" / MANIFEST).read_bytes())
    if not task.held:
        content.update((folder / task.held_split / MANIFEST).read_bytes())
    return content.hexdigest()


@data_digest.register(Glue)
def _(task: Glue, *, root: Path | None = None) -> str | None:
    facts = glue_set(task.task)
    folder = glue_folder(facts, task.data, data_root(root))
    content = hashlib.sha256()
    for name in ("train.tsv", *facts.held):
        content.update((folder / name).read_bytes())
    return content.hexdigest()


@data_digest.register(ByteText)
@data_digest.register(Retrieval)
def _(task: ByteText | Retrieval, *, root: Path | None = None) -> str | None:
    if task.data == "made":
        return None
    content = hashlib.sha256()
    for split in splits(task, data_root(root)).values():
        for array in (split.labels, split.lengths, *split.stores):
            content.update(np.ascontiguousarray(array).data)
    return content.hexdigest()
