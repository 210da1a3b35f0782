"""Batches, loss and metrics of image classification, whatever the images come from."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from manyheads.data.image_augment import Geometry, Normaliser, erase, mixed, plan_mix
from manyheads.data.image_types import Labelled, Numbers
from manyheads.data.randomness import Indices, Order, balanced
from manyheads.data.upload import upload
from manyheads.spec.augment import Augment
from manyheads.spec.errors import UserError

LEAST, MOST = 32, 512  # images in an evaluation step


class Source(Protocol):
    """Where bytes come from: `data.resident_images.Resident` or `data.decoded_images.Stream`."""

    order: Order
    waited: float

    def batch(self, step: int, rows: range) -> Labelled:
        """Training samples of a step, cut, mirrored and changed."""

    def held(self, parts: Sequence[Indices]) -> Iterator[Labelled]:
        """Held-out images as they are, for each part the samples it lists."""


@dataclass(eq=False)  # not frozen: torch.compile would trace every field of it
class ImageWork:
    """Image classification on a device. `batch` gives images and targets: class numbers, or, where batches are mixed,
    soft targets of float32."""

    source: Source
    test_labels: Indices
    classes: int
    size: int
    augment: Augment
    label_smoothing: float
    normalise: Normaliser
    seed: int
    device: torch.device
    unit: str = "images"
    per_sample: int = 1
    better: tuple[str, str] = ("top1", "up")

    @property
    def samples(self) -> int:
        """Images in an epoch."""
        return self.source.order.samples

    @property
    def held_out(self) -> int:
        """Images of the test set."""
        return len(self.test_labels)

    @property
    def waited(self) -> float:
        """Seconds that batches were waited for; 0 where the images live on the device."""
        return self.source.waited

    def batch(self, step: int, rows: range) -> tuple[Numbers, Tensor]:
        """Images, normalised, and targets of these rows of global batch `step`."""
        if self.augment.mixes and (rows.start % 2 or len(rows) % 2 or rows.step != 1):
            raise UserError(
                f"rows {rows.start} to {rows.stop - 1} of a batch that is mixed: rows 2k and 2k+1 belong "
                "together, so each rank and each part of an accumulated batch takes an even number of rows; "
                "write a batch that divides so"
            )
        stored, labels = self.source.batch(step, rows)
        images = self.normalise(stored)
        if self.augment.erase:
            places = self.source.order.places(step, rows)
            images = erase(images, upload(Geometry(self.augment, self.seed).erased(places, self.size), self.device))
        if not self.augment.mixes:
            return images, labels
        return mixed(images, labels, self.classes, plan_mix(self.augment, self.seed, step, self.size))

    def loss(self, model: nn.Module, *batch: Tensor) -> Float[Tensor, ""]:
        """Cross-entropy, smoothed. A distilled model gives two sets of logits in training (2 x batch x classes): both
        learn from the labels, and the loss is their mean; there is no teacher."""
        images, targets = batch
        logits = model(images).float()
        if logits.ndim == 3:
            targets = targets.repeat(logits.shape[0], *(1,) * (targets.ndim - 1))
            logits = logits.flatten(0, 1)
        return functional.cross_entropy(logits, targets, label_smoothing=self.label_smoothing)

    def tally(self, model: nn.Module, share: tuple[int, int] = (0, 1)) -> dict[str, Tensor]:
        """Sums over part share[0] of share[1] of the held-out images; the model is in evaluation mode meanwhile.

        Steps are as many and as large for each part: the last are filled up with images that count for nothing."""
        part, parts = share
        count = len(self.test_labels)
        rows = min(MOST, max(LEAST, self.source.order.batch // parts))
        steps = math.ceil(count / (rows * parts))
        starts = [(step * parts + part) * rows for step in range(steps)]
        wanted = [np.arange(start, start + rows) for start in starts]
        sums = torch.zeros(4, dtype=torch.float64, device=self.device)
        training = model.training
        model.eval()
        try:
            held = self.source.held([at.clip(max=count - 1) for at in wanted])
            for at, (stored, labels) in zip(wanted, held, strict=True):
                with torch.no_grad():
                    logits = model(self.normalise(stored)).float()
                counts = upload(at < count, self.device)
                sums += _judged(logits, labels).masked_fill(~counts, 0).sum(1)
        finally:
            model.train(training)
        return dict(zip(("images", "loss", "top1", "top5"), sums.unbind(), strict=True))

    def score(self, tally: dict[str, Tensor]) -> dict[str, float]:
        """Mean cross-entropy (without smoothing), top-1 and top-5 accuracy of the summed tally."""
        images = float(tally["images"])
        return {name: float(tally[name]) / images for name in ("loss", "top1", "top5")}

    def probe_batch(self, size: int) -> Numbers:
        """The first `size` held-out images, class by class in turn, normalised."""
        if size > len(self.test_labels):
            raise UserError(f"a probe on {size} images: {len(self.test_labels)} are held out; write at most that many")
        stored, _ = next(iter(self.source.held([balanced(self.test_labels, size)])))
        return self.normalise(stored)

    def trivial(self) -> dict[str, float]:
        """What equal logits score where classes are equally frequent."""
        return {"loss": math.log(self.classes), "top1": 1 / self.classes, "top5": min(5, self.classes) / self.classes}


def _judged(logits: Float[Tensor, "batch classes"], labels: Int[Tensor, " batch"]) -> Float[Tensor, "4 batch"]:
    """For every image 1, its loss, and whether its label is first and among the first five; float64.

    Of equal logits the lower class comes first, and NaN comes before everything: a broken model is never right."""
    loss = functional.cross_entropy(logits, labels, reduction="none")
    chosen = logits.gather(1, labels[:, None])
    lower = torch.arange(logits.shape[1], device=logits.device) < labels[:, None]
    rank = (~(logits <= chosen) | ((logits == chosen) & lower)).sum(1)
    return torch.stack((torch.ones_like(loss), loss, rank < 1, rank < 5)).double()
