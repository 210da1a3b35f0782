"""Pictures as sequences of grey pixels, row by row: LRA's Image task. A pixel of value 0 is black, and real."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from jaxtyping import UInt8

from manyheads.spec.datasets import image_set
from manyheads.spec.errors import UserError

from ..catalog import read
from ..stored import Pixels
from .sequences import Sequences, joined

LUMA = np.array([0.2989, 0.5870, 0.1140])  # of ITU-R BT.601, as LRA's rgb_to_grayscale weighs red, green and blue
HELD = 0.1  # share of the training images, the last ones, that validation takes


def grey(images: UInt8[np.ndarray, "samples channels height width"]) -> UInt8[np.ndarray, "samples height width"]:
    """One brightness for each pixel, rounded."""
    if images.shape[1] == 1:
        return images[:, 0]
    out = np.empty((len(images), *images.shape[2:]), np.uint8)
    for start in range(0, len(images), 4096):
        part = images[start : start + 4096].astype(np.float64)
        out[start : start + 4096] = np.minimum(np.tensordot(part, LUMA, (1, 0)) + 0.5, 255)
    return out


def pixels(data: str, root: Path) -> dict[str, Sequences]:
    """Training, validation (the last tenth of the training images, as LRA splits them) and test images of a dataset."""
    if image_set(data).streamed:
        raise UserError(
            f"{data} stays in files of any size; pixels in a row need images in memory: cifar10, cifar10_q5, "
            "fashion_mnist"
        )
    train, test = read(data, root)
    assert isinstance(train, Pixels)
    assert isinstance(test, Pixels)
    cut = len(train.labels) - round(HELD * len(train.labels))
    images, labels = grey(train.images), train.labels
    return {
        "train": _sequences(images[:cut], labels[:cut]),
        "valid": _sequences(images[cut:], labels[cut:]),
        "test": _sequences(grey(test.images), test.labels),
    }


def _sequences(images: UInt8[np.ndarray, "samples height width"], labels: np.ndarray) -> Sequences:
    size = images.shape[1] * images.shape[2]
    return joined(np.ascontiguousarray(images).reshape(-1), np.full(len(images), size), labels)
