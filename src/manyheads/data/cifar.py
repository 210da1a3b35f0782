"""CIFAR-10 (Krizhevsky 2009): the official binary files, and a smaller pack with pixels in steps of 5."""

from __future__ import annotations

import io
import json
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import UInt8

from manyheads.spec.errors import UserError, optional

from .places import first_found
from .stored import Pixels

SIDE, CLASSES = 32, 10
RECORD, RECORDS = 1 + 3 * SIDE * SIDE, 10_000  # a label and three planes; records in each official file


def binary(root: Path) -> tuple[Pixels, Pixels]:
    """The official files data_batch_1.bin to data_batch_5.bin and test_batch.bin."""
    folder = first_found(
        root,
        ("cifar-10-batches-bin", "cifar10/cifar-10-batches-bin"),
        "CIFAR-10",
        "https://www.cs.toronto.edu/~kriz/cifar.html (cifar-10-binary.tar.gz, unpacked)",
    )
    train = [_records(folder / f"data_batch_{i}.bin") for i in range(1, 6)]
    return _pixels(np.concatenate(train), folder), _pixels(_records(folder / "test_batch.bin"), folder)


def _records(path: Path) -> UInt8[np.ndarray, "records bytes"]:
    if not path.is_file():
        raise UserError(
            f"{path} is missing; unpack cifar-10-binary.tar.gz again: it holds five data batches and a test batch"
        )
    if path.stat().st_size != RECORD * RECORDS:
        raise UserError(
            f"{path} has {path.stat().st_size:,} bytes; an official file has {RECORD * RECORDS:,} ({RECORDS:,} "
            f"records of {RECORD:,}). Unpack cifar-10-binary.tar.gz again"
        )
    return np.fromfile(path, np.uint8).reshape(RECORDS, RECORD)


def _pixels(records: UInt8[np.ndarray, "records bytes"], where: Path) -> Pixels:
    labels = records[:, 0].astype(np.int64)
    _check_labels(labels, where)
    return Pixels(records[:, 1:].reshape(-1, 3, SIDE, SIDE), labels)


def _check_labels(labels: np.ndarray, where: Path) -> None:
    if labels.max(initial=0) >= CLASSES:
        raise UserError(f"{where} has a label {labels.max()}; CIFAR-10 has labels 0 to 9: put the official data there")


def pack(root: Path) -> tuple[Pixels, Pixels]:
    """The pack cifar10_q5.zip: pixels rounded to multiples of 5 (error at most 2 of 255), official order.

    Its members are lossless WebP strips, 32 pixels wide with one image below the other, arrays of labels, and
    meta.json."""
    path = first_found(
        root,
        ("cifar10_q5.zip", "cifar10/cifar10_q5.zip"),
        "the CIFAR-10 pack",
        "whoever gave you the name cifar10_q5 (the official set is data='cifar10')",
    )
    image = optional("PIL.Image", "pillow", "cifar10_q5, whose strips are WebP,")
    try:
        with zipfile.ZipFile(path) as archive:
            meta = json.loads(archive.read("meta.json"))
            return _unpack(archive, meta, "train", image, path), _unpack(archive, meta, "test", image, path)
    except (zipfile.BadZipFile, zlib.error, KeyError, ValueError, EOFError, OSError) as error:
        if isinstance(error, UserError):
            raise
        raise UserError(f"{path} cannot be read ({error}); put a fresh copy in its place") from None


def _unpack(archive: zipfile.ZipFile, meta: dict[str, Any], split: str, image: Any, where: Path) -> Pixels:
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
    _check_labels(labels, where)
    return Pixels(images, labels)
