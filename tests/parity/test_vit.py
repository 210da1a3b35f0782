"""ViT and DeiT against timm, weights both ways."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from manyheads.arch.families import vit
from manyheads.interop.read_timm import read
from manyheads.models.build import build
from manyheads.models.twins import timm_vit
from manyheads.models.twins.tensors import back, into
from manyheads.spec.arch import Arch
from manyheads.spec.parts import Attention, Mlp

from .harness import TOLERANCE, agree, randomise

timm = pytest.importorskip("timm", reason="timm is in the dev extra")

SMALL = {"depth": 2, "embed_dim": 48, "num_heads": 3, "num_classes": 10}
# fmt: off
FORMS = {  # what differs from the plain ViT -> timm's name, and arguments that make it small
    "layer scale, positions without class token": ("deit3_small_patch16_224", {"img_size": 32}),
    "layer scale, patches of 14": ("vit_small_patch14_dinov2", {"img_size": 42}),
    "gated MLP": ("vit_giant_patch14_dinov2", {"img_size": 42}),
    "mean of patches, no bias of queries, keys and values": ("vit_medium_patch16_gap_256", {"img_size": 32}),
    "no bias of queries, keys and values": ("vit_base_patch16_224_miil", {"img_size": 32}),
    "tanh GELU, norm before the mean": ("vit_base_patch32_siglip_gap_256", {"img_size": 64}),
    "no norm at the end": ("vit_intern300m_patch14_448", {"img_size": 28}),
    "gate and value apart, RMS norms, no biases": ("vit_tiny_patch16_224", {
        "img_size": 32, "mlp_layer": "SwiGLU", "norm_layer": "rmsnorm", "qkv_bias": False, "proj_bias": False}),
    "registers": ("vit_small_patch14_reg4_dinov2", {"img_size": 42}),
    "a norm before the blocks, patches without bias": ("vit_base_patch16_clip_224", {"img_size": 32}),
    "quick GELU": ("vit_base_patch32_clip_quickgelu_224", {"img_size": 64}),
    "mean of patches behind registers": ("vit_wee_patch16_reg1_gap_256", {"img_size": 32}),
    "mean of patches behind a class token": ("eva_large_patch14_196", {"img_size": 42}),
    "norms of queries and keys": ("vit_tiny_patch16_224", {"img_size": 32, "qk_norm": True, "norm_layer": "layernorm"}),
}
# fmt: on


def twin_of(name: str, settings: dict) -> nn.Module:
    """timm's model, small."""
    from timm.layers import SwiGLU

    if settings.get("mlp_layer") == "SwiGLU":
        settings = settings | {"mlp_layer": SwiGLU}
    return timm.create_model(name, **SMALL | settings)


def images(side: int) -> torch.Tensor:
    """Two of them."""
    return torch.randn(2, 3, side, side, dtype=torch.float64, generator=torch.Generator().manual_seed(3))


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
    batch = images(64)
    run = lambda model: model(batch)  # noqa: E731
    agree(name, f"timm {twin}", arch, theirs, timm_vit.vit(arch), run, run)


@pytest.mark.parametrize("form", FORMS)
def test_equals_every_form_of_timms(form: str) -> None:
    """The record is read off timm's model; outputs and gradients are the same in float64."""
    name, settings = FORMS[form]
    theirs = twin_of(name, settings)
    arch, batch = read(theirs, name), images(settings["img_size"])
    run = lambda model: model(batch)  # noqa: E731
    agree(f"vit ({form})", f"timm {name}", arch, theirs, timm_vit.vit(arch, theirs.state_dict()), run, run)


@pytest.mark.parametrize("scaled", [1e-6, None])
def test_branches_side_by_side_are_one_layer_with_all_heads(scaled: float | None) -> None:
    """timm's parallel form has a norm and a layer scale for each branch; ours, with all of these moved into the matrices,
    computes the same, and the same gradient of the images, both ways."""
    theirs = timm.create_model(
        "vit_small_patch16_18x2_224",
        depth=2,
        embed_dim=48,
        num_heads=3,
        num_classes=10,
        img_size=32,
        init_values=scaled,
    )
    arch = read(theirs, "vit_small_patch16_18x2_224")
    (attention, mlp) = (branch.op for branch in arch.stages[0].unit[0])  # type: ignore[union-attr]
    assert isinstance(attention, Attention)
    assert isinstance(mlp, Mlp)
    assert (attention.heads, attention.head_dim, mlp.mlp_dim, arch.stages[0].depth) == (6, 16, 2 * 4 * 48, 2)
    carried_both_ways(arch, theirs)


@pytest.mark.parametrize("settings", [{}, {"class_token": True, "global_pool": "token"}])
def test_registers_take_up_their_positions(settings: dict) -> None:
    """timm's registers may have positions, behind that of the class token; ours are their sum, which computes the same."""
    theirs = timm.create_model("test_vit2", img_size=32, num_classes=10, depth=2, reg_tokens=3, **settings)
    arch = read(theirs, "test_vit2")
    assert arch.embed.registers == 3  # type: ignore[union-attr]
    carried_both_ways(arch, theirs)


def carried_both_ways(arch: Arch, theirs: nn.Module) -> None:
    """All tensors random, loaded here and then there: outputs and the gradient of the images are the same."""
    ours, entries = build(arch).double().eval(), timm_vit.vit(arch, theirs.state_dict())
    randomise(theirs).eval()
    assert not ours.load_state_dict(into(entries, theirs.state_dict())).missing_keys
    assert difference(ours, theirs) <= TOLERANCE
    randomise(ours, seed=1)
    theirs.load_state_dict(back(entries, ours.state_dict()))
    assert difference(ours, theirs) <= TOLERANCE


def difference(ours: nn.Module, theirs: nn.Module) -> float:
    """Largest difference of the outputs and of the images' gradients, relative to the largest magnitude."""
    results = []
    for model in (ours, theirs):
        batch = images(32).requires_grad_()
        out = model(batch)
        out.square().sum().backward()
        assert out.abs().max() > 1e-3
        results.append((out.detach(), batch.grad))
    return max(((a - b).abs().max() / b.abs().max()).item() for a, b in zip(*results, strict=True))


@pytest.mark.parametrize(
    ("form", "name", "side"),
    [("class token", "vit_small_patch14_dinov2", 42), ("pooling by attention", "vit_base_patch16_siglip_224", 32)],
)
def test_a_model_without_classes_gives_the_same_vector(form: str, name: str, side: int) -> None:
    """timm's backbone returns its class token, or what a learned token reads of all; ours is read without a classifier,
    and its head's pooler gives the same."""
    theirs = twin_of(name, {"img_size": side, "num_classes": 0})
    arch, batch = read(theirs), images(side)
    ours = lambda model: model.head.pooled(model(batch))  # noqa: E731
    entries = timm_vit.vit(arch, theirs.state_dict())
    agree(f"vit (no classes, {form})", f"timm {name}", arch, theirs, entries, ours, lambda model: model(batch))
