"""Folders of image files that fit into memory: decoded once into a file of bytes, which stays on the device like CIFAR-10.

A file below the data root, decoded/NAME-KEY, has every image as the stream of `decoded_images` would give it before
augmentation: resized so that its shorter side is the task's size, and cut in the middle. A run therefore gives the same
numbers to the bit whether its images are streamed or held. The key depends on the content of the files, on the size and
on the share that is kept. Crops of a random size are cut out of whole files, so tasks with them are streamed."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Iterator
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import UInt8

from manyheads.spec.errors import UserError
from manyheads.spec.files import dump, replace, unwritten, write_all
from manyheads.spec.images import Augment

from .decoded_images import Decoder, loaded, split_chunks
from .image_types import Files, Pixels, Terms
from .made_once import made_once

DECODED = "decoded"  # the folder below the data root
ABOUT = "about.json"
SPLITS = ("train", "test")
MOST = 8 << 30  # bytes of images that are held
SHARE = 4  # at most a quarter of the memory
CHUNK = 256  # images that are written at a time


def fits(train: Files, test: Files, size: int, device: torch.device) -> bool:
    """Whether the images, at `size` pixels, may stay in the memory of `device`."""
    return held_size(train, test, size) <= min(MOST, _memory(device) // SHARE)


def held_size(train: Pixels | Files, test: Pixels | Files, size: int) -> int:
    """Bytes of all images, decoded to `size` pixels."""
    return 3 * size * size * (len(train.labels) + len(test.labels))


def writable(root: Path) -> bool:
    """Whether the decoded images can be kept below `root`. Where they cannot, the files are streamed."""
    place = root if root.is_dir() else root.parent
    return os.access(place, os.W_OK)


def _memory(device: torch.device) -> int:
    """Bytes of memory: free ones of a GPU, all of the machine."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def decoded(name: str, splits: tuple[Files, Files], size: int, centre: float, root: Path) -> tuple[Pixels, Pixels]:
    """The images of both splits in memory that is mapped from the file, which is made where it does not exist yet."""
    key = content_digest(*splits)
    title = Path(name).name.rpartition(":")[2]
    share = f"-{centre:g}" if centre != 1 else ""
    folder = root / DECODED / f"{title}-{key[:12]}-{size}px{share}"
    counts = [len(files.labels) for files in splits]
    about = {"schema": 1, "images": counts, "size": size, "centre": centre, "files": key}

    def make(place: Path) -> None:
        print(f"{sum(counts):,} images of {name} are decoded once, into {folder}", file=sys.stderr)
        for split, files in zip(SPLITS, splits, strict=True):
            _write(files, size, centre, place / f"{split}.u8")
        replace(place / ABOUT, dump(about))

    made_once(folder, make, f"the decoded images of {name}")
    return _mapped(folder, "train", splits[0], size), _mapped(folder, "test", splits[1], size)


class FileState(NamedTuple):
    """What changes when somebody writes a file anew: the time in nanoseconds, and the bytes that it has."""

    changed: int
    size: int


def file_states(train: Files, test: Files) -> tuple[FileState, ...]:
    """The state of every file, in order; a file that is gone is refused."""
    states = []
    for path in chain(train.paths.tolist(), test.paths.tolist()):
        try:
            found = os.stat(path)
        except OSError as error:
            raise _unread(path, error) from None
        states.append(FileState(found.st_mtime_ns, found.st_size))
    return tuple(states)


def content_digest(train: Files, test: Files) -> str:
    """The sha256 of the content of all files with their labels, in order; their names do not count."""
    paths = tuple(chain(train.paths.tolist(), test.paths.tolist()))
    labels = tuple(chain(train.labels.tolist(), (~test.labels).tolist()))
    return _content(paths, labels, file_states(train, test))


@lru_cache(maxsize=4)
def _content(paths: tuple[bytes, ...], labels: tuple[int, ...], states: tuple[FileState, ...]) -> str:
    """`content_digest`; files in other `states` are read again."""
    content = hashlib.sha256()
    for path, label in zip(paths, labels, strict=True):
        try:
            with open(path, "rb") as file:
                content.update(f"{label} {hashlib.file_digest(file, 'sha256').hexdigest()}\n".encode())
        except OSError as error:
            raise _unread(path, error) from None
    return content.hexdigest()


def _unread(path: bytes, error: OSError) -> UserError:
    return UserError(f"{os.fsdecode(path)} cannot be read: {error.strerror}; replace or remove it")


def _write(files: Files, size: int, centre: float, path: Path) -> None:
    """Decode the files of a split in worker processes and write their pixels one after another. A full disk ends in a
    sentence: a mapped file would end the process."""
    terms = Terms(Augment(), size, (0.0,), 0, 1, torch.device("cpu"), centre)
    numbers = np.arange(len(files.labels))
    chunks = iter(split_chunks(numbers, numbers, CHUNK))
    try:
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)
        try:
            for images in _pixels(Decoder(files, terms, held=True), chunks):
                write_all(file, images.tobytes())
            os.fsync(file)
        finally:
            os.close(file)
    except OSError as error:
        raise unwritten(path, error) from error


def _pixels(decoder: Decoder, chunks: Iterator[tuple[np.ndarray, np.ndarray]]) -> Iterator[UInt8[np.ndarray, ...]]:
    for chunk in loaded(decoder, chunks, pinned=False):
        if isinstance(chunk, str):
            raise UserError(chunk)
        yield chunk[0].numpy()


def _mapped(folder: Path, split: str, files: Files, size: int) -> Pixels:
    path, shape = folder / f"{split}.u8", (len(files.labels), 3, size, size)
    try:
        about = json.loads((folder / ABOUT).read_bytes())
        whole = path.stat().st_size == np.prod(shape) and about.get("schema") == 1
    except (OSError, ValueError):
        whole = False
    if not whole:
        raise UserError(f"{folder} is damaged: its images are not as many as the folder has; delete it")
    return Pixels(np.memmap(path, np.uint8, "r", shape=shape), files.labels)
