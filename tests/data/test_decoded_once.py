"""Image folders that fit are decoded once and held, and give the numbers to the bit that a stream of the files gives."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch

from manyheads.data import decoded_once
from manyheads.data.decoded_images import Stream
from manyheads.data.image_readers import read
from manyheads.data.resident_images import Resident
from manyheads.spec.errors import UserError
from manyheads.tasks import Augment, Images, Rand, open_task
from manyheads.tasks.images import ImageWork
from tests.data.written import write_folder, write_image

CPU = torch.device("cpu")
AUGMENTS = {
    "none": Augment(),
    "crop": Augment(crop=2, flip=True),
    "all": Augment(crop=3, flip=True, rand=Rand(), erase=0.3, mixup=0.8, cutmix=1.0),
}


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """No worker processes."""
    monkeypatch.setenv("MANYHEADS_WORKERS", "0")


def opened(root: Path, augment: Augment = AUGMENTS["crop"], **fields: object) -> ImageWork:
    read.cache_clear()
    decoded_once._content.cache_clear()  # as in a new process
    task = Images("folder:colours", size=16, classes=3, augment=augment, **fields)  # type: ignore[arg-type]
    return open_task(task, CPU, 0, 8, root=root)  # type: ignore[return-value]


@pytest.mark.parametrize("centre", [1.0, 0.8])
@pytest.mark.parametrize("augment", AUGMENTS.values(), ids=AUGMENTS)
def test_held_images_give_the_numbers_of_streamed_ones(
    augment: Augment, centre: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_folder(tmp_path / "colours", train=6, val=2)
    held = opened(tmp_path, augment, centre=centre, validation=0.3)
    monkeypatch.setattr(decoded_once, "MOST", 0)
    streamed = opened(tmp_path, augment, centre=centre, validation=0.3)
    assert isinstance(held.source, Resident)
    assert isinstance(streamed.source, Stream)
    for step in range(4):  # crosses the end of an epoch
        for one, other in zip(held.batch(step, range(8)), streamed.batch(step, range(8)), strict=True):
            assert torch.equal(one, other)
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(768, 3))
    for one, other in zip(held.tally(model).values(), streamed.tally(model).values(), strict=True):
        assert torch.equal(one, other)


def test_images_are_decoded_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write_folder(tmp_path / "colours", train=3, val=2)
    opened(tmp_path)
    assert "15 images of folder:colours are decoded once" in capsys.readouterr().err
    (made,) = (one for one in (tmp_path / "decoded").iterdir() if one.is_dir())
    before = {file: file.stat().st_mtime_ns for file in made.iterdir()}
    opened(tmp_path)
    opened(tmp_path, AUGMENTS["all"])
    assert capsys.readouterr().err == ""
    assert {file: file.stat().st_mtime_ns for file in made.iterdir()} == before
    write_image(folder / "train" / "red" / "000.png", (255, 0, 0))  # same name, other content
    opened(tmp_path)
    assert "decoded once" in capsys.readouterr().err


def test_random_crops_are_cut_out_of_the_files(tmp_path: Path) -> None:
    write_folder(tmp_path / "colours", train=3, val=2)
    assert isinstance(opened(tmp_path, Augment(resized=(0.3, 1.0))).source, Stream)
    assert not (tmp_path / "decoded").exists()


def test_an_unreadable_image_is_named_and_nothing_is_kept(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "colours", train=3, val=2)
    (folder / "train" / "red" / "001.jpg").write_bytes(b"no image")
    with pytest.raises(UserError, match=r"red/001\.jpg is no image that can be read"):
        opened(tmp_path)
    assert [path.name[0] for path in (tmp_path / "decoded").iterdir()] == ["."]


def test_a_full_disk_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_folder(tmp_path / "colours", train=3, val=2)

    def full(file: int, data: bytes) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(decoded_once, "write_all", full)
    with pytest.raises(UserError, match="No space left on device; what was written before is intact"):
        opened(tmp_path)
    assert [path.name[0] for path in (tmp_path / "decoded").iterdir()] == ["."]
    monkeypatch.undo()
    monkeypatch.setenv("MANYHEADS_WORKERS", "0")
    assert isinstance(opened(tmp_path).source, Resident)


def test_a_damaged_file_of_pixels_is_refused(tmp_path: Path) -> None:
    write_folder(tmp_path / "colours", train=3, val=2)
    opened(tmp_path)
    (pixels,) = (tmp_path / "decoded").glob("*/train.u8")
    pixels.write_bytes(pixels.read_bytes()[:-1])
    with pytest.raises(UserError, match=r"is damaged.*delete it"):
        opened(tmp_path)
