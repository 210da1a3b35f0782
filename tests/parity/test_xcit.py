"""XCiT against timm, weights both ways."""

from __future__ import annotations

import pytest
import torch

from manyheads.arch.families import xcit
from manyheads.models.build import build
from manyheads.models.twins import timm_maps
from manyheads.models.twins.tensors import into
from manyheads.models.xcit import XCiT

from .harness import agree, randomise

timm = pytest.importorskip("timm", reason="timm is in the dev extra")


@pytest.mark.parametrize(
    ("name", "twin", "shape", "patch"),
    [
        ("xcit", "xcit_tiny_12_p16_224", (192, 4, 48), 16),
        ("xcit_p8", "xcit_tiny_12_p8_224", (192, 4, 48), 8),
        ("xcit_m", "xcit_medium_24_p16_224", (512, 8, 64), 16),
    ],
)
def test_equals_timm(name: str, twin: str, shape: tuple[int, int, int], patch: int) -> None:
    """Outputs and gradients of timm's model, in float64."""
    width, heads, head_dim = shape
    arch = xcit(width, 2, heads, head_dim, 4 * width, image=64, patch=patch, classes=10)
    theirs = timm.create_model(twin, depth=2, img_size=64, num_classes=10)
    images = torch.randn(2, 3, 64, 64, dtype=torch.float64, generator=torch.Generator().manual_seed(3))

    def ours(model: XCiT) -> torch.Tensor:
        model.embed.positions.reset()  # the harness has randomised this table too, and timm's is not a tensor to load
        return model(images)

    agree(name, f"timm {twin}", arch, theirs, timm_maps.xcit(arch), ours, lambda model: model(images))


def test_batch_norm_learns_what_timms_learns() -> None:
    """In training the batch's statistics are used, and the running ones move alike."""
    arch = xcit(192, 2, 4, 48, 768, image=64, classes=10)
    entries = timm_maps.xcit(arch)
    theirs = randomise(timm.create_model("xcit_tiny_12_p16_224", depth=2, img_size=64, num_classes=10)).train()
    ours = build(arch).double().train()
    ours.load_state_dict(into(entries, _state(theirs)), strict=False)
    images = torch.randn(4, 3, 64, 64, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    a, b = ours(images), theirs(images)
    assert (a - b).abs().max() <= 1e-9 * b.abs().max()
    moved = into(entries, _state(theirs))
    for name, tensor in ours.state_dict().items():
        if "running" in name:
            assert torch.allclose(tensor, moved[name], rtol=1e-9, atol=1e-9), name


def _state(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    return {name: tensor for name, tensor in module.state_dict().items() if "num_batches" not in name}
