"""A crop beside a change of size: before it for old runs, after it for new ones, and what either does to a picture."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from manyheads.arch.families import vit
from manyheads.data.image_augment import resize
from manyheads.data.image_types import Pixels, Terms
from manyheads.data.resident_images import Resident
from manyheads.experiments.scales import cifar
from manyheads.runs import Run
from manyheads.spec.errors import UserError
from manyheads.spec.images import Augment, Images, crop_after_resize
from manyheads.spec.recipe import Recipe
from manyheads.spec.run import RunSpec
from manyheads.spec.serialise import to_dict
from manyheads.tasks import remark

CPU = torch.device("cpu")
PIXELS = np.random.default_rng(0).integers(1, 256, (40, 3, 32, 32), dtype=np.uint8)  # no zeros: black is padding
LABELS = np.arange(40) % 10
ROWS = range(24)


def resident(augment: Augment, size: int, images: np.ndarray = PIXELS) -> Resident:
    """Forty images of 32 px that a model is given at another size."""
    stored = Pixels(images, LABELS)
    return Resident(stored, stored, Terms(augment, size, (0.5,) * 3, seed=3, batch=24, device=CPU))


def plain(source: Resident, augment: Augment, size: int) -> torch.Tensor:
    """The same batch by a loop over its samples."""
    places, side = source.order.places(0, ROWS), size if augment.resize_first else 32
    boxes, flips = source.geometry.cuts(places, side, side), source.geometry.flips(places)
    images = []
    for sample, (top, left, *_), flip in zip(source.order.at(places), boxes, flips, strict=True):
        image = torch.from_numpy(PIXELS[sample][None])
        image = resize(image, size) if augment.resize_first else image
        pad = augment.crop
        image = torch.nn.functional.pad(image, (pad,) * 4)[..., top + pad :, left + pad :][..., :side, :side]
        image = image.flip(-1) if flip else image
        images.append(image if augment.resize_first else resize(image, size))
    return torch.cat(images)


@pytest.mark.parametrize("size", [28, 64])
@pytest.mark.parametrize("first", [False, True], ids=["old runs", "new runs"])
def test_an_image_is_cropped_where_its_record_says(first: bool, size: int) -> None:
    augment = Augment(crop=5, flip=True, resize_first=first)
    source = resident(augment, size)
    assert torch.equal(source.batch(0, ROWS)[0], plain(source, augment, size))


@pytest.mark.parametrize(("first", "black"), [(False, 0.247), (True, 0.128)], ids=["old runs", "new runs"])
def test_a_crop_of_an_eighth_blackens_an_eighth_of_the_picture(first: bool, black: float) -> None:
    """Offsets of -8 to 8 px leave 1 - 72/17/32 of a side of 32 px visible, and 1 - 72/17/64 of one of 64 px."""
    source = resident(Augment(crop=8, resize_first=first), 64, np.full_like(PIXELS, 255))
    shares = [1 - source.batch(step, ROWS)[0].float().mean().item() / 255 for step in range(20)]
    assert np.mean(shares) == pytest.approx(black, abs=0.015)


def test_experiments_crop_pixels_that_the_model_sees_and_only_runs_that_change_have_another_record() -> None:
    assert to_dict(cifar(32)) == to_dict(
        Images("cifar10", size=32, label_smoothing=0.1, augment=Augment(crop=4, flip=True))
    )
    assert "resize_first" not in to_dict(cifar(32))["augment"]
    assert to_dict(cifar(64))["augment"]["resize_first"] is True
    assert cifar(28).augment.resize_first


@pytest.mark.parametrize("data", ["tiny_imagenet", "cifar10"])
def test_a_crop_that_counts_these_pixels_already_stays_as_it_is(data: str) -> None:
    task = Images(data, size=32 if data == "cifar10" else 96, augment=Augment(crop=4))
    assert crop_after_resize(task) is task


def test_an_old_run_keeps_its_record_and_its_id_and_says_how_it_crops(tmp_path: Path) -> None:
    task = Images("cifar10", size=64, augment=Augment(crop=8))
    spec = RunSpec(vit(24, 2, 2, 12, 48, image=64, patch=16, classes=10), task, Recipe(), 0)
    assert spec.id == "913fd74b2c803c9e"
    Run.create(tmp_path / "old", spec)
    loaded = Run.open(tmp_path / "old")
    assert (loaded.id, loaded.spec.task) == (spec.id, task)
    assert "cuts the stored images of 32 px, which are then resized to 64" in remark(loaded.spec.task)
    new = crop_after_resize(task)
    assert RunSpec(spec.arch, new, Recipe(), 0).id != spec.id
    assert remark(new) == ""


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"data": "cifar10", "augment": {"resize_first": True}}, "no crop that could follow"),
        ({"data": "cifar10", "augment": {"crop": 4, "resize_first": True}}, "it is not resized, so leave it out"),
        ({"data": "tiny_imagenet", "size": 96, "augment": {"crop": 4, "resize_first": True}}, "files are resized"),
    ],
)
def test_a_resize_that_changes_nothing_is_refused(fields: dict, told: str) -> None:
    with pytest.raises(UserError, match=told):
        Images(**fields | {"augment": Augment(**fields["augment"])})
