"""The readers of the image datasets, by the names of `spec.datasets`."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

from manyheads.spec.datasets import FOLDER, image_set

from . import cifar, fashion, folders
from .stored import Files, Pixels

Splits = tuple[Pixels, Pixels] | tuple[Files, Files]
READERS: dict[str, Callable[[Path], Splits]] = {
    "fashion_mnist": fashion.embedded,
    "fashion_mnist_full": fashion.whole,
    "cifar10": cifar.binary,
    "cifar10_q5": cifar.pack,
    "tiny_imagenet": folders.tiny_imagenet,
}


@lru_cache(maxsize=2)
def read(name: str, root: Path) -> Splits:
    """Training and held-out split; the last two datasets read stay in memory, for the next run of the same process."""
    facts = image_set(name)
    if facts.name in READERS:
        return READERS[facts.name](root)
    return folders.image_folder(root, name=name.removeprefix(FOLDER))
