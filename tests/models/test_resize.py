"""Weights for one image size become weights for another."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from manyheads.arch import zoo
from manyheads.arch.encoder_families import dinov2
from manyheads.arch.families import davit, gpt2, tnt, vit, volo, xcit
from manyheads.arch.redesign import at_image
from manyheads.models.build import build
from manyheads.models.resize import resize, tables
from manyheads.spec.arch import Arch
from manyheads.spec.errors import UserError
from manyheads.spec.parts import Classify


def small_vit(image: int, tokens: int = 1, depth: int = 1) -> Arch:
    return vit(32, depth, 2, 16, 64, image=image, class_tokens=tokens, classes=5)


def small_tnt(image: int) -> Arch:
    return tnt(32, 1, 2, 16, 64, pixel_width=8, pixel_head_dim=2, pixel_mlp_dim=16, image=image, classes=5)


def small_xcit(image: int) -> Arch:
    return xcit(32, 1, 2, 16, 64, image=image, classes=5)


def small_volo(image: int) -> Arch:
    return volo((32, 64), (1, 1), (2, 4), (16, 16), (64, 128), stem=8, image=image, classes=5)


def state_of(arch: Arch) -> dict[str, torch.Tensor]:
    """Weights of the right names and shapes; the tables of positions random."""
    generator = torch.Generator().manual_seed(0)
    positions = {name: torch.randn(rows, 32, generator=generator) for name, _, rows in tables(arch)}
    return positions | {"other": torch.ones(3)}


@pytest.mark.parametrize("to", [32, 96, 128, 224])
@pytest.mark.parametrize("tokens", [0, 1, 2])
def test_positions_are_timms(tokens: int, to: int) -> None:
    """Class and distillation tokens keep theirs, patches are interpolated as timm interpolates them."""
    layers = pytest.importorskip("timm.layers", reason="timm is in the dev extra")
    old, new = small_vit(64, tokens), small_vit(to, tokens)
    state = state_of(old)
    resized = resize(state, old, new)
    size = [to // 16, to // 16]
    theirs = layers.resample_abs_pos_embed(state["embed.positions"][None], size, num_prefix_tokens=tokens)[0]
    assert torch.equal(resized["embed.positions"], theirs)
    assert resized["other"] is state["other"]


@pytest.mark.parametrize("class_positions", [True, False])
def test_registers_have_no_row_among_the_positions(class_positions: bool) -> None:
    """They are as many, and as they were, at any size of the image."""
    arch = dinov2(32, 1, 2, 16, 64, image=28, registers=3)
    arch = replace(arch, embed=replace(arch.embed, class_positions=class_positions), stages=arch.stages)
    bigger = at_image(arch, 56)
    old, new = build(arch, seed=0), build(bigger, seed=1)
    new.load_state_dict(resize(old.state_dict(), arch, bigger))
    assert new.embed.positions.shape[0] == 16 + class_positions
    assert torch.equal(new.embed.registers, old.embed.registers)
    assert new(torch.zeros(1, 3, 56, 56)).shape == (1, 16 + 1 + 3, 32)


def test_tnt_keeps_its_class_row_and_its_pixels() -> None:
    layers = pytest.importorskip("timm.layers", reason="timm is in the dev extra")
    old, new = small_tnt(64), small_tnt(96)
    state = build(old, seed=0).state_dict()
    resized = resize(state, old, new)
    theirs = layers.resample_abs_pos_embed(state["embed.positions"][None], [6, 6], num_prefix_tokens=1)[0]
    assert torch.equal(resized["embed.positions"], theirs)
    assert torch.equal(resized["embed.pixel_positions"], state["embed.pixel_positions"])


def test_volo_resizes_the_table_after_its_downsampling() -> None:
    layers = pytest.importorskip("timm.layers", reason="timm is in the dev extra")
    old, new = small_volo(64), small_volo(128)
    name, table = "stages.1.enter.positions", torch.randn(16, 64)
    theirs = layers.pos_embed.resample_abs_pos_embed_nhwc(table.reshape(1, 4, 4, 64), [8, 8])
    assert torch.equal(resize({name: table}, old, new)[name], theirs.reshape(64, 64))


@pytest.mark.parametrize("make", [small_vit, small_tnt, small_xcit, small_volo])
@pytest.mark.parametrize("to", [48, 96])
def test_resized_weights_load_and_run(make, to: int) -> None:
    """Every name and shape is the new model's."""
    old, new = make(64), make(to)
    model = build(new, seed=1).eval()
    model.load_state_dict(resize(build(old, seed=0).state_dict(), old, new))
    assert model(torch.randn(2, 3, to, to)).isfinite().all()


def test_constant_positions_stay_constant() -> None:
    old, new = small_vit(64), small_vit(112)
    state = {"embed.positions": torch.full((17, 32), 0.25)}
    assert torch.allclose(resize(state, old, new)["embed.positions"], torch.full((50, 32), 0.25))


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
def test_precision_is_kept(dtype: torch.dtype) -> None:
    old, new = small_vit(64), small_vit(112)
    state = state_of(old)
    ours = resize({name: tensor.to(dtype) for name, tensor in state.items()}, old, new)["embed.positions"]
    assert ours.dtype == dtype
    assert torch.allclose(ours.float(), resize(state, old, new)["embed.positions"], atol=0.05, rtol=0.02)


@pytest.mark.parametrize(
    "pair",
    [
        (small_xcit(64), small_xcit(96)),
        (davit((32,), (1,), (2,), (16,), (64,), image=64), davit((32,), (1,), (2,), (16,), (64,), image=96)),
        (small_vit(64), small_vit(64)),
    ],
)
def test_nothing_changes_where_nothing_is_learned_per_place(pair: tuple[Arch, Arch]) -> None:
    state = {"a": torch.ones(2), "embed.positions": torch.ones(17, 32)}
    assert resize(state, *pair).keys() == state.keys()
    assert all(resize(state, *pair)[name] is tensor for name, tensor in state.items())


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (small_vit(96, depth=2), "stages[0].depth is 1 in the weights and 2 in the model"),
        (vit(32, 1, 4, 16, 64, image=96, classes=5), "heads is 2 in the weights and 4 in the model"),
        (vit(32, 1, 2, 16, 64, image=96, patch=8, classes=5), "embed.patch is 16 in the weights and 8"),
        (replace(small_vit(96), head=Classify(7)), "head.classes is 5 in the weights and 7 in the model"),
        (small_tnt(96), "family is 'vit' in the weights and 'tnt' in the model"),
        (zoo.get("deit_ti"), "family is 'vit'"),
    ],
)
def test_anything_but_the_size_is_refused(other: Arch, said: str) -> None:
    old = small_vit(64)
    with pytest.raises(UserError) as caught:
        resize(state_of(old), old, other)
    assert said in str(caught.value)


def test_stages_that_differ_in_number_are_refused() -> None:
    whole, halves = small_vit(64, depth=2), small_vit(96)
    halves = replace(halves, stages=halves.stages * 2)
    with pytest.raises(UserError, match="stages has length 1 in the weights and 2 in the model"):
        resize(state_of(whole), whole, halves)


def test_language_models_have_no_image_size() -> None:
    old, new = (gpt2(32, 1, 2, 16, 64, vocab=50, tokens=n, positions=16) for n in (8, 16))
    with pytest.raises(UserError, match="reads no images"):
        resize({}, old, new)


def test_foreign_weights_are_refused() -> None:
    old, new = small_vit(64), small_vit(96)
    with pytest.raises(UserError, match=r"embed.positions is missing; .* have 17 rows"):
        resize({}, old, new)
    with pytest.raises(UserError, match=r"has shape \(5, 32\)"):
        resize({"embed.positions": torch.ones(5, 32)}, old, new)
