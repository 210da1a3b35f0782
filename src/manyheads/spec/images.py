"""`Images`: classify pictures; and `Augment`, how training pictures are changed, in the order in which it is done."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

from .datasets import image_set
from .errors import UserError
from .field_checks import between, check_types
from .recipe import LATER
from .task import Task, TaskPart

Span = tuple[float, float]


@dataclass(frozen=True)
class Rand(TaskPart):
    """RandAugment (1909.13719) in timm's dialect: `ops` of 15 operations, drawn with replacement, each done with
    `chance`.

    The level of an operation is normal around `magnitude` (of 10) with deviation `std`; `rising` makes a higher level
    mean a stronger change in every operation (timm's `inc1`). timm's `rand-m9-mstd0.5` is Rand() and
    `rand-m9-mstd0.5-inc1` Rand(rising=True); timm picks bilinear or bicubic sampling by chance, we always sample
    bilinearly."""

    ops: int = 2
    magnitude: float = 9.0
    std: float = 0.5
    chance: float = 0.5
    rising: bool = False

    def __post_init__(self) -> None:
        check_types(self, "Rand")
        between("Rand.ops", self.ops, 1, 15, whole=True)
        between("Rand.magnitude", self.magnitude, 0, 10)
        between("Rand.std", self.std, 0)
        between("Rand.chance", self.chance, 0, 1)


@dataclass(frozen=True)
class Augment(TaskPart):
    """Crop, flip, RandAugment, then, on normalised images, erasing and mixing. The default changes nothing.

    `crop`: pad by so many black pixels and cut a random window of the original size. Of images in memory these are
    stored pixels, so that resizing to the task's size also scales the border; with `resize_first` the image is resized
    before it is cropped, and they are pixels that the model sees (`crop_after_resize`). `resized`: instead of a crop,
    cut a box whose share of the area lies in this span, of an aspect in `ratio`, and scale it back up. `flip`: mirror
    every second image. `erase`: chance that a box of 2 to 33 % of the area becomes the mean colour (zero after
    normalisation).

    `mixup` and `cutmix` are the alphas of Beta(alpha, alpha), one draw for the whole batch; with both, `switch` is the
    share of batches that cutmix gets. `mix` is the share of batches that are mixed at all. Rows 2k and 2k+1 are mixed
    with each other, so that it does not matter how a batch is spread over ranks."""

    crop: int = 0
    resized: Span | None = None
    ratio: Span = (3 / 4, 4 / 3)
    flip: bool = False
    rand: Rand | None = None
    erase: float = 0.0
    mixup: float = 0.0
    cutmix: float = 0.0
    switch: float = 0.5
    mix: float = 1.0
    resize_first: bool = field(default=False, metadata=LATER)

    def __post_init__(self) -> None:
        check_types(self, "Augment")
        between("Augment.crop", self.crop, 0, whole=True)
        for name in ("mixup", "cutmix"):
            between(f"Augment.{name}", getattr(self, name), 0)
        for name in ("erase", "switch", "mix"):
            between(f"Augment.{name}", getattr(self, name), 0, 1)
        if self.resized is not None:
            _span("Augment.resized", self.resized, 1)
        _span("Augment.ratio", self.ratio, float("inf"))
        if self.crop and self.resized:
            raise UserError(f"Augment(crop={self.crop}, resized={self.resized}) asks for two kinds of crop; state one")
        if self.resize_first and not self.crop:
            raise UserError("Augment.resize_first is true, and there is no crop that could follow; leave it out")

    @property
    def mixes(self) -> bool:
        """Whether targets are soft: some batches are mixed."""
        return self.mix > 0 and (self.mixup > 0 or self.cutmix > 0)


def _span(name: str, span: Span, high: float) -> None:
    if not 0 < span[0] <= span[1] <= high:
        top = f", at most {high:g}" if high < float("inf") else ""
        raise UserError(f"{name} is {span!r}; write two numbers, (low, high), above 0{top}")


NOTHING = Augment()


@dataclass(frozen=True)
class Images(Task):
    """Classify the pictures of a dataset (`spec.datasets` lists them; `folder:NAME` is a folder of your own).

    `size`, `channels` and `classes` are the dataset's own where they are None. Another `size` resizes, `channels=3`
    repeats a grey image, and a folder's `size` and `classes` have to be stated. `limit` and `test_limit` keep only so
    many training and held-out images, the first of each class. `normalise` subtracts the dataset's mean and divides by
    its deviation (`data`), or uses 0.5 for both (`half`, as timm's ViT and TNT). `centre` is the share of the shorter
    side that evaluation keeps (0.875 and 0.9 are usual for ImageNet); images in memory are evaluated whole.

    `validation` is the share of the training images (of those that `limit` keeps) that are kept out of training to
    choose by: `data.validation` says which, and every metric is scored on them too (`valid_top1`)."""

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
    validation: float = field(default=0.0, metadata=LATER)

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
        between("Images.validation", self.validation, 0, 0.9)
        if self.centre != 1 and not dataset.streamed:
            raise UserError(f"Images.centre is {self.centre}; {self.data} is evaluated on whole images: leave it out")
        if self.augment.resize_first and not self.resizes:
            why = "its files are resized before they are cropped" if dataset.streamed else "it is not resized"
            raise UserError(f"Images.augment.resize_first is true; {self.data}: {why}, so leave it out")

    @property
    def shape(self) -> tuple[int, int]:
        """Channels and side of the images a model is given."""
        dataset = image_set(self.data)
        return self.channels or dataset.channels, self.size or dataset.size

    @property
    def resizes(self) -> bool:
        """Whether images in memory are stored at another size than a model is given. Files are resized as they are
        read."""
        dataset = image_set(self.data)
        return not dataset.streamed and self.shape[1] != dataset.size

    @property
    def crops_stored(self) -> bool:
        """Whether `augment.crop` counts stored pixels where the model is given others."""
        return self.resizes and self.augment.crop > 0 and not self.augment.resize_first

    @property
    def class_count(self) -> int:
        """Number of classes."""
        return self.classes or image_set(self.data).classes


def crop_after_resize(task: Images) -> Images:
    """`task` with a crop that counts the pixels of its size. Where it counts these already, as with images that are
    not resized, the record stays as it is, and so does the id of its runs."""
    return replace(task, augment=replace(task.augment, resize_first=True)) if task.crops_stored else task
