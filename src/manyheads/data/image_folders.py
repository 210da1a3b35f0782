"""Datasets that are folders of image files: Tiny-ImageNet, and any folder with train/CLASS/ and val/CLASS/."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from manyheads.spec.errors import UserError

from .image_types import Files
from .local_data import first_found

SUFFIXES = (".jpg", ".jpeg", ".png", ".webp", ".bmp", ".ppm", ".tif", ".tiff")


def find_tiny(root: Path) -> Path:
    """Where Tiny-ImageNet is below `root`."""
    return first_found(
        root, ("tiny-imagenet-200",), "Tiny-ImageNet", "http://cs231n.stanford.edu/tiny-imagenet-200.zip (unpacked)"
    )


def tiny_imagenet(root: Path) -> tuple[Files, Files]:
    """Tiny-ImageNet-200 as it is unpacked: train/WNID/images/ and val/images/ with val_annotations.txt.

    The labels of its test images are not published, so the validation images are the held-out split, as usual."""
    folder = find_tiny(root)
    classes = _lines(folder / "wnids.txt")
    number = {name: i for i, name in enumerate(sorted(classes))}
    train = [(path, number[name]) for name in number for path in _images(folder / "train" / name / "images")]
    held = []
    for line in _lines(folder / "val" / "val_annotations.txt"):
        file, name = [*line.split("\t"), "", ""][:2]
        if name not in number:
            raise UserError(
                f"{folder / 'val' / 'val_annotations.txt'} says that {file or line!r} is of class {name!r}, "
                "which wnids.txt does not list; unpack tiny-imagenet-200.zip again"
            )
        held.append((str(folder / "val" / "images" / file), number[name]))
    missing = next((path for path, _ in held if not os.path.exists(path)), None)
    if missing:
        raise UserError(
            f"{missing} is listed in val_annotations.txt and does not exist; unpack tiny-imagenet-200.zip again"
        )
    return _files(train, folder), _files(held, folder)


def find_folder(root: Path, name: str) -> Path:
    """Where an image folder is: `name` below `root`, or an absolute path. It has to have train and val."""
    folder = first_found(
        root,
        (name,),
        f"the image folder {name}",
        "your own images (or image-net.org for ImageNet), as train/CLASS/* and val/CLASS/*",
    )
    for split in ("train", "val"):
        if not (folder / split).is_dir():
            raise UserError(f"{folder} has no folder {split}; write {folder}/train/CLASS/* and {folder}/val/CLASS/*")
    return folder


def image_folder(root: Path, name: str) -> tuple[Files, Files]:
    """`name` below `root` (or an absolute path) with train/CLASS/* and val/CLASS/*, classes in alphabetical order."""
    folder = find_folder(root, name)
    splits = []
    for split in ("train", "val"):
        splits.append({entry.name: entry for entry in sorted((folder / split).iterdir()) if entry.is_dir()})
    train, held = splits
    if train.keys() != held.keys():
        odd = sorted(train.keys() ^ held.keys())[0]
        raise UserError(
            f"class {odd} of {folder} is only in {'train' if odd in train else 'val'}; both need the same classes"
        )
    number = {name: i for i, name in enumerate(train)}
    listed = [[(path, number[name]) for name, place in split.items() for path in _images(place)] for split in splits]
    return _files(listed[0], folder), _files(listed[1], folder)


def class_count(root: Path, name: str) -> int:
    """How many classes the image folder `name` has; 0 if it is not here."""
    train = root / name / "train"
    return sum(entry.is_dir() for entry in train.iterdir()) if train.is_dir() else 0


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path} cannot be read ({error}); unpack the dataset again") from None


def _images(folder: Path) -> list[str]:
    """The image files of one class in alphabetical order; an empty class is refused."""
    try:
        with os.scandir(folder) as entries:
            images = sorted(entry.path for entry in entries if entry.name.lower().endswith(SUFFIXES))
    except OSError as error:
        raise UserError(f"{folder} cannot be listed ({error.strerror}); unpack the dataset again") from None
    if not images:
        raise UserError(f"{folder} holds no image ({', '.join(SUFFIXES)}); a class needs at least one")
    return images


def _files(listed: Sequence[tuple[str, int]], folder: Path) -> Files:
    if not listed:
        raise UserError(f"{folder} lists no images; unpack the dataset again")
    paths, labels = zip(*listed, strict=True)
    return Files(np.array([os.fsencode(path) for path in paths]), np.array(labels, dtype=np.int64))
