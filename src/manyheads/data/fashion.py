"""Fashion-MNIST (arXiv:1708.07747): a part that is shipped with the package, and the whole from its official files."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from manyheads.spec.errors import UserError

from .idx import read_idx
from .places import first_found
from .stored import Pixels

EMBEDDED = Path(__file__).parent / "fashion_mnist"


def embedded(root: Path) -> tuple[Pixels, Pixels]:
    """1,000 training and 200 test images of each class; they lie in the package, so `root` is not looked at."""
    return _split(EMBEDDED, "train", "xz"), _split(EMBEDDED, "t10k", "xz")


def whole(root: Path) -> tuple[Pixels, Pixels]:
    """All 60,000 and 10,000 images, from the four official gzip files."""
    folder = first_found(
        root,
        ("fashion-mnist",),
        "Fashion-MNIST",
        "https://github.com/zalandoresearch/fashion-mnist (or "
        "Debian's package dataset-fashion-mnist: four files *-ubyte.gz)",
    )
    return _split(folder, "train", "gz"), _split(folder, "t10k", "gz")


def _split(folder: Path, name: str, packed: str) -> Pixels:
    images = read_idx(folder / f"{name}-images-idx3-ubyte.{packed}", 3)
    labels = read_idx(folder / f"{name}-labels-idx1-ubyte.{packed}", 1).astype(np.int64)
    if len(images) != len(labels) or images.shape[1:] != (28, 28) or labels.max(initial=0) > 9:
        raise UserError(
            f"{folder} has {len(images)} {name} images of {images.shape[1:]} and {len(labels)} labels up to "
            f"{labels.max(initial=0)}; Fashion-MNIST has as many labels as images, 28 x 28 pixels and labels 0 "
            "to 9: put the official files there"
        )
    return Pixels(images[:, None], labels)
