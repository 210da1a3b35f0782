"""The image datasets by name: what a task may know of them before anything is read, and how they are read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path

from manyheads.spec.errors import UserError, nearest

from . import cifar, fashion, folders
from .stored import Files, Pixels

Reader = Callable[[Path], tuple[Pixels, Pixels] | tuple[Files, Files]]


@dataclass(frozen=True)
class ImageSet:
    """A dataset of images with one label each. `size` and `classes` are 0 where a task has to state them.

    `mean` and `std` are those of the training pixels, of 0 to 1, channel by channel. `streamed` sets stay in files and
    are decoded while training; the others live in memory as bytes."""

    name: str
    size: int
    channels: int
    classes: int
    mean: tuple[float, ...]
    std: tuple[float, ...]
    read: Reader
    streamed: bool = False


CIFAR = ((0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616))
IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
FASHION = ((0.2860,), (0.3530,))  # of all 60,000; the embedded part has 0.2867 and 0.3540

SETS: dict[str, ImageSet] = {
    entry.name: entry
    for entry in (
        ImageSet("fashion_mnist", 28, 1, 10, *FASHION, fashion.embedded),
        ImageSet("fashion_mnist_full", 28, 1, 10, *FASHION, fashion.whole),
        ImageSet("cifar10", 32, 3, 10, *CIFAR, cifar.binary),
        ImageSet("cifar10_q5", 32, 3, 10, *CIFAR, cifar.pack),
        ImageSet("tiny_imagenet", 64, 3, 200, *IMAGENET, folders.tiny_imagenet, streamed=True),
    )
}
FOLDER = "folder:"


def image_set(name: str) -> ImageSet:
    """The dataset of that name; `folder:NAME` is the folder NAME with train/CLASS/* and val/CLASS/*."""
    if name in SETS:
        return SETS[name]
    if name.startswith(FOLDER) and len(name) > len(FOLDER):
        reader = partial(folders.image_folder, name=name.removeprefix(FOLDER))
        return ImageSet(name, 0, 3, 0, *IMAGENET, reader, streamed=True)
    hint = nearest(name, SETS) or f"; known: {', '.join(SETS)}, {FOLDER}NAME"
    raise UserError(f"data {name!r} is no image dataset{hint}")


@lru_cache(maxsize=2)
def read(name: str, root: Path) -> tuple[Pixels, Pixels] | tuple[Files, Files]:
    """Training and held-out split; the last two datasets read stay in memory, for the next run of the same process."""
    return image_set(name).read(root)
