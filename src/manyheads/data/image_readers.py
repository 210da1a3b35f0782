"""The readers of the image datasets: Fashion-MNIST, CIFAR-10, and the folders of `image_folders`."""

from __future__ import annotations

import gzip
import lzma
import struct
import zlib
from collections.abc import Callable
from functools import lru_cache
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import UInt8

from manyheads.spec.datasets import FOLDER, RETIRED, image_set
from manyheads.spec.errors import UserError

from . import cifar_archive
from .image_folders import find_folder, find_tiny, image_folder, tiny_imagenet
from .image_types import Files, Pixels
from .local_data import first_found, read_at_most

OPENERS: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".xz": lzma.open}
UNSIGNED_BYTE = 8


def read_idx(path: Path, ndim: int) -> UInt8[np.ndarray, " ..."]:
    """The array of unsigned bytes in an IDX file (the format of MNIST): a big-endian header, then the bytes. The file
    may be compressed with gzip or xz; no more of it is inflated than the header promises."""
    header = 4 * (ndim + 1)
    try:
        with OPENERS.get(path.suffix, open)(path, "rb") as file:
            head = file.read(header)
            valid = len(head) == header and head[:4] == bytes([0, 0, UNSIGNED_BYTE, ndim])
            shape = struct.unpack(f">{ndim}I", head[4:]) if valid else ()
            data = read_at_most(file, prod(shape)) if valid else b""
    except (OSError, EOFError, lzma.LZMAError, zlib.error) as error:
        raise UserError(f"{path} cannot be read ({error}); put a fresh copy in its place") from None
    if not valid:
        raise UserError(
            f"{path} is no IDX file of unsigned bytes with {ndim} dimensions; put the official file in its place"
        )
    if len(data) != prod(shape):
        size = " x ".join(map(str, shape))
        more = "more than " * (len(data) > prod(shape))
        raise UserError(
            f"{path} holds {more}{min(len(data), prod(shape)):,} bytes after its header, which promises {size}; it was cut "
            "short or changed: put a fresh copy in its place"
        )
    return np.frombuffer(data, np.uint8).reshape(shape)


def idx_bytes(array: UInt8[np.ndarray, " ..."]) -> bytes:
    """An array of unsigned bytes as an IDX file."""
    return struct.pack(f">4B{array.ndim}I", 0, 0, UNSIGNED_BYTE, array.ndim, *array.shape) + array.tobytes()


EMBEDDED = Path(__file__).parent / "fashion_mnist"


def fashion_mnist(root: Path) -> tuple[Pixels, Pixels]:
    """A part of Fashion-MNIST (1708.07747) that is shipped with the package, so `root` is ignored: 1,000 training and
    200 test images of each class."""
    return _fashion_split(EMBEDDED, "train", "xz"), _fashion_split(EMBEDDED, "t10k", "xz")


def _find_fashion(root: Path) -> Path:
    return first_found(
        root,
        ("fashion-mnist",),
        "Fashion-MNIST",
        "https://github.com/zalandoresearch/fashion-mnist (or "
        "Debian's package dataset-fashion-mnist: four files *-ubyte.gz)",
    )


def fashion_mnist_full(root: Path) -> tuple[Pixels, Pixels]:
    """All 60,000 and 10,000 images of Fashion-MNIST, from the four official gzip files."""
    folder = _find_fashion(root)
    return _fashion_split(folder, "train", "gz"), _fashion_split(folder, "t10k", "gz")


def _fashion_split(folder: Path, name: str, packed: str) -> Pixels:
    images = read_idx(folder / f"{name}-images-idx3-ubyte.{packed}", 3)
    labels = read_idx(folder / f"{name}-labels-idx1-ubyte.{packed}", 1).astype(np.int64)
    if len(images) != len(labels) or images.shape[1:] != (28, 28) or labels.max(initial=0) > 9:
        raise UserError(
            f"{folder} has {len(images)} {name} images of {images.shape[1:]} and {len(labels)} labels up to "
            f"{labels.max(initial=0)}; Fashion-MNIST has as many labels as images, 28 x 28 pixels and labels 0 "
            "to 9: put the official files there"
        )
    return Pixels(images[:, None], labels)


CLASSES = 10


def find_cifar(root: Path) -> Path:
    """The folder of CIFAR-10's official files below `root`."""
    return first_found(
        root,
        ("cifar-10-batches-bin", "cifar10/cifar-10-batches-bin"),
        "CIFAR-10",
        f"{cifar_archive.ADDRESS}{cifar_archive.ARCHIVE} (`manyheads data cifar10` downloads and unpacks it)",
    )


def cifar10(root: Path) -> tuple[Pixels, Pixels]:
    """CIFAR-10 (Krizhevsky 2009) from the official files data_batch_1.bin to data_batch_5.bin and test_batch.bin."""
    folder = find_cifar(root)
    train = np.concatenate([_cifar_records(folder / name) for name in cifar_archive.TRAIN])
    return _cifar_pixels(train, folder), _cifar_pixels(_cifar_records(folder / cifar_archive.TEST), folder)


def _cifar_records(path: Path) -> UInt8[np.ndarray, "records bytes"]:
    again = f"get the archive again: `manyheads data cifar10`, once {path.parent} is moved away"
    if not path.is_file():
        raise UserError(f"{path} is missing; {again}")
    official = cifar_archive.RECORD * cifar_archive.RECORDS
    if path.stat().st_size != official:
        raise UserError(
            f"{path} has {path.stat().st_size:,} bytes; an official file has {official:,} ({cifar_archive.RECORDS:,} "
            f"records of {cifar_archive.RECORD:,}); {again}"
        )
    return np.fromfile(path, np.uint8).reshape(-1, cifar_archive.RECORD)


def _cifar_pixels(records: UInt8[np.ndarray, "records bytes"], where: Path) -> Pixels:
    labels = records[:, 0].astype(np.int64)
    _check_cifar_labels(labels, where)
    return Pixels(records[:, 1:].reshape(-1, 3, cifar_archive.SIDE, cifar_archive.SIDE), labels)


def _check_cifar_labels(labels: np.ndarray, where: Path) -> None:
    if labels.max(initial=0) >= CLASSES:
        raise UserError(f"{where} has a label {labels.max()}; CIFAR-10 has labels 0 to 9: put the official data there")


Splits = tuple[Pixels, Pixels] | tuple[Files, Files]
READERS: dict[str, Callable[[Path], Splits]] = {
    "fashion_mnist": fashion_mnist,
    "fashion_mnist_full": fashion_mnist_full,
    "cifar10": cifar10,
    "tiny_imagenet": tiny_imagenet,
}


FINDERS: dict[str, Callable[[Path], Path]] = {
    "fashion_mnist": lambda root: EMBEDDED,
    "fashion_mnist_full": _find_fashion,
    "cifar10": find_cifar,
    "tiny_imagenet": find_tiny,
}


def _gone(name: str) -> UserError:
    """The refusal of a dataset that only earlier versions read."""
    return UserError(
        f"{name} is read by earlier versions alone: finished runs that name it are reported, and none is trained; write "
        f"{RETIRED[name]}"
    )


def find(name: str, root: Path) -> Path:
    """Where a dataset is. One that is not below `root` is refused, with where to get it; no image is read."""
    facts = image_set(name)
    if facts.name in RETIRED:
        raise _gone(facts.name)
    return FINDERS[facts.name](root) if facts.name in FINDERS else find_folder(root, name.removeprefix(FOLDER))


@lru_cache(maxsize=2)
def read(name: str, root: Path) -> Splits:
    """The training and the held-out split. The last two datasets are cached for the next run of the same process."""
    facts = image_set(name)
    if facts.name in RETIRED:
        raise _gone(facts.name)
    if facts.name in READERS:
        return READERS[facts.name](root)
    return image_folder(root, name=name.removeprefix(FOLDER))
