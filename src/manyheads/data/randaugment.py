"""RandAugment for batches of bytes: samples are grouped by operation, and each has its own level.

Levels follow timm (`spec.images.Rand` describes them). torchvision computes the operations that need an algorithm
(equalize, autocontrast, greys, smoothing); shears, shifts and rotations are one affine gather for the whole group."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional

from manyheads.spec.errors import optional
from manyheads.spec.images import Rand

from .image_types import Bytes
from .randomness import Indices, key, normals, uniforms
from .upload import upload

# fmt: off
OPS = (
    "auto_contrast", "equalize", "invert", "rotate", "posterize", "solarize", "solarize_add", "color", "contrast",
    "brightness", "sharpness", "shear_x", "shear_y", "shift_x", "shift_y",
)
# fmt: on
AFFINE = {"rotate": 30 * math.pi / 180, "shear_x": 0.3, "shear_y": 0.3, "shift_x": 0.45, "shift_y": 0.45}  # at level 10
BLENDS = ("color", "contrast", "brightness", "sharpness")
MAPS = ("auto_contrast", "equalize", "invert")  # without a level


class RandAugment:
    """The operations that one seed draws. `fill` is the colour (0 to 1) of pixels that a shift or rotation brings into
    view."""

    def __init__(self, rand: Rand, seed: int, fill: Sequence[float]) -> None:
        self.rand, self.seed, self.fill = rand, seed, tuple(fill)
        self.vision = optional("torchvision.transforms.v2.functional", "torchvision", "RandAugment")

    def __call__(self, images: Bytes, places: Indices) -> Bytes:
        """The augmented images; `places` are the samples' places in the endless order."""
        rand, count = self.rand, self.rand.ops
        draws = uniforms(key(self.seed, "rand"), places, 3 * count)
        which, done, sign = (part.reshape(-1, count) for part in np.split(draws, 3, axis=1))
        level = rand.magnitude + rand.std * normals(key(self.seed, "rand level"), places, count)
        level = np.clip(level, 0, 10) / 10
        for slot in range(count):
            op = np.floor(which[:, slot] * len(OPS)).astype(np.int64)
            op[done[:, slot] >= rand.chance] = -1
            images = self._slot(images, op, level[:, slot], sign[:, slot] < 0.5)
        return images

    def _slot(self, images: Bytes, op: np.ndarray, level: np.ndarray, negative: Bool[np.ndarray, " batch"]) -> Bytes:
        """Apply one operation to every sample; `op` is -1 for samples without one."""
        groups = [(OPS[number], np.flatnonzero(op == number)) for number in range(len(OPS)) if (op == number).any()]
        if not groups:
            return images
        order = upload(np.concatenate([rows for _, rows in groups]), images.device)
        values = [amounts(name, level[rows], negative[rows], self.rand.rising) for name, rows in groups]
        amount = upload(np.concatenate(values).astype(np.float32), images.device)
        picked = images[order]
        sizes = [len(rows) for _, rows in groups]
        parts = zip(groups, picked.split(sizes), amount.split(sizes), strict=True)
        changed = [self.apply(name, part, by) for (name, _), part, by in parts]
        return images.index_copy(0, order, torch.cat(changed))

    def apply(self, name: str, images: Bytes, amount: Float[Tensor, " batch"]) -> Bytes:
        """Apply operation `name` to every image with the image's own amount (see `amounts`)."""
        by = amount[:, None, None, None]
        if name in AFFINE:
            return self._affine(name, images, amount)
        if name in BLENDS:
            return self._blend(self._faded(name, images), images, by)
        match name:
            case "posterize":  # dividing by a power of two removes the low bits; 256 removes all
                return (images.int() // by.int() * by.int()).to(torch.uint8)
            case "solarize":
                return torch.where(images >= by, 255 - images, images)
            case "solarize_add":
                return torch.where(images < 128, (images + by.int()).clamp(max=255).to(torch.uint8), images)
            case "auto_contrast":
                return self.vision.autocontrast(images)
            case "equalize":
                return self.vision.equalize(images)
        return self.vision.invert(images)

    def _faded(self, name: str, images: Bytes) -> Bytes:
        """The images that a factor of 0 gives: grey, mean grey, black, smooth."""
        return {
            "color": self.vision.adjust_saturation,
            "contrast": self.vision.adjust_contrast,
            "brightness": self.vision.adjust_brightness,
            "sharpness": self.vision.adjust_sharpness,
        }[name](images, 0.0)

    def _blend(self, faded: Bytes, images: Bytes, by: Tensor) -> Bytes:
        return torch.lerp(faded.float(), images.float(), by).clamp_(0, 255).to(torch.uint8)

    def _affine(self, name: str, images: Bytes, amount: Float[Tensor, " batch"]) -> Bytes:
        """Rotate about the centre, shear from the corner, or shift: output pixel (x, y) shows input pixel (x', y')."""
        height, width = images.shape[-2:]
        x = torch.arange(width, device=images.device) + 0.5
        y = (torch.arange(height, device=images.device) + 0.5)[:, None]
        by = amount[:, None, None]
        match name:
            case "rotate":
                u, v = x - width / 2, y - height / 2
                x, y = by.cos() * u - by.sin() * v + width / 2, by.sin() * u + by.cos() * v + height / 2
            case "shear_x":
                x = x + by * y
            case "shear_y":
                y = y + by * x
            case "shift_x":
                x = x + by * width
            case "shift_y":
                y = y + by * height
        grid = torch.broadcast_tensors(2 * x / width - 1, 2 * y / height - 1, by.expand(-1, height, width))[:2]
        colour = torch.tensor(self.fill)[: images.shape[1], None, None] * 255
        colour = upload(colour.numpy(), images.device)
        moved = functional.grid_sample(images.float() - colour, torch.stack(grid, dim=-1), align_corners=False)
        return (moved + colour).round_().clamp_(0, 255).to(torch.uint8)


def amounts(name: str, level: np.ndarray, negative: np.ndarray, rising: bool) -> Float[np.ndarray, " samples"]:
    """The amount that a level (0 to 1) gives an operation: an angle, a slope, a share of the side, a factor, a
    threshold.

    Half the angles, slopes and shifts are negative; with `rising`, half the factors are below 1."""
    sign = np.where(negative, -1.0, 1.0)
    if name in AFFINE:
        return sign * level * AFFINE[name]
    if name in BLENDS:
        return np.maximum(0.1, 1 + sign * 0.9 * level) if rising else 0.1 + 1.8 * level
    match name:
        case "posterize":  # keeps at most 4 bits
            bits = np.floor(4 * level)
            return 2 ** (8 - (4 - bits if rising else bits))
        case "solarize":
            threshold = np.floor(256 * level)
            return 256 - threshold if rising else threshold
        case "solarize_add":
            return np.floor(110 * level)
    return np.zeros_like(level)
