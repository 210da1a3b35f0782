"""Whole batches of pixels on the device: cut, mirror, resize, erase, normalise. Per sample, without a loop over
samples.

Plans come from the host (`geometry`) in one small copy; nothing here waits for the device."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Int, UInt8
from torch import Tensor
from torch.nn import functional

from .shapes import Bytes, Numbers


def upload(table: np.ndarray, device: torch.device) -> Tensor:
    """A small host array on the device; on a GPU through pinned memory, so that the host does not wait for the
    stream."""
    host = torch.from_numpy(np.ascontiguousarray(table))
    return host.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else host


def bordered(images: UInt8[np.ndarray, "samples channels height width"], device: torch.device) -> Bytes:
    """The images on the device with one black pixel around each: where a padded crop reaches outside, it reads
    those."""
    samples, channels, height, width = images.shape
    store = torch.zeros((samples, channels, height + 2, width + 2), dtype=torch.uint8, device=device)
    for start in range(0, samples, 8192):  # a second full copy on the host would double what a run needs to start
        part = torch.from_numpy(np.array(images[start : start + 8192]))
        store[start : start + len(part), :, 1:-1, 1:-1] = part.to(device)
    return store


class Cutter:
    """Cuts boxes out of a bordered store, mirrored or not, all in one gather.

    `store` is what `bordered` made; `scaled` says that boxes are smaller than the image and are scaled up to its
    size."""

    def __init__(self, store: Bytes, scaled: bool) -> None:
        self.scaled = scaled
        self.flat = store.view(-1)
        _, self.channels, self.height, self.width = (int(n) for n in store.shape)
        device = store.device
        self.rows = torch.arange(self.height - 2, device=device)
        self.columns = torch.arange(self.width - 2, device=device)
        self.planes = torch.arange(self.channels, device=device) * (self.height * self.width)

    def __call__(self, plan: Int[Tensor, "batch 6"]) -> Bytes:
        """Images of the size in the store. A row of `plan`: sample, top, left, height, width, 1 to mirror."""
        sample, top, left, height, width, mirror = plan.unbind(1)
        x = torch.where(mirror[:, None] > 0, self.columns.flip(0), self.columns)
        base = (sample * (self.channels * self.height * self.width))[:, None] + self.planes
        if not self.scaled:
            y = (top[:, None] + self.rows).clamp(-1, self.height - 2) + 1
            x = (left[:, None] + x).clamp(-1, self.width - 2) + 1
            return self._read(base, y, x)
        (y0, y1, fy), (x0, x1, fx) = _between(self.rows, top, height), _between(x, left, width)
        fy, fx = fy[:, None, :, None], fx[:, None, None, :]
        upper = torch.lerp(self._read(base, y0, x0).float(), self._read(base, y0, x1).float(), fx)
        lower = torch.lerp(self._read(base, y1, x0).float(), self._read(base, y1, x1).float(), fx)
        return torch.lerp(upper, lower, fy).round_().to(torch.uint8)

    def _read(self, base: Tensor, y: Tensor, x: Tensor) -> Bytes:
        places = base[:, :, None, None] + (y * self.width)[:, None, :, None] + x[:, None, None, :]
        return torch.take(self.flat, places)


def _between(pixel: Tensor, start: Tensor, size: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """For output pixels of a box scaled to the image: the two stored pixels around each, and how far from the first.

    Bilinear with half-pixel centres; no pixel outside the box is read."""
    count = pixel.shape[-1]
    last = (size - 1)[:, None]
    at = ((pixel + 0.5) * (size / count)[:, None] - 0.5).clamp_min(0)
    first = at.floor().long().minimum(last)
    start = start[:, None] + 1  # the border
    return start + first, start + (first + 1).minimum(last), at - first


def resize(images: Bytes, size: int) -> Bytes:
    """Images of size x size pixels: bilinear, antialiased where they shrink."""
    if images.shape[-2:] == (size, size):
        return images
    scaled = functional.interpolate(images.float(), (size, size), mode="bilinear", antialias=True)
    return scaled.round_().clamp_(0, 255).to(torch.uint8)


class Normaliser:
    """Bytes to numbers of mean 0 and deviation 1, channel by channel; a grey image is repeated where more are asked
    for."""

    def __init__(self, mean: Sequence[float], std: Sequence[float], device: torch.device) -> None:
        deviation = torch.tensor(std, device=device)[:, None, None]
        self.scale = 1 / (255 * deviation)
        self.shift = -torch.tensor(mean, device=device)[:, None, None] / deviation

    def __call__(self, images: Bytes) -> Numbers:
        """Normalised images."""
        return torch.addcmul(self.shift, images.float(), self.scale)


def erase(images: Numbers, boxes: Int[Tensor, "batch 4"]) -> Numbers:
    """Images with a box of each set to zero; a box of height 0 erases nothing."""
    top, left, height, width = boxes.unbind(1)
    y = torch.arange(images.shape[-2], device=images.device)
    x = torch.arange(images.shape[-1], device=images.device)
    down = (y >= top[:, None]) & (y < (top + height)[:, None])
    across = (x >= left[:, None]) & (x < (left + width)[:, None])
    return images.masked_fill(down[:, None, :, None] & across[:, None, None, :], 0.0)
