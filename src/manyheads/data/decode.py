"""One image file to bytes of a fixed size, through torchvision's v2 transforms: what worker processes do.

The rest (RandAugment, erasing, mixing) is done to whole batches on the device."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import UInt8
from torch import Tensor

from manyheads.spec.errors import UserError, optional

from .geometry import Geometry
from .shapes import Indices, Labelled, Terms
from .stored import Files

Image = UInt8[Tensor, "channels height width"]


@dataclass(frozen=True)
class Decoder:
    """Decodes chunks of a split, as training samples or `held` out: then the shorter side becomes size / centre and the
    middle is kept.

    A chunk is (samples, places). What cannot be read is returned as a sentence, since an exception would arrive from a
    worker wrapped in its traceback."""

    files: Files
    terms: Terms
    held: bool = False

    def __getitem__(self, chunk: tuple[Indices, Indices]) -> Labelled | str:
        samples, places = chunk
        try:
            pairs = zip(samples.tolist(), places.tolist(), strict=True)
            images = torch.stack([self.image(sample, place) for sample, place in pairs])
        except UserError as error:
            return str(error)
        return images, torch.from_numpy(self.files.labels[samples])

    def image(self, sample: int, place: int) -> Image:
        """One image of size x size, as it is seen at a place of the endless order."""
        vision = optional("torchvision.transforms.v2.functional", "torchvision", "reading image files")
        image = read_image(os.fsdecode(self.files.paths[sample]))
        if self.held:
            return self._middle(image, vision)
        terms, at = self.terms, np.array([place])
        geometry, size = Geometry(terms.augment, terms.seed), [terms.size, terms.size]
        if terms.augment.resized:
            top, left, height, width = geometry.cuts(at, *image.shape[-2:])[0].tolist()
            image = vision.resized_crop(image, top, left, height, width, size, antialias=True)
        else:
            top, left, *_ = geometry.cuts(at, *size)[0].tolist()
            image = vision.crop(self._middle(image, vision), top, left, *size)  # outside is black
        return vision.horizontal_flip(image) if geometry.flips(at)[0] else image

    def _middle(self, image: Image, vision: Any) -> Image:
        """The middle of the image, its shorter side scaled to size / centre."""
        image = vision.resize(image, [round(self.terms.size / self.terms.centre)], antialias=True)
        middle: Image = vision.center_crop(image, [self.terms.size, self.terms.size])
        return middle


def read_image(path: str) -> Image:
    """The pixels of an image file, in three channels."""
    pillow = optional("PIL.Image", "pillow", "reading image files")
    try:
        with pillow.open(path) as file:
            return torch.from_numpy(np.array(file.convert("RGB"))).permute(2, 0, 1)
    except (OSError, ValueError, SyntaxError, pillow.DecompressionBombError) as error:
        raise UserError(f"{path} is no image that can be read ({error}); replace the file or take it away") from None


def split_chunks(samples: Indices, places: Indices, size: int) -> Sequence[tuple[Indices, Indices]]:
    """A batch as chunks of at most `size` samples, what one worker decodes at a time."""
    edges = range(0, len(samples), size)
    return [(samples[start : start + size], places[start : start + size]) for start in edges]
