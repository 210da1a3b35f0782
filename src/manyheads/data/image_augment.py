"""Augmentation of image batches: crops, mirroring and erasing for each sample, mixup and cutmix for a whole batch.

The host draws what happens to each sample (boxes, flips, the mix) from the sample's own random numbers. The device
applies it to whole batches, without a loop over samples and without a wait for the host."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional

from manyheads.spec.images import Augment, Span

from .image_types import Boxes, Bytes, Numbers
from .randomness import Indices, key, uniforms


@dataclass(frozen=True)
class Mix:
    """How the images of a batch are mixed in pairs: each has the weight `keep`, its partner the rest.

    Cutmix (1905.04899) pastes the partner's pixels into `box` (top, left, bottom, right). Without a box the two images
    are blended (mixup, 1710.09412)."""

    keep: float = 1.0
    box: tuple[int, int, int, int] | None = None


def plan_mix(augment: Augment, seed: int, step: int, side: int) -> Mix:
    """How the batch of a step is mixed. As in timm, one draw serves the whole batch; the box has the area 1 - keep
    around a random centre, is clipped at the border, and `keep` becomes the area outside the clipped box."""
    draw = random.Random(key(seed, "mix", step))
    chance, which = draw.random(), draw.random()
    if not augment.mixes or chance >= augment.mix:
        return Mix()
    cut = augment.cutmix > 0 and (augment.mixup == 0 or which < augment.switch)
    alpha = augment.cutmix if cut else augment.mixup
    keep = draw.betavariate(alpha, alpha)
    if not cut:
        return Mix(keep)
    half = int(side * math.sqrt(1 - keep)) // 2
    y, x = draw.randrange(side), draw.randrange(side)
    top, bottom = max(0, y - half), min(side, y + half)
    left, right = max(0, x - half), min(side, x + half)
    return Mix(1 - (bottom - top) * (right - left) / side**2, (top, left, bottom, right))


def partner(rows: Tensor) -> Tensor:
    """The rows with 2k and 2k+1 exchanged: each row's partner."""
    return rows.unflatten(0, (-1, 2)).flip(1).flatten(0, 1)


def mixed(
    images: Numbers, labels: Int[Tensor, " batch"], classes: int, mix: Mix
) -> tuple[Numbers, Float[Tensor, "batch classes"]]:
    """Images and soft targets after `mix`. Targets are soft even without a mix, so that all batches have one type."""
    targets = (labels[:, None] == torch.arange(classes, device=labels.device)).to(torch.float32)
    if mix.box is None and mix.keep == 1:
        return images, targets
    targets = torch.lerp(partner(targets), targets, mix.keep)
    if mix.box is None:
        return torch.lerp(partner(images), images, mix.keep), targets
    top, left, bottom, right = mix.box
    images = images.clone()
    images[..., top:bottom, left:right] = partner(images[..., top:bottom, left:right])
    return images, targets


TRIES = 10
ERASED: Span = (0.02, 1 / 3)
ERASED_RATIO: Span = (0.3, 1 / 0.3)


@dataclass(frozen=True)
class Geometry:
    """The boxes and flips of one seed. `places` are the samples' places in the endless order (`randomness.Order`), so a
    sample is cut in another way in every epoch."""

    augment: Augment
    seed: int

    def cuts(self, places: Indices, height: int, width: int) -> Boxes:
        """The box that is cut out of each image. With a padded crop it may reach beyond the image."""
        if self.augment.resized:
            draws = uniforms(key(self.seed, "resized"), places, 4 * TRIES)
            boxes, fits = boxes_in(draws, height, width, self.augment.resized, self.augment.ratio)
            boxes[~fits] = _middle(height, width, self.augment.ratio)
            return boxes
        pad = self.augment.crop
        corner = np.floor(uniforms(key(self.seed, "crop"), places, 2) * (2 * pad + 1)).astype(np.int64) - pad
        return np.concatenate((corner, np.broadcast_to((height, width), corner.shape)), axis=1)

    def flips(self, places: Indices) -> Bool[np.ndarray, " samples"]:
        """Which samples are mirrored."""
        return (uniforms(key(self.seed, "flip"), places, 1)[:, 0] < 0.5) & self.augment.flip

    def erased(self, places: Indices, side: int) -> Boxes:
        """The box that is erased from each sample; its height is 0 where nothing is erased."""
        boxes, fits = boxes_in(
            uniforms(key(self.seed, "erased box"), places, 4 * TRIES), side, side, ERASED, ERASED_RATIO
        )
        boxes[~fits | (uniforms(key(self.seed, "erase"), places, 1)[:, 0] >= self.augment.erase)] = 0
        return boxes


def boxes_in(
    draws: Float[np.ndarray, "samples draws"], height: int, width: int, area: Span, ratio: Span
) -> tuple[Boxes, Bool[np.ndarray, " samples"]]:
    """Random boxes of whole pixels inside an image, with a share of its area in `area` and a ratio of width to height
    in `ratio`; and whether one was found.

    The first of ten tries that fits is taken, as in torchvision's RandomResizedCrop."""
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
    """The largest centred box with a ratio of width to height in `ratio`."""
    w = min(width, max(1, round(height * ratio[1])))
    h = min(height, max(1, round(width / ratio[0])))
    return (height - h) // 2, (width - w) // 2, h, w


def resize(images: Bytes, size: int) -> Bytes:
    """Images resized to size x size pixels: bilinear, antialiased when they shrink."""
    if images.shape[-2:] == (size, size):
        return images
    scaled = functional.interpolate(images.float(), (size, size), mode="bilinear", antialias=True)
    return scaled.round_().clamp_(0, 255).to(torch.uint8)


class Normaliser:
    """Bytes to numbers of mean 0 and deviation 1 in each channel. A grey image is repeated for each channel of
    `mean`."""

    def __init__(self, mean: Sequence[float], std: Sequence[float], device: torch.device) -> None:
        deviation = torch.tensor(std, device=device)[:, None, None]
        self.scale = 1 / (255 * deviation)
        self.shift = -torch.tensor(mean, device=device)[:, None, None] / deviation

    def __call__(self, images: Bytes) -> Numbers:
        """Normalised images."""
        return torch.addcmul(self.shift, images.float(), self.scale)


def erase(images: Numbers, boxes: Int[Tensor, "batch 4"]) -> Numbers:
    """The images with one box of each set to zero; a box of height 0 erases nothing."""
    top, left, height, width = boxes.unbind(1)
    y = torch.arange(images.shape[-2], device=images.device)
    x = torch.arange(images.shape[-1], device=images.device)
    down = (y >= top[:, None]) & (y < (top + height)[:, None])
    across = (x >= left[:, None]) & (x < (left + width)[:, None])
    return images.masked_fill(down[:, None, :, None] & across[:, None, None, :], 0.0)
