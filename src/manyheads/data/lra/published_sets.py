"""The long-range sets that are read from published files: IMDB reviews, AAN papers, and images as rows of pixels."""

from __future__ import annotations

import hashlib
import lzma
from functools import lru_cache
from pathlib import Path

import numpy as np
from jaxtyping import UInt8

from manyheads.spec.datasets import image_set
from manyheads.spec.errors import UserError

from ..image_readers import read
from ..image_types import Pixels
from ..local_data import first_found
from .sequences import Sequences, joined

VALIDATION = 0.1  # share of the training samples that becomes the validation split
IMDB_CLASSES = ("neg", "pos")
IMDB_SOURCE = "https://ai.stanford.edu/~amaas/data/sentiment (aclImdb_v1.tar.gz, unpacked)"
IMDB_PLACES = (
    "aclImdb",
    "imdb/aclImdb",
    "imdb/imdb_train.tsv.xz",
    "imdb/imdb_train.tsv",
    "imdb_train.tsv.xz",
    "imdb_train.tsv",
)
AAN_FILES = {split: f"new_aan_pairs.{name}.tsv" for split, name in (("train",) * 2, ("valid", "eval"), ("test",) * 2)}
AAN_FOLDERS = ("aan", ".", "tsv_data", "lra_release/tsv_data", "lra_release/lra_release/tsv_data")
AAN_SOURCE = (
    "LRA's archive lra_release.gz (https://github.com/google-research/long-range-arena; 8 GB, three files of it)"
)
AAN_LABELS = {b"0": 0, b"0.0": 0, b"1": 1, b"1.0": 1}
LUMA = np.array([0.2989, 0.5870, 0.1140])  # of ITU-R BT.601, as LRA's rgb_to_grayscale weighs red, green and blue
Reviews = list[tuple[int, bytes]]  # label and text


def find_imdb(root: Path) -> Path:
    """Where IMDB is below `root`."""
    return first_found(root, IMDB_PLACES, "IMDB", IMDB_SOURCE)


def find_aan(root: Path) -> Path:
    """The folder of AAN's files below `root`."""
    places = tuple(f"{folder}/{AAN_FILES['train']}" for folder in AAN_FOLDERS)
    return first_found(root, places, "AAN", AAN_SOURCE).parent


@lru_cache(maxsize=1)
def imdb(root: Path) -> dict[str, Sequences]:
    """IMDB reviews (Maas et al. 2011) below `root` as whole texts; labels 0 (negative) and 1 (positive).

    They are read from the official folder or from two tables of tab-separated values. LRA uses the test set for
    validation and thus chooses its checkpoint on it. Here a tenth of the training reviews is the validation split:
    those whose text has a hash below 1/10, so that a review that occurs twice is in one split only, however the reviews
    are stored."""
    place = find_imdb(root)
    if place.is_dir():
        train, test = _review_folder(place / "train"), _review_folder(place / "test")
    else:
        train, test = _review_table(place), _review_table(place.with_name(place.name.replace("train", "test")))
    return {
        "train": _review_bytes([review for review in train if not _in_validation(review[1])]),
        "valid": _review_bytes([review for review in train if _in_validation(review[1])]),
        "test": _review_bytes(test),
    }


def _in_validation(text: bytes) -> bool:
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little") < VALIDATION * 2**64


def _review_folder(folder: Path) -> Reviews:
    """The reviews of one split from neg/*.txt and pos/*.txt. Other folders, such as unsup, are ignored."""
    reviews: Reviews = []
    for label, name in enumerate(IMDB_CLASSES):
        files = sorted((folder / name).glob("*.txt"))
        if not files:
            raise UserError(
                f"{folder / name} has no *.txt; unpack aclImdb_v1.tar.gz again: it has train and test, "
                "each with neg and pos"
            )
        reviews += [(label, _nonempty(file.read_bytes(), file)) for file in files]
    return reviews


def _review_table(path: Path) -> Reviews:
    """The reviews of one split from lines of label (0 or 1), rating and text, separated by tabs."""
    try:
        with lzma.open(path) if path.suffix == ".xz" else path.open("rb") as file:
            lines = file.read().splitlines()
    except (OSError, EOFError, lzma.LZMAError) as error:
        raise UserError(f"{path} cannot be read ({error}); put a fresh copy in its place") from None
    reviews: Reviews = []
    for number, line in enumerate(lines, 1):
        cells = line.split(b"\t")
        if len(cells) != 3 or cells[0] not in (b"0", b"1"):
            raise UserError(
                f"{path}, line {number} has {len(cells)} columns and begins {line[:20]!r}; write label (0 or "
                "1), rating and text, separated by tabs"
            )
        reviews.append((int(cells[0]), _nonempty(cells[2], f"{path}, line {number}")))
    if not reviews:
        raise UserError(f"{path} is empty; put a fresh copy in its place")
    return reviews


def _nonempty(text: bytes, where: object) -> bytes:
    if not text:
        raise UserError(f"{where} holds no text, and an empty sequence has no class; remove it")
    return text


def _review_bytes(reviews: Reviews) -> Sequences:
    store = np.frombuffer(bytearray(b"".join(text for _, text in reviews)), np.uint8)
    lengths, labels = [len(text) for _, text in reviews], [label for label, _ in reviews]
    return joined(store, np.array(lengths, int), np.array(labels, int))


@lru_cache(maxsize=1)
def aan(root: Path, longest: int) -> dict[str, Sequences]:
    """Pairs of papers (AAN, Radev et al. 2013, as LRA pairs them) below `root`, at most `longest` bytes of each paper;
    the label says whether one cites the other.

    The files are those of LRA's archive: lines of label (0 or 1, also 1.0), two ids and two texts, separated by tabs.
    A paper occurs in many pairs and is stored once, by its id."""
    folder = find_aan(root)
    return {split: _paper_pairs(folder / name, longest) for split, name in AAN_FILES.items()}


def _paper_pairs(path: Path, longest: int) -> Sequences:
    numbers: dict[bytes, int] = {}
    store, lengths, labels = bytearray(), list[int](), list[int]()
    pairs: list[tuple[int, int]] = []
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, 1):
                cells = line.rstrip(b"\r\n").split(b"\t")
                if len(cells) != 5 or cells[0] not in AAN_LABELS:
                    raise UserError(
                        f"{path}, line {number} has {len(cells)} columns and begins {line[:20]!r}; write label "
                        "(0 or 1), two ids and two texts, separated by tabs"
                    )
                for id_, text in ((cells[1], cells[3]), (cells[2], cells[4])):
                    if not text:
                        raise UserError(
                            f"{path}, line {number}: paper {id_.decode(errors='replace')} has no text, and an "
                            "empty sequence cannot be compared; remove the line"
                        )
                    if id_ not in numbers:
                        numbers[id_] = len(lengths)
                        lengths.append(min(len(text), longest))
                        store += text[:longest]
                pairs.append((numbers[cells[1]], numbers[cells[2]]))
                labels.append(AAN_LABELS[cells[0]])
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror or error}); put LRA's file there") from None
    if not pairs:
        raise UserError(f"{path} is empty; put LRA's file in its place")
    length = np.array(lengths)
    return Sequences(
        stores=(np.frombuffer(store, np.uint8),),
        store=np.zeros_like(length),
        start=np.cumsum(length) - length,
        length=length,
        documents=np.array(pairs),
        labels=np.array(labels),
    )


def pixel_rows(data: str, root: Path) -> dict[str, Sequences]:
    """Images of a dataset as sequences of grey pixels, row by row: LRA's Image task. Value 0 is black, not padding.

    The validation split is the last tenth of the training images, as in LRA."""
    if image_set(data).streamed:
        raise UserError(
            f"{data} stays in files of any size; pixels in a row need images in memory: cifar10, fashion_mnist"
        )
    train, test = read(data, root)
    assert isinstance(train, Pixels)
    assert isinstance(test, Pixels)
    cut = len(train.labels) - round(VALIDATION * len(train.labels))
    images, labels = grey(train.images), train.labels
    return {
        "train": _image_bytes(images[:cut], labels[:cut]),
        "valid": _image_bytes(images[cut:], labels[cut:]),
        "test": _image_bytes(grey(test.images), test.labels),
    }


def grey(images: UInt8[np.ndarray, "samples channels height width"]) -> UInt8[np.ndarray, "samples height width"]:
    """The brightness of each pixel, rounded."""
    if images.shape[1] == 1:
        return images[:, 0]
    brightness = np.empty((len(images), *images.shape[2:]), np.uint8)
    for start in range(0, len(images), 4096):
        part = images[start : start + 4096].astype(np.float64)
        brightness[start : start + 4096] = np.minimum(np.tensordot(part, LUMA, (1, 0)) + 0.5, 255)
    return brightness


def _image_bytes(images: UInt8[np.ndarray, "samples height width"], labels: np.ndarray) -> Sequences:
    size = images.shape[1] * images.shape[2]
    return joined(np.ascontiguousarray(images).reshape(-1), np.full(len(images), size), labels)
