"""The readers of the image datasets: Fashion-MNIST, CIFAR-10, and the folders of `image_folders`."""

from __future__ import annotations

import gzip
import io
import lzma
import struct
import zipfile
import zlib
from collections.abc import Callable
from functools import lru_cache
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import UInt8

from manyheads.spec.datasets import FOLDER, image_set
from manyheads.spec.errors import UserError, optional
from manyheads.spec.json_text import parse

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


SIDE, CLASSES = 32, 10


RECORD, RECORDS = 1 + 3 * SIDE * SIDE, 10_000  # a label and three planes; records in each official file


def find_cifar(root: Path) -> Path:
    """The folder of CIFAR-10's official files below `root`."""
    return first_found(
        root,
        ("cifar-10-batches-bin", "cifar10/cifar-10-batches-bin"),
        "CIFAR-10",
        "https://www.cs.toronto.edu/~kriz/cifar.html (cifar-10-cifar10.tar.gz, unpacked)",
    )


def cifar10(root: Path) -> tuple[Pixels, Pixels]:
    """CIFAR-10 (Krizhevsky 2009) from the official files data_batch_1.bin to data_batch_5.bin and test_batch.bin."""
    folder = find_cifar(root)
    train = [_cifar_records(folder / f"data_batch_{i}.bin") for i in range(1, 6)]
    return _cifar_pixels(np.concatenate(train), folder), _cifar_pixels(
        _cifar_records(folder / "test_batch.bin"), folder
    )


def _cifar_records(path: Path) -> UInt8[np.ndarray, "records bytes"]:
    if not path.is_file():
        raise UserError(
            f"{path} is missing; unpack cifar-10-cifar10.tar.gz again: it holds five data batches and a test batch"
        )
    if path.stat().st_size != RECORD * RECORDS:
        raise UserError(
            f"{path} has {path.stat().st_size:,} bytes; an official file has {RECORD * RECORDS:,} ({RECORDS:,} "
            f"records of {RECORD:,}). Unpack cifar-10-cifar10.tar.gz again"
        )
    return np.fromfile(path, np.uint8).reshape(RECORDS, RECORD)


def _cifar_pixels(records: UInt8[np.ndarray, "records bytes"], where: Path) -> Pixels:
    labels = records[:, 0].astype(np.int64)
    _check_cifar_labels(labels, where)
    return Pixels(records[:, 1:].reshape(-1, 3, SIDE, SIDE), labels)


def _check_cifar_labels(labels: np.ndarray, where: Path) -> None:
    if labels.max(initial=0) >= CLASSES:
        raise UserError(f"{where} has a label {labels.max()}; CIFAR-10 has labels 0 to 9: put the official data there")


def cifar10_q5(root: Path) -> tuple[Pixels, Pixels]:
    """CIFAR-10 from the archive cifar10_q5.zip: pixels rounded to multiples of 5 (error at most 2 of 255), in the
    official order.

    The archive holds lossless WebP strips, 32 pixels wide with the images below one another, arrays of labels, and
    meta.json."""
    path = first_found(
        root,
        ("cifar10_q5.zip", "cifar10/cifar10_q5.zip"),
        "the CIFAR-10 archive",
        "whoever gave you the name cifar10_q5 (the official set is data='cifar10')",
    )
    image = optional("PIL.Image", "pillow", "cifar10_q5, whose strips are WebP,")
    try:
        with zipfile.ZipFile(path) as archive:
            meta = parse(archive.read("meta.json"))
            return _unpack_strips(archive, meta, "train", image, path), _unpack_strips(
                archive, meta, "test", image, path
            )
    except (zipfile.BadZipFile, zlib.error, KeyError, TypeError, ValueError, EOFError, OSError) as error:
        if isinstance(error, UserError):
            raise
        raise UserError(f"{path} cannot be read ({error}); put a fresh copy in its place") from None


def _unpack_strips(archive: zipfile.ZipFile, meta: dict[str, Any], split: str, image: Any, where: Path) -> Pixels:
    names = sorted(name for name in archive.namelist() if name.startswith(f"{split}_") and name.endswith(".webp"))
    value = np.minimum(np.arange(256) * int(meta["step"]), 255).astype(np.uint8)
    strips = []
    for name in names:
        strip = np.asarray(image.open(io.BytesIO(archive.read(name))).convert("RGB"))
        strips.append(value[strip.reshape(-1, SIDE, SIDE, 3).transpose(0, 3, 1, 2)])
    labels = np.load(io.BytesIO(archive.read(f"{split}_labels_00000.npy")), allow_pickle=False).astype(np.int64)
    images = np.concatenate(strips)
    if len(images) != len(labels):
        raise UserError(
            f"{where} has {len(images):,} {split} images and {len(labels):,} labels; put a fresh copy in its place"
        )
    _check_cifar_labels(labels, where)
    return Pixels(images, labels)


Splits = tuple[Pixels, Pixels] | tuple[Files, Files]
READERS: dict[str, Callable[[Path], Splits]] = {
    "fashion_mnist": fashion_mnist,
    "fashion_mnist_full": fashion_mnist_full,
    "cifar10": cifar10,
    "cifar10_q5": cifar10_q5,
    "tiny_imagenet": tiny_imagenet,
}


FINDERS: dict[str, Callable[[Path], Path]] = {
    "fashion_mnist": lambda root: EMBEDDED,
    "fashion_mnist_full": _find_fashion,
    "cifar10": find_cifar,
    "tiny_imagenet": find_tiny,
}


def find(name: str, root: Path) -> Path:
    """Where a dataset is. One that is not below `root` is refused, with where to get it; no image is read."""
    facts = image_set(name)
    return FINDERS[facts.name](root) if facts.name in FINDERS else find_folder(root, name.removeprefix(FOLDER))


@lru_cache(maxsize=2)
def read(name: str, root: Path) -> Splits:
    """The training and the held-out split. The last two datasets are cached for the next run of the same process."""
    facts = image_set(name)
    if facts.name in READERS:
        return READERS[facts.name](root)
    return image_folder(root, name=name.removeprefix(FOLDER))
