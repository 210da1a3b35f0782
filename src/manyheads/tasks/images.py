"""`Images`: classify pictures."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import torch

from manyheads.arch.redesign import at_image
from manyheads.data.decoded_images import Stream
from manyheads.data.image_augment import Normaliser
from manyheads.data.image_readers import read
from manyheads.data.image_types import Files, Pixels, Terms
from manyheads.data.local_data import data_root
from manyheads.data.resident_images import Resident
from manyheads.spec.arch import Arch
from manyheads.spec.augment import NOTHING, Augment
from manyheads.spec.datasets import image_set
from manyheads.spec.errors import UserError
from manyheads.spec.parts import Classify, ConvStem, Patch, Pixel
from manyheads.spec.validate import between

from .image_work import ImageWork, Source


@dataclass(frozen=True)
class Images:
    """Classify the pictures of a dataset (`spec.datasets` lists them; `folder:NAME` is a folder of your own).

    `size`, `channels` and `classes` are the dataset's own where they are None; another `size` resizes, `channels=3`
    repeats a grey image, and a folder's `size` and `classes` have to be stated. `limit` and `test_limit` keep only so
    many training and held-out images, the first of each class. `normalise` subtracts the dataset's mean and divides by
    its deviation (`data`), or uses 0.5 for both (`half`: timm's ViT and TNT). `centre` is the share of the shorter side
    that evaluation keeps (0.875 and 0.9 are usual for ImageNet); images in memory are evaluated whole."""

    data: str = "fashion_mnist"
    size: int | None = None
    channels: int | None = None
    classes: int | None = None
    limit: int | None = None
    test_limit: int | None = None
    augment: Augment = NOTHING
    label_smoothing: float = 0.0
    normalise: Literal["data", "half"] = "data"
    centre: float = 1.0

    def __post_init__(self) -> None:
        if not isinstance(self.data, str):
            raise UserError(f"Images.data is {self.data!r}; write the name of a dataset")
        known = image_set(self.data)
        for name in ("size", "channels", "classes", "limit", "test_limit"):
            if getattr(self, name) is not None:
                between(f"Images.{name}", getattr(self, name), 1, whole=True)
        for name in ("size", "classes"):
            if not getattr(known, name) and getattr(self, name) is None:
                raise UserError(f"Images({self.data!r}) states no {name}, and a folder does not tell; write {name}=...")
        if known.classes and self.classes not in (None, known.classes):
            raise UserError(f"Images.classes is {self.classes}; {self.data} has {known.classes}: leave it out")
        if self.channels not in (None, known.channels, 3):
            raise UserError(
                f"Images.channels is {self.channels}; {self.data} has {known.channels}"
                + (", which can be repeated to 3" if known.channels == 1 else ": leave it out")
            )
        between("Images.label_smoothing", self.label_smoothing, 0, 1)
        between("Images.centre", self.centre, 0.1, 1)
        if self.centre != 1 and not known.streamed:
            raise UserError(f"Images.centre is {self.centre}; {self.data} is evaluated on whole images: leave it out")
        if self.normalise not in ("data", "half"):
            raise UserError(f"Images.normalise is {self.normalise!r}; write 'data' or 'half'")
        if not isinstance(self.augment, Augment):
            raise UserError(f"Images.augment is {self.augment!r}; write Augment(...)")

    @property
    def shape(self) -> tuple[int, int]:
        """Channels and side of the images a model is given."""
        known = image_set(self.data)
        return self.channels or known.channels, self.size or known.size

    @property
    def class_count(self) -> int:
        """Number of classes."""
        return self.classes or image_set(self.data).classes

    def check(self, arch: Arch) -> None:
        """Refuse a model that takes other images or gives other classes."""
        channels, size = self.shape
        embed, head = self._kinds(arch)
        takes = (embed.channels, embed.image)
        if takes != (channels, size):
            raise UserError(
                f"{self.data} gives images of {channels} x {size} x {size} and the model takes {takes[0]} x "
                f"{takes[1]} x {takes[1]}; write Images({self.data!r}, size={takes[1]}, channels={takes[0]}), "
                f"or build the model with channels={channels}, image={size}"
            )
        if head.classes != self.class_count:
            raise UserError(
                f"{self.data} has {self.class_count} classes and the model gives {head.classes}; build it with "
                f"classes={self.class_count}"
            )

    def _kinds(self, arch: Arch) -> tuple[Patch | ConvStem | Pixel, Classify]:
        """Embedding and head of a model that classifies images; any other is refused."""
        if not isinstance(arch.embed, Patch | ConvStem | Pixel):
            raise UserError(
                f"{self.data} holds images and a {arch.family} model reads {type(arch.embed).__name__} input; "
                "take an image model, such as vit, xcit or davit"
            )
        if not isinstance(arch.head, Classify):
            raise UserError(
                f"{self.data} asks for classes and the model's head is {type(arch.head).__name__}; write "
                f"Classify({self.class_count})"
            )
        return arch.embed, arch.head

    def fit(self, arch: Arch) -> Arch:
        """`arch` for these images and classes; patch size and everything else stay."""
        channels, size = self.shape
        self._kinds(arch)
        sized: Any = at_image(arch, size)
        embed, head = replace(sized.embed, channels=channels), replace(sized.head, classes=self.class_count)
        return replace(sized, embed=embed, head=head)

    def open(self, device: torch.device, seed: int, batch: int, *, root: Path | None = None) -> ImageWork:
        """The images on `device`: in memory as bytes, or streamed from their files."""
        between("batch", batch, 1, whole=True)
        if self.augment.mixes and batch % 2:
            raise UserError(
                f"batch is {batch}; mixup and cutmix pair the rows of a batch: write an even one, {batch + 1}"
            )
        known, place = image_set(self.data), data_root(root)
        stored = read(self.data, place)
        found = int(max(split.labels.max() for split in stored)) + 1
        if found != self.class_count:
            todo = "unpack it again" if known.classes else f"write classes={found}"
            raise UserError(
                f"{self.data} below {place} has {found} classes, and the task says {self.class_count}; {todo}"
            )
        train, test = stored[0].first(self.limit), stored[1].first(self.test_limit)
        channels, size = self.shape
        mean, std = (known.mean, known.std) if self.normalise == "data" else ((0.5,), (0.5,))
        mean, std = (mean * channels)[:channels], (std * channels)[:channels]
        terms = Terms(self.augment, size, mean, seed, batch, device, self.centre)
        source: Source
        if isinstance(train, Pixels):
            assert isinstance(test, Pixels)
            source = Resident(train, test, terms)
        else:
            assert isinstance(test, Files)
            source = Stream(train, test, terms)
        return ImageWork(
            source,
            test.labels,
            self.class_count,
            size,
            self.augment,
            self.label_smoothing,
            Normaliser(mean, std, device),
            seed,
            device,
        )
