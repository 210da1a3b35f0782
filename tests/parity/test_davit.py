"""DaViT against timm, weights both ways."""

from __future__ import annotations

import pytest
import torch

from manyheads.arch import zoo
from manyheads.arch.families import davit
from manyheads.models.build import build
from manyheads.models.twins import timm_maps
from manyheads.models.twins.tensors import into

from .harness import agree

timm = pytest.importorskip("timm", reason="timm is in the dev extra")


@pytest.mark.parametrize(("name", "image"), [("davit", 64), ("davit_odd", 74)])
def test_equals_timm(name: str, image: int) -> None:
    """Outputs and gradients of timm's model, in float64: windows padded in every stage (grids of 16, 8, 4 and 2), and
    an image that is no multiple of the stem's stride, whose odd grids are down-sampled (19, 10, 5, 3)."""
    from timm.models.davit import DaVit

    widths, depths, heads = (8, 16, 16, 24), (1, 1, 2, 1), (1, 2, 2, 3)
    arch = davit(widths, depths, heads, (8,) * 4, tuple(4 * w for w in widths), image=image, classes=10)
    theirs = DaVit(depths=depths, embed_dims=widths, num_heads=heads, num_classes=10)
    images = torch.randn(2, 3, image, image, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    run = lambda model: model(images)  # noqa: E731
    agree(name, "timm DaVit", arch, theirs, timm_maps.davit(arch), run, run)


@pytest.mark.parametrize(
    ("name", "twin"),
    [("davit_t", "davit_tiny"), ("davit_s", "davit_small"), ("davit_b", "davit_base"), ("davit_l", "davit_large")],
)
def test_every_size_has_timms_tensors(name: str, twin: str) -> None:
    """The zoo's records, tensor by tensor, in shape."""
    with torch.device("meta"):
        theirs = timm.create_model(twin).state_dict()
    arch = zoo.get(name)
    ours = build(arch, device="meta").state_dict()
    loaded = into(timm_maps.davit(arch), theirs)
    assert {k: v.shape for k, v in loaded.items()} == {k: v.shape for k, v in ours.items()}
