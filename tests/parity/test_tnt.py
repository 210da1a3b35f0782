"""TNT, current and legacy, against timm, weights both ways."""

from __future__ import annotations

import pytest
import torch

from manyheads.arch.families import tnt
from manyheads.models.twins import timm_maps

from .harness import agree

timm = pytest.importorskip("timm", reason="timm is in the dev extra")


@pytest.mark.parametrize(
    ("name", "twin", "width", "pixel_width", "legacy"),
    [
        ("tnt", "tnt_s_patch16_224", 384, 24, False),
        ("tnt_b", "tnt_b_patch16_224", 640, 40, False),
        ("tnt_legacy", "tnt_s_legacy_patch16_224", 384, 24, True),
    ],
)
def test_equals_timm(name: str, twin: str, width: int, pixel_width: int, legacy: bool) -> None:
    """Outputs and gradients of timm's model, in float64."""
    arch = tnt(
        width,
        2,
        width // 64,
        64,
        4 * width,
        pixel_width=pixel_width,
        pixel_head_dim=pixel_width // 4,
        pixel_mlp_dim=4 * pixel_width,
        image=64,
        classes=10,
        legacy=legacy,
    )
    theirs = timm.create_model(twin, depth=2, img_size=64, num_classes=10)
    images = torch.randn(2, 3, 64, 64, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    run = lambda model: model(images)  # noqa: E731
    agree(name, f"timm {twin}", arch, theirs, timm_maps.tnt(arch), run, run)
