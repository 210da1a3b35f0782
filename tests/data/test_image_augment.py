"""Batches made on the device equal a plain loop over samples."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import torch
from torchvision.transforms.v2 import functional as vision

from manyheads.data.image_augment import Geometry, Mix, Normaliser, boxes_in, erase, mixed, plan_mix, resize
from manyheads.data.resident_images import Cutter, bordered
from manyheads.spec.errors import UserError
from manyheads.spec.images import Augment, Rand

CPU = torch.device("cpu")
DRAW = np.random.default_rng(0)
STORE = DRAW.integers(1, 256, (40, 3, 12, 10), dtype=np.uint8)  # no zeros: black is what padding brings
PLACES = np.arange(60)
SAMPLES = DRAW.integers(0, 40, 60)


def cut(augment: Augment) -> tuple[torch.Tensor, np.ndarray, np.ndarray]:
    """What the device makes of the samples, and the plan it was given."""
    geometry = Geometry(augment, seed=7)
    boxes, flips = geometry.cuts(PLACES, 12, 10), geometry.flips(PLACES)
    plan = np.concatenate((SAMPLES[:, None], boxes, flips[:, None]), axis=1)
    return Cutter(bordered(STORE, CPU), augment.resized is not None)(torch.from_numpy(plan)), boxes, flips


def test_crop_and_flip_equal_pad_slice_and_mirror() -> None:
    images, boxes, flips = cut(Augment(crop=3, flip=True))
    for image, sample, (top, left, *_), flip in zip(images, SAMPLES, boxes, flips, strict=True):
        padded = np.pad(STORE[sample], ((0, 0), (3, 3), (3, 3)))
        plain = padded[:, top + 3 : top + 15, left + 3 : left + 13]
        assert np.array_equal(image.numpy(), plain[:, :, ::-1] if flip else plain)
    assert (boxes[:, :2].min(), boxes[:, :2].max()) == (-3, 3)
    assert 15 < flips.sum() < 45


def test_resized_crop_equals_torchvision() -> None:
    images, boxes, flips = cut(Augment(resized=(0.2, 1.0), flip=True))
    for image, sample, box, flip in zip(images, SAMPLES, boxes.tolist(), flips, strict=True):
        plain = vision.resized_crop(torch.from_numpy(STORE[sample]), *box, [12, 10], antialias=True)
        plain = vision.horizontal_flip(plain) if flip else plain
        assert (image.int() - plain.int()).abs().max() <= 1  # a rounding


def test_without_augmentation_images_are_the_stored_ones() -> None:
    assert np.array_equal(cut(Augment())[0].numpy(), STORE[SAMPLES])


def test_crops_reach_every_offset_equally_often() -> None:
    boxes = Geometry(Augment(crop=2), seed=0).cuts(np.arange(50_000), 28, 28)
    for side in (0, 1):
        values, counts = np.unique(boxes[:, side], return_counts=True)
        assert values.tolist() == [-2, -1, 0, 1, 2]
        assert abs(counts / 10_000 - 1).max() < 0.05


def test_random_boxes_lie_inside_and_have_the_asked_area_and_aspect() -> None:
    boxes, found = boxes_in(DRAW.random((5000, 40)), 200, 300, (0.08, 1.0), (3 / 4, 4 / 3))
    top, left, height, width = boxes.T
    assert found.all()
    assert (top >= 0).all()
    assert (left >= 0).all()
    assert (top + height <= 200).all()
    assert (left + width <= 300).all()
    share, aspect = height * width / 60_000, width / height
    assert share.min() < 0.1
    assert share.max() < 1
    assert 0.72 < aspect.min() < 0.78
    assert 1.28 < aspect.max() < 1.37


def test_a_strip_in_which_no_box_fits_gives_its_middle() -> None:
    box = Geometry(Augment(resized=(0.9, 1.0)), seed=0).cuts(np.array([0]), 20, 200)[0]
    assert box.tolist() == [0, (200 - 27) // 2, 20, 27]


def test_erasing_blanks_one_box_of_the_asked_share_of_images() -> None:
    boxes = Geometry(Augment(erase=0.25), seed=1).erased(np.arange(20_000), 32)
    hit = boxes[:, 2] > 0
    assert hit.mean() == pytest.approx(0.25, abs=0.015)
    share = boxes[hit, 2] * boxes[hit, 3] / 32**2
    assert 0.01 < share.min() < 0.03
    assert 0.28 < share.max() < 0.36
    images = erase(torch.ones(8, 3, 32, 32), torch.from_numpy(boxes[:8]))
    for image, (top, left, height, width) in zip(images, boxes[:8].tolist(), strict=True):
        plain = torch.ones(3, 32, 32)
        plain[:, top : top + height, left : left + width] = 0
        assert torch.equal(image, plain)


def test_normalising_subtracts_the_mean_and_repeats_grey() -> None:
    grey = torch.from_numpy(STORE[:4, :1])
    plain = (grey.double() / 255 - 0.3) / 0.25
    one, three = Normaliser((0.3,), (0.25,), CPU)(grey), Normaliser((0.3,) * 3, (0.25,) * 3, CPU)(grey)
    assert one.shape == (4, 1, 12, 10)
    assert torch.allclose(one.double(), plain, atol=1e-6)
    assert torch.equal(three, one.expand(-1, 3, -1, -1))


def test_resizing_equals_torchvision() -> None:
    images = torch.from_numpy(STORE[:, :, :10])
    for size in (7, 10, 23):
        plain = vision.resize(images, [size, size], antialias=True)
        assert (resize(images, size).int() - plain.int()).abs().max() <= 1


def test_mixup_blends_neighbours_and_their_labels() -> None:
    images, labels = torch.rand(6, 3, 8, 8), torch.tensor([0, 1, 2, 2, 4, 0])
    out, targets = mixed(images, labels, 5, Mix(0.7))
    assert torch.allclose(out[2], 0.7 * images[2] + 0.3 * images[3])
    assert torch.allclose(out[3], 0.7 * images[3] + 0.3 * images[2])
    assert torch.allclose(targets[0], torch.tensor([0.7, 0.3, 0, 0, 0]))
    assert torch.allclose(targets[2], torch.tensor([0, 0, 1.0, 0, 0]))
    assert torch.allclose(targets[5], torch.tensor([0.7, 0, 0, 0, 0.3]))


def test_cutmix_pastes_the_neighbour_and_weighs_labels_by_area() -> None:
    images, labels = torch.rand(4, 3, 8, 8), torch.tensor([0, 1, 2, 3])
    before = images.clone()
    out, targets = mixed(images, labels, 4, Mix(1 - 6 / 64, (1, 2, 3, 5)))
    plain = before.clone()
    plain[:, :, 1:3, 2:5] = before[[1, 0, 3, 2]][:, :, 1:3, 2:5]
    assert torch.equal(out, plain)
    assert torch.equal(images, before)
    assert targets[3].tolist() == pytest.approx([0, 0, 6 / 64, 58 / 64])


def test_mixing_is_drawn_as_asked() -> None:
    both = Augment(mixup=0.8, cutmix=1.0, switch=0.25, mix=0.8)
    plans = [plan_mix(both, 0, step, 32) for step in range(4000)]
    assert np.mean([plan == Mix() for plan in plans]) == pytest.approx(0.2, abs=0.03)
    assert np.mean([plan.box is not None for plan in plans]) == pytest.approx(0.2, abs=0.03)
    blends = [plan.keep for plan in plans if plan.box is None and plan != Mix()]
    assert np.var(blends) == pytest.approx(1 / (4 * (2 * 0.8 + 1)), abs=0.01)  # of Beta(0.8, 0.8)
    for plan in plans:
        if plan.box:
            top, left, bottom, right = plan.box
            assert 0 <= top <= bottom <= 32
            assert 0 <= left <= right <= 32
            assert plan.keep == 1 - (bottom - top) * (right - left) / 1024
    assert plans[17] == plan_mix(both, 0, 17, 32)
    assert plans != [plan_mix(both, 1, step, 32) for step in range(4000)]


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"crop": -1}, "Augment.crop is -1"),
        ({"crop": 1.5}, "whole number"),
        ({"mixup": "0.8"}, "Augment.mixup is '0.8'"),
        ({"erase": 1.2}, "from 0 to 1"),
        ({"flip": 1}, "true or false"),
        ({"resized": (0.5, 1.5)}, "at most 1"),
        ({"resized": (0.5,)}, "2 numbers"),
        ({"crop": 4, "resized": (0.5, 1.0)}, "two kinds of crop"),
        ({"rand": 9}, "write a Rand or null"),
        ({"cutmix": float("nan")}, "Augment.cutmix is nan"),
    ],
)
def test_a_wrong_augmentation_is_explained(fields: dict[str, object], told: str) -> None:
    with pytest.raises(UserError, match=told):
        Augment(**fields)  # type: ignore[arg-type]


def test_randaugment_without_torchvision_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    from manyheads.data.randaugment import RandAugment

    monkeypatch.setitem(sys.modules, "torchvision.transforms.v2.functional", None)
    with pytest.raises(UserError, match="pip install torchvision"):
        RandAugment(Rand(), 0, (0.5,))
