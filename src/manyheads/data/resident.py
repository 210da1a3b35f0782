"""A dataset that lives on the device as bytes; batches are gathered, cut and mirrored there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch

from .geometry import Geometry
from .order import Order
from .pixels import Cutter, bordered, resize, upload
from .randaugment import RandAugment
from .shapes import Indices, Labelled, Terms
from .stored import Pixels


class Resident:
    """Batches of bytes with labels, from memory of the device. `waited` is 0: nothing has to be fetched."""

    waited = 0.0

    def __init__(self, train: Pixels, test: Pixels, terms: Terms) -> None:
        augment, device = terms.augment, terms.device
        self.size, self.device = terms.size, device
        self.order = Order(len(train.labels), terms.seed, terms.batch)
        self.geometry = Geometry(augment, terms.seed)
        self.rand = RandAugment(augment.rand, terms.seed, terms.fill) if augment.rand else None
        self.height, self.width = train.images.shape[-2:]
        self.cutter = Cutter(bordered(train.images, device), scaled=augment.resized is not None)
        self.labels = torch.from_numpy(train.labels).to(device)
        self.test_images = torch.from_numpy(np.array(test.images)).to(device)
        self.test_labels = torch.from_numpy(test.labels).to(device)

    def batch(self, step: int, rows: range) -> Labelled:
        """Training samples of a step, cut, mirrored and changed."""
        places = self.order.places(step, rows)
        cuts, flips = self.geometry.cuts(places, self.height, self.width), self.geometry.flips(places)
        plan = np.concatenate((self.order.at(places)[:, None], cuts, flips[:, None]), axis=1)
        table = upload(plan, self.device)
        images = resize(self.cutter(table), self.size)
        if self.rand is not None:
            images = self.rand(images, places)
        return images, self.labels[table[:, 0]]

    def held(self, parts: Sequence[Indices]) -> Iterator[Labelled]:
        """Held-out images as they are, for each part the samples it lists."""
        for part in parts:
            chosen = upload(part, self.device)
            yield resize(self.test_images[chosen], self.size), self.test_labels[chosen]
