"""Classifying images: the models that fit, batches, loss and metrics, wherever the images come from."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from manyheads.arch.redesign import at_image
from manyheads.data.decoded_images import Stream
from manyheads.data.decoded_once import decoded, fits, writable
from manyheads.data.image_augment import Geometry, Normaliser, erase, mixed, plan_mix
from manyheads.data.image_readers import Splits, read
from manyheads.data.image_types import Files, Held, Labelled, Numbers, Pixels, Terms, kept_apart
from manyheads.data.local_data import data_root
from manyheads.data.randomness import Indices, Order, balanced
from manyheads.data.resident_images import Resident
from manyheads.data.upload import upload
from manyheads.spec.arch import Arch
from manyheads.spec.datasets import image_set
from manyheads.spec.errors import UserError
from manyheads.spec.field_checks import between
from manyheads.spec.images import Augment, Images
from manyheads.spec.parts import Classify, ConvStem, Patch, Pixel

from .task import check, check_probe, fit, open_task, remark, shares, wrong_input
from .validation import Validated

LEAST, MOST = 32, 512  # images in an evaluation step


@check.register(Images)
def _(task: Images, arch: Arch) -> None:
    """Refuse a model whose image size, channels or number of classes does not fit."""
    channels, size = task.shape
    embed, head = _kinds(task, arch)
    takes = (embed.channels, embed.image)
    if takes != (channels, size):
        raise UserError(
            f"{task.data} gives images of {channels} x {size} x {size} and the model takes {takes[0]} x "
            f"{takes[1]} x {takes[1]}; write Images({task.data!r}, size={takes[1]}, channels={takes[0]}), "
            f"or build the model with channels={channels}, image={size}"
        )
    if head.classes != task.class_count:
        raise UserError(
            f"{task.data} has {task.class_count} classes and the model gives {head.classes}; build it with "
            f"classes={task.class_count}"
        )


def _kinds(task: Images, arch: Arch) -> tuple[Patch | ConvStem | Pixel, Classify]:
    """Embedding and head of a model that classifies images; any other is refused."""
    if not isinstance(arch.embed, Patch | ConvStem | Pixel):
        raise wrong_input(f"{task.data} holds images", arch, "an image model, such as vit, xcit or davit")
    if not isinstance(arch.head, Classify):
        raise UserError(
            f"{task.data} asks for classes and the model's head is {type(arch.head).__name__}; write "
            f"Classify({task.class_count})"
        )
    return arch.embed, arch.head


@fit.register(Images)
def _(task: Images, arch: Arch) -> Arch:
    """`arch` for these images and classes; all else stays, the patch size too."""
    channels, size = task.shape
    _kinds(task, arch)
    sized: Any = at_image(arch, size)
    embed, head = replace(sized.embed, channels=channels), replace(sized.head, classes=task.class_count)
    return replace(sized, embed=embed, head=head)


@remark.register(Images)
def _(task: Images) -> str:
    """Runs of earlier versions crop stored images also where these are resized, and keep what they compute."""
    if not task.crops_stored:
        return ""
    return (
        f"crop={task.augment.crop} pads and cuts the stored images of {image_set(task.data).size} px, which are then "
        f"resized to {task.shape[1]}; a new run crops after resizing with augment.resize_first=true"
    )


@open_task.register(Images)
def _(task: Images, device: torch.device, seed: int, batch: int, *, root: Path | None = None) -> ImageWork:
    """The images on `device`: in memory as bytes, or streamed from their files."""
    between("batch", batch, 1, whole=True)
    if task.augment.mixes and batch % 2:
        raise UserError(f"batch is {batch}; mixup and cutmix pair the rows of a batch: write an even one, {batch + 1}")
    dataset, place = image_set(task.data), data_root(root)
    stored: Splits = read(task.data, place)
    classes = int(max(split.labels.max() for split in stored)) + 1
    if classes != task.class_count:
        todo = "unpack it again" if dataset.classes else f"write classes={classes}"
        raise UserError(
            f"{task.data} below {place} has {classes} classes, and the task says {task.class_count}; {todo}"
        )
    if isinstance(stored[0], Files):
        assert isinstance(stored[1], Files)
        stored = _held(task, (stored[0], stored[1]), place, device)
    test = stored[1].first(task.test_limit)
    apart = task.limit, task.validation, "Images.validation"
    channels, size = task.shape
    mean, std = (dataset.mean, dataset.std) if task.normalise == "data" else ((0.5,), (0.5,))
    mean, std = (mean * channels)[:channels], (std * channels)[:channels]
    terms = Terms(task.augment, size, mean, seed, batch, device, task.centre)
    source: PictureSource
    valid: Pixels | Files | None
    if isinstance(stored[0], Pixels):
        assert isinstance(test, Pixels)
        pixels, valid = kept_apart(stored[0], *apart)
        source = Resident(pixels, test, terms, valid)
    else:
        assert isinstance(test, Files)
        files, valid = kept_apart(stored[0], *apart)
        source = Stream(files, test, terms, valid)
    work = ImageWork(
        source=source,
        held_labels=test.labels,
        classes=task.class_count,
        size=size,
        augment=task.augment,
        label_smoothing=task.label_smoothing,
        normalise=Normaliser(mean, std, device),
        seed=seed,
        device=device,
    )
    if valid is not None:
        work.validation = replace(work, held_labels=valid.labels, split="valid")
    return work


def _held(task: Images, splits: tuple[Files, Files], root: Path, device: torch.device) -> Splits:
    """The images of files, decoded, where they fit into memory and every crop has the task's size; the files
    otherwise."""
    size = task.shape[1]
    if task.augment.resized is not None or not fits(*splits, size, device) or not writable(root):
        return splits
    return decoded(task.data, splits, size, task.centre, root)


class PictureSource(Protocol):
    """Where the images come from: `data.resident_images.Resident` or `data.decoded_images.Stream`."""

    order: Order
    waited: float

    def batch(self, step: int, rows: range) -> Labelled:
        """Training samples of these rows of a step, augmented."""

    def held(self, parts: Sequence[Indices], split: Held = "test") -> Iterator[Labelled]:
        """Images of a split without augmentation: for each part, the samples that it lists."""


@dataclass(eq=False)  # not frozen: torch.compile would trace every field of it
class ImageWork(Validated):
    """Image classification on a device. `batch` gives images and targets: class numbers, or, where batches are mixed,
    soft targets of float32."""

    source: PictureSource
    held_labels: Indices  # of the images on which it is evaluated, those of `split`
    classes: int
    size: int
    augment: Augment
    label_smoothing: float
    normalise: Normaliser
    seed: int
    device: torch.device
    split: Held = "test"
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
        return len(self.held_labels)

    @property
    def waited(self) -> float:
        """Seconds that `batch` has waited for images; 0 where they are on the device."""
        return self.source.waited

    def batch(self, step: int, rows: range) -> tuple[Numbers, Tensor]:
        """Images, normalised, and targets of these rows of global batch `step`."""
        if self.augment.mixes and (rows.start % 2 or len(rows) % 2 or rows.step != 1):
            raise UserError(
                f"rows {rows.start} to {rows.stop - 1} of a mixed batch: rows 2k and 2k+1 are mixed "
                "with each other, so each rank and each part of an accumulated batch takes an even number of rows; "
                "write a batch that divides in this way"
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
        """Cross-entropy with label smoothing. A distilled model gives two sets of logits in training (2 x batch x
        classes). Both learn from the labels, as there is no teacher, and the loss is their mean."""
        images, targets = batch
        logits = model(images).float()
        if logits.ndim == 3:
            targets = targets.repeat(logits.shape[0], *(1,) * (targets.ndim - 1))
            logits = logits.flatten(0, 1)
        return functional.cross_entropy(logits, targets, label_smoothing=self.label_smoothing)

    def sums(self, model: nn.Module, share: tuple[int, int]) -> dict[str, Tensor]:
        """Sums over part share[0] of share[1] of the held-out images; the model is in evaluation mode meanwhile.

        Every part has as many steps of as many images: the last are filled up with images that do not count."""
        most = min(MOST, max(LEAST, self.source.order.batch // share[1]))
        steps = list(shares(self.held_out, most, share))
        total = torch.zeros(4, dtype=torch.float64, device=self.device)
        training = model.training
        model.eval()
        try:
            batches = self.source.held([numbers for numbers, _ in steps], self.split)
            for (_, counts), (stored, labels) in zip(steps, batches, strict=True):
                with torch.no_grad():
                    logits = model(self.normalise(stored)).float()
                total += _scores(logits, labels).masked_fill(~upload(counts, self.device), 0).sum(1)
        finally:
            model.train(training)
        return dict(zip(("images", "loss", "top1", "top5"), total.unbind(), strict=True))

    def metrics(self, sums: dict[str, Tensor]) -> dict[str, float]:
        """Mean cross-entropy (without smoothing), top-1 and top-5 accuracy."""
        images = float(sums["images"])
        return {name: float(sums[name]) / images for name in ("loss", "top1", "top5")}

    def probe_batch(self, size: int) -> Numbers:
        """The first `size` held-out images, class by class in turn, normalised."""
        check_probe(size, self.held_out, "images")
        stored, _ = next(iter(self.source.held([balanced(self.held_labels, size)], self.split)))
        return self.normalise(stored)

    def guess(self) -> dict[str, float]:
        """The scores of equal logits on equally frequent classes."""
        return {"loss": math.log(self.classes), "top1": 1 / self.classes, "top5": min(5, self.classes) / self.classes}


def _scores(logits: Float[Tensor, "batch classes"], labels: Int[Tensor, " batch"]) -> Float[Tensor, "4 batch"]:
    """For each image in float64: 1, its loss, whether its label ranks first, and whether it is among the first five.

    Of equal logits the lower class ranks first. NaN ranks above everything, so that a broken model is never right."""
    loss = functional.cross_entropy(logits, labels, reduction="none")
    labelled = logits.gather(1, labels[:, None])
    lower = torch.arange(logits.shape[1], device=logits.device) < labels[:, None]
    rank = (~(logits <= labelled) | ((logits == labelled) & lower)).sum(1)
    return torch.stack((torch.ones_like(loss), loss, rank < 1, rank < 5)).double()
