"""Types of the image datasets: splits that were read, batches, and the settings of a stream of batches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeVar

import numpy as np
import torch
from jaxtyping import Float, Int, UInt8
from torch import Tensor

from manyheads.spec.images import Augment

from .randomness import Indices, balanced
from .validation import parted

Boxes = Int[np.ndarray, "samples 4"]  # top, left, height, width
Bytes = UInt8[Tensor, "batch channels height width"]
Numbers = Float[Tensor, "batch channels height width"]
Labelled = tuple[Bytes, Int[Tensor, " batch"]]
Held = Literal["test", "valid"]  # splits that are evaluated: the held-out images, and the validation images


@dataclass(frozen=True)
class Terms:
    """Settings of a stream of batches: images of `size` x `size` pixels, augmented by `augment`, in steps of `batch`
    samples, on `device`.

    `centre` is the share of the shorter side that is kept of a held-out image file. `fill` is the colour (0 to 1) of
    the pixels that a rotation or a shift brings into view."""

    augment: Augment
    size: int
    fill: tuple[float, ...]
    seed: int
    batch: int
    device: torch.device
    centre: float = 1.0


@dataclass(frozen=True)
class Pixels:
    """Images in memory, as bytes, with their labels."""

    images: UInt8[np.ndarray, "samples channels height width"]
    labels: Int[np.ndarray, " samples"]

    def first(self, limit: int | None) -> Pixels:
        """The first samples of each class, equally many where possible, at most `limit` in all, in the same order."""
        if limit is None or limit >= len(self.labels):
            return self
        return self.at(np.sort(balanced(self.labels, limit)))

    def at(self, samples: Indices) -> Pixels:
        """These samples alone, in this order."""
        return Pixels(self.images[samples], self.labels[samples])


@dataclass(frozen=True)
class Files:
    """Images in files, with their labels. Paths are one array of bytes, which worker processes share without copies."""

    paths: np.ndarray
    labels: Int[np.ndarray, " samples"]

    def first(self, limit: int | None) -> Files:
        """The first samples of each class, equally many where possible, at most `limit` in all, in the same order."""
        if limit is None or limit >= len(self.labels):
            return self
        return self.at(np.sort(balanced(self.labels, limit)))

    def at(self, samples: Indices) -> Files:
        """These samples alone, in this order."""
        return Files(self.paths[samples], self.labels[samples])


Stored = TypeVar("Stored", Pixels, Files)


def kept_apart(train: Stored, limit: int | None, share: float, field: str) -> tuple[Stored, Stored | None]:
    """The samples to train on, and those of the validation split, which is None where `share` is 0. The split is taken
    from the samples that `limit` keeps, by their numbers in `train`. `field` is the share's name in a message."""
    if not share:
        return train.first(limit), None
    training, kept = parted(np.sort(balanced(train.labels, limit)), share, field)
    return train.at(training), train.at(kept)
