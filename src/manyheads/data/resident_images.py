"""Image datasets that are kept on the device as bytes: batches are gathered, cropped and mirrored there.

The host sends the plan of a batch (which samples, which boxes) in one small copy; nothing here waits for the device."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from jaxtyping import Int, UInt8
from torch import Tensor
from torch.nn import functional

from .image_augment import Geometry, resize
from .image_types import Bytes, Held, Labelled, Pixels, Terms
from .randaugment import RandAugment
from .randomness import Indices, Order
from .upload import upload


class Resident:
    """Batches of labelled images from the memory of the device. `waited` is 0, since nothing is fetched."""

    waited = 0.0

    def __init__(self, train: Pixels, test: Pixels, terms: Terms, valid: Pixels | None = None) -> None:
        augment, device = terms.augment, terms.device
        self.size, self.device = terms.size, device
        self.order = Order(len(train.labels), terms.seed, terms.batch)
        self.geometry = Geometry(augment, terms.seed)
        self.rand = RandAugment(augment.rand, terms.seed, terms.fill) if augment.rand else None
        self.height, self.width = train.images.shape[-2:]
        self.resize_first = augment.resize_first
        self.whole = torch.tensor([0, 0, self.height, self.width, 0], device=device)  # a box, not mirrored
        self.cutter = Cutter(bordered(train.images, device), scaled=augment.resized is not None)
        self.labels = torch.from_numpy(train.labels).to(device)
        self.splits = {"test": on_device(test, device)} | ({"valid": on_device(valid, device)} if valid else {})

    def batch(self, step: int, rows: range) -> Labelled:
        """The training samples of a step, cropped, mirrored and augmented."""
        places = self.order.places(step, rows)
        height, width = (self.size, self.size) if self.resize_first else (self.height, self.width)
        cuts, flips = self.geometry.cuts(places, height, width), self.geometry.flips(places)
        plan = np.concatenate((self.order.at(places)[:, None], cuts, flips[:, None]), axis=1)
        table = upload(plan, self.device)
        images = self._resized_and_cut(table) if self.resize_first else resize(self.cutter(table), self.size)
        if self.rand is not None:
            images = self.rand(images, places)
        return images, self.labels[table[:, 0]]

    def _resized_and_cut(self, table: Int[Tensor, "batch 6"]) -> Bytes:
        """One image for each row of the plan `table`, resized to the task's size and then cut and mirrored."""
        samples, boxes = table[:, :1], table[:, 1:]
        stored = self.cutter(torch.cat((samples, self.whole.expand(len(table), 5)), dim=1))
        cutter = Cutter(functional.pad(resize(stored, self.size), (1, 1, 1, 1)), scaled=False)
        rows = torch.arange(len(table), device=self.device)[:, None]
        return cutter(torch.cat((rows, boxes), dim=1))

    def held(self, parts: Sequence[Indices], split: Held = "test") -> Iterator[Labelled]:
        """Images of a split without augmentation: one batch for each list of samples in `parts`."""
        images, labels = self.splits[split]
        for part in parts:
            chosen = upload(part, self.device)
            yield resize(images[chosen], self.size), labels[chosen]


def on_device(stored: Pixels, device: torch.device) -> Labelled:
    """All images and labels of a split on the device."""
    return torch.from_numpy(np.array(stored.images)).to(device), torch.from_numpy(stored.labels).to(device)


def bordered(images: UInt8[np.ndarray, "samples channels height width"], device: torch.device) -> Bytes:
    """The images on the device with a border of one black pixel, which a padded crop reads where it reaches outside."""
    samples, channels, height, width = images.shape
    store = torch.zeros((samples, channels, height + 2, width + 2), dtype=torch.uint8, device=device)
    for start in range(0, samples, 8192):  # a second full copy on the host would double what a run needs to start
        part = torch.from_numpy(np.array(images[start : start + 8192]))
        store[start : start + len(part), :, 1:-1, 1:-1] = part.to(device)
    return store


class Cutter:
    """Cuts boxes out of the images that `bordered` made and mirrors them, in one gather for the whole batch.

    With `scaled`, boxes are smaller than the image and are scaled up to its size."""

    def __init__(self, store: Bytes, scaled: bool) -> None:
        self.scaled = scaled
        self.flat = store.view(-1)
        _, self.channels, self.height, self.width = (int(n) for n in store.shape)
        device = store.device
        self.rows = torch.arange(self.height - 2, device=device)
        self.columns = torch.arange(self.width - 2, device=device)
        self.planes = torch.arange(self.channels, device=device) * (self.height * self.width)

    def __call__(self, plan: Int[Tensor, "batch 6"]) -> Bytes:
        """One image for each row of `plan`: sample, top, left, height, width, and 1 to mirror."""
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
    """The two stored pixels around each output pixel of a scaled box, and its distance from the first.

    Interpolation is bilinear with half-pixel centres; no pixel outside the box is read."""
    count = pixel.shape[-1]
    last = (size - 1)[:, None]
    at = ((pixel + 0.5) * (size / count)[:, None] - 0.5).clamp_min(0)
    first = at.floor().long().minimum(last)
    start = start[:, None] + 1  # the border
    return start + first, start + (first + 1).minimum(last), at - first
