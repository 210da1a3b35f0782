"""VOLO against timm, weights both ways."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from manyheads.arch import zoo
from manyheads.arch.families import volo
from manyheads.models.build import build
from manyheads.models.twins import timm_maps
from manyheads.models.twins.tensors import back, into
from manyheads.spec.arch import Arch

from .harness import agree, randomise

timm = pytest.importorskip("timm", reason="timm is in the dev extra")


WIDTHS, DEPTHS, HEADS = (16, 32, 32, 32), (2, 1, 2, 1), (2, 4, 4, 4)


def pair(aux: bool = True) -> tuple[Arch, nn.Module, torch.Tensor]:
    """A tiny record, timm's model of it, and images."""
    from timm.models.volo import VOLO

    arch = volo(WIDTHS, DEPTHS, HEADS, (8,) * 4, tuple(3 * w for w in WIDTHS), stem=8, image=64, classes=10, aux=aux)
    theirs = VOLO(
        DEPTHS, img_size=64, num_classes=10, stem_hidden_dim=8, embed_dims=WIDTHS, num_heads=HEADS, use_aux_head=aux
    )
    return arch, theirs, torch.randn(2, 3, 64, 64, dtype=torch.float64, generator=torch.Generator().manual_seed(3))


@pytest.mark.parametrize(("name", "aux"), [("volo", True), ("volo_no_aux", False)])
def test_equals_timm(name: str, aux: bool) -> None:
    """Outputs and gradients of timm's model, in float64, with the vote of the patch tokens and without."""
    arch, theirs, images = pair(aux)
    run = lambda model: model(images)  # noqa: E731
    agree(name, "timm VOLO", arch, theirs, timm_maps.volo(arch), run, run)


def test_training_equals_timm() -> None:
    """In training too the patch tokens vote; batch norms keep the same averages."""
    arch, theirs, images = pair()
    entries = timm_maps.volo(arch)
    ours = build(arch).double().train()
    ours.load_state_dict(into(entries, state(randomise(theirs).train())), strict=False)
    torch.testing.assert_close(ours(images), theirs(images), rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(back(entries, ours.state_dict()), state(theirs), rtol=1e-12, atol=1e-12)


def state(model: nn.Module) -> dict[str, torch.Tensor]:
    """Tensors without counters."""
    return {k: v for k, v in model.state_dict().items() if "num_batches" not in k}


@pytest.mark.parametrize("grid", [1, 2, 5, 8, 9])
def test_outlook_equals_timm_on_any_grid(grid: int) -> None:
    """An odd grid too, whose last spot looks over its edge."""
    from timm.models.volo import OutlookAttention as Twin

    from manyheads.nn.attention_variants import OutlookAttention
    from manyheads.spec.parts import Attention, Outlook

    torch.manual_seed(0)
    twin = Twin(24, 3, stride=2).double()
    ours = OutlookAttention(24, Attention(3, 8, qkv_bias=False, mix=Outlook(3, 2)), grid**2).double()
    names = {
        "v.weight": "v.weight",
        "attn.weight": "weights.weight",
        "attn.bias": "weights.bias",
        "proj.weight": "out.weight",
        "proj.bias": "out.bias",
    }
    ours.load_state_dict({names[name]: tensor for name, tensor in twin.state_dict().items()})
    x = torch.randn(2, grid, grid, 24, dtype=torch.float64)
    torch.testing.assert_close(ours(x.flatten(1, 2)), twin(x).flatten(1, 2), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", ["volo_d1", "volo_d2", "volo_d3", "volo_d4", "volo_d5"])
def test_every_size_has_timms_tensors(name: str) -> None:
    """The zoo's records, tensor by tensor, in shape."""
    with torch.device("meta"):
        theirs = state(timm.create_model(f"{name}_224"))
    arch = zoo.get(name)
    ours = state(build(arch, device="meta"))
    loaded = into(timm_maps.volo(arch), theirs)
    assert {k: v.shape for k, v in loaded.items()} == {k: v.shape for k, v in ours.items()}
