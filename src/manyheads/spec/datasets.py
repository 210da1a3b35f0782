"""Facts about each named dataset that need no file: image sets, text corpora, tokenizers, GLUE, point clouds.

Tasks check their fields against these facts; the readers are in `data`, in tables with the same names."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Literal, get_args

from .errors import UserError, nearest

Cloud = Literal["sphere", "orthogonal", "doubled"]  # distributions of the rank experiments' points: `data.point_clouds`
CLOUDS: tuple[Cloud, ...] = get_args(Cloud)


@dataclass(frozen=True)
class ImageSet:
    """A dataset of images with one label each. `size` and `classes` are 0 where the task has to state them.

    `mean` and `std` are those of the training pixels, scaled to 0 to 1, for each channel. A `streamed` set stays in
    files that are decoded during training; the others are held in memory as bytes."""

    name: str
    size: int
    channels: int
    classes: int
    mean: tuple[float, ...]
    std: tuple[float, ...]
    streamed: bool = False


IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
# Of all 60,000 training images; the embedded part has 0.2867 and 0.3540.
_FASHION = ImageSet("fashion_mnist", size=28, channels=1, classes=10, mean=(0.2860,), std=(0.3530,))
_CIFAR = ImageSet(
    "cifar10", size=32, channels=3, classes=10, mean=(0.4914, 0.4822, 0.4465), std=(0.2470, 0.2435, 0.2616)
)
_FOLDER = ImageSet("folder:", size=0, channels=3, classes=0, mean=IMAGENET_MEAN, std=IMAGENET_STD, streamed=True)
IMAGE_SETS: dict[str, ImageSet] = {
    facts.name: facts
    for facts in (
        _FASHION,
        replace(_FASHION, name="fashion_mnist_full"),
        _CIFAR,
        replace(_FOLDER, name="tiny_imagenet", size=64, classes=200),
    )
}
RETIRED = {"cifar10_q5": "cifar10"}  # names in records of earlier versions, which still load, and what to write instead
_PAST = {"cifar10_q5": replace(_CIFAR, name="cifar10_q5")}  # CIFAR-10 with pixels in steps of 5
FOLDER = _FOLDER.name  # folder:NAME is the folder NAME below the data root, with train/CLASS/* and val/CLASS/*


def image_set(name: str) -> ImageSet:
    """The facts about the image dataset `name`, which is one of IMAGE_SETS or folder:NAME."""
    if name in IMAGE_SETS or name in _PAST:
        return IMAGE_SETS.get(name) or _PAST[name]
    if name.startswith(FOLDER) and len(name) > len(FOLDER):
        return replace(_FOLDER, name=name)
    hint = nearest(name, IMAGE_SETS) or f"; known: {', '.join(IMAGE_SETS)}, {FOLDER}NAME"
    raise UserError(f"data {name!r} is no image dataset{hint}, and the path of no folder or file")


STORIES, SHARDS = "tinystories", "shards:"  # shards:NAME is the folder NAME that `manyheads tokenize` wrote
CORPUS_VOCAB = {STORIES: 2048}  # number of token ids of the embedded corpora
TOKENIZER_VOCAB = {"bytes": 261, "stories": 2048, "gpt2": 50_257, "bert_uncased": 30_522}
# How a corpus is dealt in blocks of tokens, see `data.text.token_blocks`.
BlockOrder = Literal["shuffled", "random", "given"]
BLOCK_ORDERS: tuple[BlockOrder, ...] = get_args(BlockOrder)


def check_corpus(name: object) -> str:
    """`name` itself if it can name a corpus; a `UserError` that says what to write if it cannot."""
    if isinstance(name, str) and (name == STORIES or (name.startswith(SHARDS) and len(name) > len(SHARDS))):
        return name
    hint = nearest(str(name), (STORIES,)) or ";"
    raise UserError(
        f"data {name!r} is no corpus{hint} write {STORIES} (embedded) or {SHARDS}NAME, the folder NAME below "
        "the data root that `manyheads tokenize` wrote"
    )


TRAIN, VALID = "train", "valid"  # folders of a corpus


def check_split(name: str) -> str:
    """`name` itself if it can be the folder of one part of a corpus; a `UserError` that says what to write if not."""
    if not re.fullmatch(r"[A-Za-z0-9_]+", name):
        raise UserError(
            f"split {name!r} is no folder's name; write {TRAIN}, {VALID}, or letters, digits and underscores"
        )
    return name


Metric = Literal["accuracy", "f1", "mcc", "pearson"]
YES_NO = ("0", "1")
ENTAILMENT = ("entailment", "not_entailment")


@dataclass(frozen=True, kw_only=True)
class GlueSet:
    """One GLUE task: its folder, the columns of its sentences and label, and the metric that is reported.

    `classes` are the labels in the order of a model's outputs; a task without classes predicts a score from 0 to 5.
    `header` names the columns of files without a header line. `held` are the files of held-out examples; MNLI has
    two."""

    name: str
    folder: str
    first: str = "sentence1"
    second: str | None = "sentence2"
    label: str = "label"
    classes: tuple[str, ...] = YES_NO
    metric: Metric = "accuracy"
    header: tuple[str, ...] = ()
    held: tuple[str, ...] = ("dev.tsv",)

    @property
    def outputs(self) -> int:
        """How many numbers a model predicts: one for each class, or one score."""
        return len(self.classes) or 1


GLUE_SETS: dict[str, GlueSet] = {
    facts.name: facts
    for facts in (
        GlueSet(
            name="cola",
            folder="CoLA",
            first="sentence",
            second=None,
            metric="mcc",
            header=("source", "label", "star", "sentence"),
        ),
        GlueSet(name="sst2", folder="SST-2", first="sentence", second=None),
        GlueSet(name="mrpc", folder="MRPC", first="#1 String", second="#2 String", label="Quality", metric="f1"),
        GlueSet(name="stsb", folder="STS-B", label="score", classes=(), metric="pearson"),
        GlueSet(name="qqp", folder="QQP", first="question1", second="question2", label="is_duplicate", metric="f1"),
        GlueSet(
            name="mnli",
            folder="MNLI",
            label="gold_label",
            classes=("contradiction", "entailment", "neutral"),
            held=("dev_matched.tsv", "dev_mismatched.tsv"),
        ),
        GlueSet(name="qnli", folder="QNLI", first="question", second="sentence", classes=ENTAILMENT),
        GlueSet(name="rte", folder="RTE", classes=ENTAILMENT),
    )
}


def glue_set(name: object) -> GlueSet:
    """The GLUE task `name`."""
    if name not in GLUE_SETS:
        raise UserError(f"{name!r} is no GLUE task{nearest(str(name), GLUE_SETS)}; write one of {', '.join(GLUE_SETS)}")
    return GLUE_SETS[str(name)]
