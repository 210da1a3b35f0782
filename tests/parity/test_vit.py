"""ViT and DeiT against timm, weights both ways."""

from __future__ import annotations

import pytest
import torch

from manyheads.arch.families import vit
from manyheads.models.twins import timm_maps

from .harness import agree

timm = pytest.importorskip("timm", reason="timm is in the dev extra")


@pytest.mark.parametrize(
    ("name", "twin", "tokens"),
    [
        ("vit", "vit_tiny_patch16_224", 1),
        ("deit", "deit_tiny_patch16_224", 1),
        ("deit_distilled", "deit_tiny_distilled_patch16_224", 2),
    ],
)
def test_equals_timm(name: str, twin: str, tokens: int) -> None:
    """Outputs and gradients of timm's model, in float64."""
    arch = vit(192, 2, 3, 64, 768, image=64, class_tokens=tokens, family=name.split("_")[0], classes=10)
    theirs = timm.create_model(twin, depth=2, img_size=64, num_classes=10)
    images = torch.randn(2, 3, 64, 64, dtype=torch.float64)
    run = lambda model: model(images)  # noqa: E731
    agree(name, f"timm {twin}", arch, theirs, timm_maps.vit(arch), run, run)
