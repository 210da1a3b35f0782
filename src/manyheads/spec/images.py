"""`Images`: classify pictures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from .augment import NOTHING, Augment
from .datasets import image_set
from .errors import UserError
from .task import Task
from .validate import between


@dataclass(frozen=True)
class Images(Task):
    """Classify the pictures of a dataset (`spec.datasets` lists them; `folder:NAME` is a folder of your own).

    `size`, `channels` and `classes` are the dataset's own where they are None. Another `size` resizes, `channels=3`
    repeats a grey image, and a folder's `size` and `classes` have to be stated. `limit` and `test_limit` keep only so
    many training and held-out images, the first of each class. `normalise` subtracts the dataset's mean and divides by
    its deviation (`data`), or uses 0.5 for both (`half`, as timm's ViT and TNT). `centre` is the share of the shorter
    side that evaluation keeps (0.875 and 0.9 are usual for ImageNet); images in memory are evaluated whole."""

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
        super().__post_init__()
        dataset = image_set(self.data)
        for name in ("size", "channels", "classes", "limit", "test_limit"):
            if getattr(self, name) is not None:
                between(f"Images.{name}", getattr(self, name), 1, whole=True)
        for name in ("size", "classes"):
            if not getattr(dataset, name) and getattr(self, name) is None:
                raise UserError(f"Images({self.data!r}) states no {name}, and a folder does not tell; write {name}=...")
        if dataset.classes and self.classes not in (None, dataset.classes):
            raise UserError(f"Images.classes is {self.classes}; {self.data} has {dataset.classes}: leave it out")
        if self.channels not in (None, dataset.channels, 3):
            raise UserError(
                f"Images.channels is {self.channels}; {self.data} has {dataset.channels}"
                + (", which can be repeated to 3" if dataset.channels == 1 else ": leave it out")
            )
        between("Images.label_smoothing", self.label_smoothing, 0, 1)
        between("Images.centre", self.centre, 0.1, 1)
        if self.centre != 1 and not dataset.streamed:
            raise UserError(f"Images.centre is {self.centre}; {self.data} is evaluated on whole images: leave it out")

    @property
    def shape(self) -> tuple[int, int]:
        """Channels and side of the images a model is given."""
        dataset = image_set(self.data)
        return self.channels or dataset.channels, self.size or dataset.size

    @property
    def class_count(self) -> int:
        """Number of classes."""
        return self.classes or image_set(self.data).classes
