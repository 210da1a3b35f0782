"""Mixup (1710.09412) and cutmix (1905.04899): two neighbours of a batch become one picture, and so do their labels."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from manyheads.spec.augment import Augment

from .draws import key
from .shapes import Numbers


@dataclass(frozen=True)
class Mix:
    """What is done to one batch: each row keeps `keep` of itself, its partner gives the rest.

    With a `box` (top, left, bottom, right) the partner's pixels are pasted there; without, the two are blended."""

    keep: float = 1.0
    box: tuple[int, int, int, int] | None = None


def plan_mix(augment: Augment, seed: int, step: int, side: int) -> Mix:
    """How batch `step` is mixed. The draws are timm's: one for the batch, a box of area 1 - keep around a random
    centre, clipped at the border and `keep` then set to what the box leaves."""
    draw = random.Random(key(seed, "mix", step))
    chance, which = draw.random(), draw.random()
    if not augment.mixes or chance >= augment.mix:
        return Mix()
    cut = augment.cutmix > 0 and (augment.mixup == 0 or which < augment.switch)
    alpha = augment.cutmix if cut else augment.mixup
    keep = draw.betavariate(alpha, alpha)
    if not cut:
        return Mix(keep)
    half = int(side * math.sqrt(1 - keep)) // 2
    y, x = draw.randrange(side), draw.randrange(side)
    top, bottom = max(0, y - half), min(side, y + half)
    left, right = max(0, x - half), min(side, x + half)
    return Mix(1 - (bottom - top) * (right - left) / side**2, (top, left, bottom, right))


def partner(rows: Tensor) -> Tensor:
    """Rows 2k and 2k+1 changed over."""
    return rows.unflatten(0, (-1, 2)).flip(1).flatten(0, 1)


def mixed(
    images: Numbers, labels: Int[Tensor, " batch"], classes: int, mix: Mix
) -> tuple[Numbers, Float[Tensor, "batch classes"]]:
    """Images and soft targets after `mix`; targets are soft also where nothing is mixed, so that every batch is
    alike."""
    targets = (labels[:, None] == torch.arange(classes, device=labels.device)).to(torch.float32)
    if mix.box is None and mix.keep == 1:
        return images, targets
    targets = torch.lerp(partner(targets), targets, mix.keep)
    if mix.box is None:
        return torch.lerp(partner(images), images, mix.keep), targets
    top, left, bottom, right = mix.box
    images = images.clone()
    images[..., top:bottom, left:right] = partner(images[..., top:bottom, left:right])
    return images, targets
