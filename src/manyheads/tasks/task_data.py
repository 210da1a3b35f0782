"""The data of a task, before anything is trained: whether it is here.

Only names and sizes of files are looked at, so that a sweep of a hundred runs is refused within a second where the data
of the last one is missing. A task without data, or with data that is generated, passes."""

from __future__ import annotations

from functools import singledispatch
from pathlib import Path

from manyheads.data.image_readers import find
from manyheads.data.local_data import data_root
from manyheads.data.lra.published_sets import find_aan, find_imdb
from manyheads.data.text.corpora import find_corpus
from manyheads.data.text.glue import glue_folder
from manyheads.spec.datasets import glue_set
from manyheads.spec.images import Images
from manyheads.spec.long_range import ByteText, PixelRow, Retrieval
from manyheads.spec.task import Task
from manyheads.spec.text import Glue, PackedText


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
