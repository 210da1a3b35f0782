"""The embedded images are the stated part of Fashion-MNIST, bit for bit, with their licence."""

from __future__ import annotations

import gzip
import hashlib
from pathlib import Path

import numpy as np
import pytest

from manyheads.data.image_readers import EMBEDDED, idx_bytes, read, read_idx
from manyheads.data.local_data import data_root
from manyheads.spec.datasets import IMAGE_SETS

from .pack_fashion_mnist import pack

# Of the decoded bytes; taken when the files were packed and compared with the official ones by the rule in NOTICE.
DIGESTS = {
    ("train", "images"): "e1427044c614fabc29feeff0f27e6b68f88a9ee2f2cfe7d783b9157159864883",
    ("train", "labels"): "2c02745d4ad8b4511333d0eca662ac5664a371860abaa4588b1670e7be59fbdf",
    ("t10k", "images"): "96315b1732ab731e68b8def3c284f34b605f7deb7a61e683c7d786265c827c83",
    ("t10k", "labels"): "b2095bc797d1201e84da76c94012c02d0e6f07af0938df4e00120a3b42d1aa4c",
}


@pytest.mark.parametrize(("split", "what"), DIGESTS)
def test_the_embedded_bytes_are_the_official_ones(split: str, what: str) -> None:
    array = read_idx(
        EMBEDDED / f"{split}-{what}-idx{3 if what == 'images' else 1}-ubyte.xz", 3 if what == "images" else 1
    )
    assert hashlib.sha256(array.tobytes()).hexdigest() == DIGESTS[split, what]


def test_every_class_has_a_thousand_training_and_two_hundred_test_images(tmp_path: Path) -> None:
    train, test = read("fashion_mnist", tmp_path)
    assert np.bincount(train.labels).tolist() == [1000] * 10
    assert np.bincount(test.labels).tolist() == [200] * 10
    assert train.images.shape == (10_000, 1, 28, 28)
    assert test.images.shape == (2_000, 1, 28, 28)
    assert np.flatnonzero(train.labels == 9)[0] == 0  # official order: the first training image is an ankle boot


def test_mean_and_deviation_are_those_of_the_data(tmp_path: Path) -> None:
    pixels = read("fashion_mnist", tmp_path)[0].images / 255
    known = IMAGE_SETS["fashion_mnist"]
    assert pixels.mean() == pytest.approx(known.mean[0], abs=2e-3)
    assert pixels.std() == pytest.approx(known.std[0], abs=2e-3)


def test_licence_and_notice_lie_beside_the_images() -> None:
    licence, notice = (EMBEDDED / "LICENSE").read_text(), (EMBEDDED / "NOTICE").read_text()
    assert "The MIT License" in licence
    assert "Copyright (c) 2017 Zalando SE" in licence
    assert "1708.07747" in notice
    assert "first 1,000" in notice
    assert sum(file.stat().st_size for file in EMBEDDED.iterdir()) < 5_000_000


def test_packing_keeps_the_first_images_of_each_class_in_order(tmp_path: Path) -> None:
    source, target = tmp_path / "official", tmp_path / "packed"
    source.mkdir()
    target.mkdir()
    labels = np.array([2, 0, 0, 1, 0, 2, 1, 1], dtype=np.uint8)
    images = np.arange(8 * 4, dtype=np.uint8).reshape(8, 2, 2)
    for split in ("train", "t10k"):
        (source / f"{split}-images-idx3-ubyte.gz").write_bytes(gzip.compress(idx_bytes(images)))
        (source / f"{split}-labels-idx1-ubyte.gz").write_bytes(gzip.compress(idx_bytes(labels)))
    pack(source, target, {"train": 6, "t10k": 3})
    assert read_idx(target / "train-labels-idx1-ubyte.xz", 1).tolist() == [2, 0, 0, 1, 2, 1]
    kept = read_idx(target / "t10k-images-idx3-ubyte.xz", 3)
    assert np.array_equal(kept, images[[0, 1, 3]])


def test_the_data_folder_is_the_argument_then_the_variable_then_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MANYHEADS_DATA", str(tmp_path / "named"))
    assert data_root(tmp_path / "given") == tmp_path / "given"
    assert data_root() == tmp_path / "named"
    monkeypatch.delenv("MANYHEADS_DATA")
    assert data_root() == Path.home() / ".cache" / "manyheads"
