"""Where a sample is cut, mirrored and erased: plain numbers, made on the host from the sample's own random numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

from manyheads.spec.augment import Augment, Span

from .draws import key, uniforms
from .shapes import Boxes, Indices

TRIES = 10
ERASED: Span = (0.02, 1 / 3)
ERASED_RATIO: Span = (0.3, 1 / 0.3)


@dataclass(frozen=True)
class Geometry:
    """The boxes and flips of one seed. `places` are the samples' places in the endless order: each is drawn for
    once."""

    augment: Augment
    seed: int

    def cuts(self, places: Indices, height: int, width: int) -> Boxes:
        """The box of the image that each sample keeps; one of a padded crop may reach beyond the image."""
        if self.augment.resized:
            draws = uniforms(key(self.seed, "resized"), places, 4 * TRIES)
            boxes, found = boxes_in(draws, height, width, self.augment.resized, self.augment.ratio)
            boxes[~found] = _middle(height, width, self.augment.ratio)
            return boxes
        pad = self.augment.crop
        corner = np.floor(uniforms(key(self.seed, "crop"), places, 2) * (2 * pad + 1)).astype(np.int64) - pad
        return np.concatenate((corner, np.broadcast_to((height, width), corner.shape)), axis=1)

    def flips(self, places: Indices) -> Bool[np.ndarray, " samples"]:
        """Which samples are mirrored."""
        return (uniforms(key(self.seed, "flip"), places, 1)[:, 0] < 0.5) & self.augment.flip

    def erased(self, places: Indices, side: int) -> Boxes:
        """The box of each sample that is erased, of height 0 where none is."""
        boxes, found = boxes_in(
            uniforms(key(self.seed, "erased box"), places, 4 * TRIES), side, side, ERASED, ERASED_RATIO
        )
        boxes[~found | (uniforms(key(self.seed, "erase"), places, 1)[:, 0] >= self.augment.erase)] = 0
        return boxes


def boxes_in(
    draws: Float[np.ndarray, "samples draws"], height: int, width: int, area: Span, ratio: Span
) -> tuple[Boxes, Bool[np.ndarray, " samples"]]:
    """Boxes with a share of the area in `area`, of an aspect (width : height) in `ratio`, whole pixels, anywhere
    inside.

    The first of ten tries that fits is taken, as torchvision's RandomResizedCrop does; the second array says whether
    any did."""
    share, aspect, top, left = np.split(draws, 4, axis=1)
    pixels = height * width * (area[0] + share * (area[1] - area[0]))
    slant = np.exp(math.log(ratio[0]) + aspect * (math.log(ratio[1]) - math.log(ratio[0])))
    tall, wide = np.rint(np.sqrt(pixels / slant)), np.rint(np.sqrt(pixels * slant))
    fits = (tall > 0) & (tall <= height) & (wide > 0) & (wide <= width)
    chosen = np.argmax(fits, axis=1)[:, None]
    h, w, y, x = (np.take_along_axis(values, chosen, axis=1) for values in (tall, wide, top, left))
    corner = np.floor(y * (height - h + 1)), np.floor(x * (width - w + 1))
    return np.concatenate((*corner, h, w), axis=1).astype(np.int64), np.any(fits, axis=1)


def _middle(height: int, width: int, ratio: Span) -> tuple[int, int, int, int]:
    """The largest box in the middle of an aspect in `ratio`."""
    w = min(width, max(1, round(height * ratio[1])))
    h = min(height, max(1, round(width / ratio[0])))
    return (height - h) // 2, (width - w) // 2, h, w
