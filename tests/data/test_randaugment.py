"""RandAugment does to each sample what Pillow does with timm's levels, whoever shares its batch."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch
from PIL import Image, ImageEnhance, ImageOps

from manyheads.data.randaugment import AFFINE, BLENDS, OPS, RandAugment, amounts
from manyheads.spec.images import Rand

FILL = (0.5, 0.4, 0.3)
COLOUR = tuple(round(255 * part) for part in FILL)
TIMM = dict(
    zip(
        OPS,
        (
            "AutoContrast",
            "Equalize",
            "Invert",
            "Rotate",
            "Posterize",
            "Solarize",
            "SolarizeAdd",
            "Color",
            "Contrast",
            "Brightness",
            "Sharpness",
            "ShearX",
            "ShearY",
            "TranslateXRel",
            "TranslateYRel",
        ),
        strict=True,
    )
)


@pytest.fixture(scope="module")
def images() -> torch.Tensor:
    """Smooth colour pictures: interpolations of noise differ only where noise is sharp."""
    noise = torch.rand(6, 3, 5, 5, generator=torch.Generator().manual_seed(0))
    smooth = torch.nn.functional.interpolate(noise, (32, 32), mode="bicubic", align_corners=True)
    return (smooth.clamp(0, 1) * 255).to(torch.uint8)


def by_pillow(name: str, picture: Image.Image, amount: float) -> Image.Image:
    """The same operation, by Pillow, in the form timm calls it."""
    bilinear = {"resample": Image.Resampling.BILINEAR, "fillcolor": COLOUR}
    side = picture.size[0]
    match name:
        case "auto_contrast":
            return ImageOps.autocontrast(picture)
        case "equalize":
            return ImageOps.equalize(picture)
        case "invert":
            return ImageOps.invert(picture)
        case "posterize":
            return ImageOps.posterize(picture, 8 - round(np.log2(amount)))
        case "solarize":
            return ImageOps.solarize(picture, round(amount))
        case "solarize_add":
            return picture.point([min(255, i + round(amount)) if i < 128 else i for i in range(256)] * 3)
        case "rotate":
            return picture.rotate(np.degrees(amount), **bilinear)
        case "color" | "contrast" | "brightness" | "sharpness":
            return getattr(ImageEnhance, name.capitalize())(picture).enhance(amount)
    matrix = {
        "shear_x": (1, amount, 0, 0, 1, 0),
        "shear_y": (1, 0, 0, amount, 1, 0),
        "shift_x": (1, 0, amount * side, 0, 1, 0),
        "shift_y": (1, 0, 0, 0, 1, amount * side),
    }[name]
    return picture.transform(picture.size, Image.Transform.AFFINE, matrix, **bilinear)


@pytest.mark.parametrize("name", OPS)
def test_each_operation_equals_pillows(images: torch.Tensor, name: str) -> None:
    level, negative = np.array([0.3, 0.55, 0.81, 0.9, 0.95, 0.99]), np.array([0, 1, 0, 1, 0, 1], bool)
    amount = amounts(name, level, negative, rising=False)
    ours = RandAugment(Rand(), 0, FILL).apply(name, images, torch.from_numpy(amount).float())
    for image, mine, by in zip(images, ours, amount, strict=True):
        pillow = by_pillow(name, Image.fromarray(image.permute(1, 2, 0).numpy()), float(by))
        far = np.abs(np.asarray(pillow).transpose(2, 0, 1).astype(int) - mine.numpy().astype(int))
        if name in AFFINE:  # at the edge of the picture we blend with the fill, Pillow does not
            assert np.quantile(far, 0.9) <= 2
        else:
            assert far.max() <= (3 if name in BLENDS else 1)


@pytest.mark.parametrize("rising", [False, True])
def test_levels_mean_what_timm_means(rising: bool) -> None:
    from timm.data.auto_augment import LEVEL_TO_ARG

    levels = np.linspace(0, 10, 41)
    for name, theirs in TIMM.items():
        grows = rising and name in (*BLENDS, "posterize", "solarize")
        convert = LEVEL_TO_ARG[f"{theirs}Increasing" if grows else theirs]
        if convert is None:
            continue
        random.seed(0)
        wanted = np.array([convert(level, {})[0] for level in levels], float)
        random.seed(0)  # timm draws a sign where the operation has one; the same draws give us ours
        signed = name in AFFINE or (grows and name in BLENDS)
        negative = np.array([random.random() > 0.5 for _ in levels]) if signed else np.zeros(41, bool)
        mine = amounts(name, levels / 10, negative, rising)
        mine = {"posterize": lambda x: 8 - np.log2(x), "rotate": np.degrees}.get(name, lambda x: x)(mine)
        assert np.allclose(mine, wanted, atol=1e-9), name


def test_a_sample_is_changed_alike_in_any_batch(images: torch.Tensor) -> None:
    rand, places = RandAugment(Rand(std=1.0), 3, FILL), np.arange(300)
    many = images.repeat(50, 1, 1, 1)
    together = rand(many, places)
    parts = [rand(many[start : start + 60], places[start : start + 60]) for start in range(0, 300, 60)]
    assert torch.equal(together, torch.cat(parts))
    alone = torch.cat([rand(many[i : i + 1], places[i : i + 1]) for i in range(40)])
    assert torch.equal(together[:40], alone)
    unchanged = (together == many).flatten(1).all(1).float().mean().item()
    assert 0.2 < unchanged < 0.45  # a quarter has neither operation done, and a few do nothing to these pictures


def test_grey_images_are_changed_too(images: torch.Tensor) -> None:
    grey = images[:, :1].repeat(20, 1, 1, 1)
    out = RandAugment(Rand(), 0, FILL)(grey, np.arange(120))
    assert out.shape == grey.shape
    assert out.dtype == torch.uint8
