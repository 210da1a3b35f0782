"""Each official format reads exactly; what is missing, cut short or wrong gets a sentence."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import numpy as np
import pytest

from manyheads.data import image_folders, image_readers
from manyheads.data.image_readers import READERS, idx_bytes, read_idx
from manyheads.spec.datasets import IMAGE_SETS, image_set
from manyheads.spec.errors import UserError
from manyheads.spec.images import Images
from manyheads.spec.serialise import to_dict

from .written import CIFAR_FILES, COLOURS, write_cifar, write_folder, write_image, write_tiny


@pytest.fixture(scope="module")
def official(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, np.ndarray, np.ndarray]:
    """CIFAR-10's binary files, and what their first records hold."""
    root = tmp_path_factory.mktemp("cifar")
    return root, *write_cifar(root)


def test_cifar_reads_labels_and_planes_in_the_official_order(official: tuple[Path, np.ndarray, np.ndarray]) -> None:
    root, labels, pixels = official
    train, test = image_readers.cifar10(root)
    assert train.images.shape == (50_000, 3, 32, 32)
    assert test.images.shape == (10_000, 3, 32, 32)
    for i in range(5):
        assert np.array_equal(train.images[10_000 * i : 10_000 * i + 10], pixels[i])
        assert np.array_equal(train.labels[10_000 * i : 10_000 * i + 10], labels[i])
    assert np.array_equal(test.images[:10], pixels[5])


def test_a_cifar_file_that_is_missing_cut_or_mislabelled_is_named(
    official: tuple[Path, np.ndarray, np.ndarray], tmp_path: Path
) -> None:
    folder = tmp_path / "cifar-10-batches-bin"
    with pytest.raises(UserError, match=r"cs\.toronto\.edu.*MANYHEADS_DATA"):
        image_readers.cifar10(tmp_path)
    folder.mkdir()
    for name in CIFAR_FILES:
        (folder / name).symlink_to(official[0] / "cifar-10-batches-bin" / name)
    (folder / CIFAR_FILES[2]).unlink()
    with pytest.raises(UserError, match=r"data_batch_3\.bin is missing"):
        image_readers.cifar10(tmp_path)
    (folder / CIFAR_FILES[2]).write_bytes(bytes(3073 * 9_999))
    with pytest.raises(UserError, match="30,726,927 bytes; an official file has 30,730,000"):
        image_readers.cifar10(tmp_path)
    (folder / CIFAR_FILES[2]).write_bytes(bytes([200]) + bytes(3073 * 10_000 - 1))
    with pytest.raises(UserError, match="label 200"):
        image_readers.cifar10(tmp_path)


def test_a_name_of_earlier_versions_loads_and_is_not_trained_on(tmp_path: Path) -> None:
    task = Images("cifar10_q5")
    assert to_dict(task)["data"] == "cifar10_q5"  # the id of a finished run stays
    assert "cifar10_q5" not in IMAGE_SETS
    for read in (image_readers.read, image_readers.find):
        with pytest.raises(UserError, match=r"earlier versions alone.* write cifar10"):
            read("cifar10_q5", tmp_path)


def test_all_of_fashion_mnist_reads_from_the_official_files(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="zalandoresearch"):
        image_readers.fashion_mnist_full(tmp_path)
    folder = tmp_path / "fashion-mnist"
    folder.mkdir()
    images = np.random.default_rng(0).integers(0, 256, (30, 28, 28), dtype=np.uint8)
    for split in ("train", "t10k"):
        (folder / f"{split}-images-idx3-ubyte.gz").write_bytes(gzip.compress(idx_bytes(images)))
        (folder / f"{split}-labels-idx1-ubyte.gz").write_bytes(
            gzip.compress(idx_bytes(np.arange(30, dtype=np.uint8) % 10))
        )
    train, _ = image_readers.fashion_mnist_full(tmp_path)
    assert np.array_equal(train.images[:, 0], images)
    (folder / "t10k-labels-idx1-ubyte.gz").write_bytes(gzip.compress(idx_bytes(np.zeros(29, dtype=np.uint8))))
    with pytest.raises(UserError, match=r"30 t10k images.*29 labels"):
        image_readers.fashion_mnist_full(tmp_path)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"not gzip at all", "cannot be read"),
        (gzip.compress(idx_bytes(np.zeros((3, 4, 4), np.uint8)))[:20], "cannot be read"),
        (gzip.compress(idx_bytes(np.zeros((3, 4, 4), np.uint8))[:-5]), "promises 3 x 4 x 4"),
        (gzip.compress(idx_bytes(np.zeros(7, np.uint8))), "no IDX file of unsigned bytes with 3"),
        (gzip.compress(b""), "no IDX file"),
    ],
    ids=["foreign", "cut packed", "cut", "labels", "empty"],  # gzip writes the time: the bytes would name no test twice
)
def test_an_idx_file_that_is_foreign_or_cut_is_named(tmp_path: Path, content: bytes, told: str) -> None:
    path = tmp_path / "train-images-idx3-ubyte.gz"
    path.write_bytes(content)
    with pytest.raises(UserError, match=told):
        read_idx(path, 3)


def test_tiny_imagenet_reads_both_splits(tmp_path: Path) -> None:
    folder = write_tiny(tmp_path)
    train, test = image_folders.tiny_imagenet(tmp_path)
    assert train.labels.tolist() == list(range(200))
    assert os.fsdecode(train.paths[3]).endswith("n00000003_0.JPEG")
    assert test.labels.tolist() == [7 * i for i in range(10)]
    (folder / "val" / "images" / "val_4.JPEG").unlink()
    with pytest.raises(UserError, match=r"val_4\.JPEG is listed"):
        image_folders.tiny_imagenet(tmp_path)
    (folder / "val" / "val_annotations.txt").write_text("val_0.JPEG\tn99999999\t0\t0\t1\t1\n")
    with pytest.raises(UserError, match=r"'n99999999', which wnids\.txt does not list"):
        image_folders.tiny_imagenet(tmp_path)
    with pytest.raises(UserError, match=r"tiny-imagenet-200\.zip"):
        image_folders.tiny_imagenet(tmp_path / "elsewhere")


def test_a_folder_lists_its_classes_in_alphabetical_order(tmp_path: Path) -> None:
    write_folder(tmp_path / "colours", train=4, val=2)
    train, test = image_folders.image_folder(tmp_path, "colours")
    assert train.labels.tolist() == [0] * 4 + [1] * 4 + [2] * 4
    assert test.labels.tolist() == [0, 0, 1, 1, 2, 2]
    for path, label in zip(train.paths, train.labels, strict=True):
        assert os.fsdecode(path).split(os.sep)[-2] == sorted(COLOURS)[label]


def test_a_folder_that_is_not_laid_out_as_asked_is_explained(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="train/CLASS"):
        image_folders.image_folder(tmp_path, "colours")
    write_image(tmp_path / "colours" / "train" / "red" / "1.png", (200, 0, 0))
    with pytest.raises(UserError, match="has no folder val"):
        image_folders.image_folder(tmp_path, "colours")
    write_image(tmp_path / "colours" / "val" / "rot" / "1.png", (200, 0, 0))
    with pytest.raises(UserError, match=r"class red .* is only in train"):
        image_folders.image_folder(tmp_path, "colours")
    (tmp_path / "colours" / "val" / "rot").rename(tmp_path / "colours" / "val" / "red")
    (tmp_path / "colours" / "train" / "red" / "1.png").rename(tmp_path / "colours" / "train" / "red" / "1.txt")
    with pytest.raises(UserError, match="holds no image"):
        image_folders.image_folder(tmp_path, "colours")


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(UserError, match="did you mean cifar10"):
        image_set("cifar_10")
    with pytest.raises(UserError, match="folder:NAME"):
        image_set("zzz")
    assert READERS.keys() == IMAGE_SETS.keys()
    assert all(len(known.mean) == len(known.std) == known.channels for known in IMAGE_SETS.values())
