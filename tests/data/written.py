"""Small datasets in the official formats, written for a test."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import numpy as np
from PIL import Image

CIFAR_RECORDS, CIFAR_RECORD = 10_000, 3073


def write_cifar(root: Path) -> tuple[np.ndarray, np.ndarray]:
    """Six official-sized files; the first ten records of each are given back (labels; pixels), the others are zeros."""
    folder = root / "cifar-10-batches-bin"
    folder.mkdir(parents=True)
    draw = np.random.default_rng(0)
    pixels = draw.integers(0, 256, (6, 10, 3, 32, 32), dtype=np.uint8)
    labels = np.stack([draw.permutation(10) for _ in range(6)]).astype(np.uint8)
    for name, some, which in zip(CIFAR_FILES, pixels, labels, strict=True):
        records = np.zeros((CIFAR_RECORDS, CIFAR_RECORD), np.uint8)
        records[:10, 0], records[:10, 1:] = which, some.reshape(10, -1)
        records.tofile(folder / name)
    return labels, pixels


CIFAR_FILES = [*(f"data_batch_{i}.bin" for i in range(1, 6)), "test_batch.bin"]


def tiny_cifar(folder: Path, records: int = 20) -> Path:
    """The official archive with fewer records: the same members, the same format."""
    draw = np.random.default_rng(0)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "cifar-10-binary.tar.gz"
    members = {name: draw.integers(0, 256, (records, CIFAR_RECORD), dtype=np.uint8) for name in CIFAR_FILES}
    with tarfile.open(path, "w:gz") as archive:
        for name, rows in members.items():
            rows[:, 0] = np.arange(records) % 10
            _member(archive, f"cifar-10-batches-bin/{name}", rows.tobytes())
        _member(archive, "cifar-10-batches-bin/batches.meta.txt", b"airplane\n")
        _member(archive, "cifar-10-batches-bin/../../elsewhere.bin", b"not wanted")
    return path


def _member(archive: tarfile.TarFile, name: str, data: bytes) -> None:
    info = tarfile.TarInfo(name)
    info.size = len(data)
    archive.addfile(info, io.BytesIO(data))


def write_image(path: Path, colour: tuple[int, int, int], size: tuple[int, int] = (20, 16), seed: int = 0) -> None:
    """A picture (width, height) of one colour with a little noise, in the format of its suffix."""
    path.parent.mkdir(parents=True, exist_ok=True)
    noise = np.random.default_rng(seed).integers(-20, 21, (size[1], size[0], 3))
    Image.fromarray((np.array(colour) + noise).clip(0, 255).astype(np.uint8)).save(path)


COLOURS = {"blue": (30, 30, 220), "green": (30, 220, 30), "red": (220, 30, 30)}


def write_folder(root: Path, train: int = 14, val: int = 5) -> Path:
    """An image folder of three colours, pictures of several sizes and formats."""
    for split, count in (("train", train), ("val", val)):
        for name, colour in COLOURS.items():
            for i in range(count):
                suffix = (".png", ".jpg", ".JPEG")[i % 3]
                size = ((20, 16), (16, 24), (30, 30))[i % 3]
                write_image(root / split / name / f"{i:03d}{suffix}", colour, size, seed=i)
    return root


def write_tiny(root: Path, classes: int = 200) -> Path:
    """Tiny-ImageNet-200 with one training image of each class and ten validation images."""
    folder = root / "tiny-imagenet-200"
    names = [f"n{i:08d}" for i in range(classes)]
    for i, name in enumerate(names):
        write_image(folder / "train" / name / "images" / f"{name}_0.JPEG", (i, 255 - i, 128), (64, 64), seed=i)
    (folder / "wnids.txt").write_text("\n".join(reversed(names)) + "\n")
    lines = []
    for i in range(10):
        write_image(folder / "val" / "images" / f"val_{i}.JPEG", (7 * i, 255 - 7 * i, 128), (64, 64), seed=i)
        lines.append(f"val_{i}.JPEG\t{names[7 * i]}\t0\t0\t62\t62\n")
    (folder / "val" / "val_annotations.txt").write_text("".join(lines))
    return folder
