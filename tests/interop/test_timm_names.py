"""Every name of timm's that belongs to our families is read exactly, weights included, or refused for a part it names."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from manyheads.interop.read_timm import named, read
from manyheads.models.build import build
from manyheads.models.resize import difference
from manyheads.models.twins import timm_maps
from manyheads.models.twins.tensors import back, into
from manyheads.spec.arch import Arch
from manyheads.spec.errors import UserError
from manyheads.spec.parts import Features
from tests.parity.harness import TOLERANCE, randomise

from .kept import RESULTS, write

timm = pytest.importorskip("timm", reason="timm is in the vision extra")

# timm's files whose models are of our families, or near them
FILES = (
    *("vision_transformer", "deit", "xcit", "tnt", "volo", "davit"),
    *("vision_transformer_hybrid", "vision_transformer_relpos", "vision_transformer_sam"),
)
# one name for most forms and for most reasons; all names are slow
SAMPLE = (
    *("test_vit", "test_vit4", "vit_small_patch16_18x2_224", "deit_tiny_distilled_patch16_224"),
    *("xcit_tiny_12_p16_224", "xcit_nano_12_p16_224", "tnt_s_patch16_224", "volo_d1_224", "davit_tiny"),
    *("vit_relpos_small_patch16_224", "vit_base_patch16_rpn_224", "vit_tiny_r_s16_p8_224", "samvit_base_patch16_224"),
)


def cases() -> list[object]:
    """All names, with the file that each is in."""
    rows = []
    for file in FILES:
        for name in timm.list_models(module=file):
            rows.append(pytest.param(name, file, id=name, marks=[] if name in SAMPLE else [pytest.mark.slow]))
    return rows


@cache
def tags() -> dict[str, list[str]]:
    """The names of trained weights, by the model that they are for."""
    known: dict[str, list[str]] = {}
    for name in timm.list_models(pretrained=True):
        known.setdefault(name.split(".")[0], []).append(name)
    return known


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("name", "file"), cases())
def test_a_name_is_read_exactly_or_refused_for_a_part(name: str, file: str) -> None:
    try:
        arch = named(name)
    except UserError as error:
        reason = str(error).replace(f"timm's {name} ", "it ")
        assert "cannot describe" not in reason, "the sentence names no part"
        assert not any(map(readable, tags().get(name, [])))
        keep(name, file, re.sub(r"image \d+ .*", "an image that is no whole number of patches", reason))
        return
    tensors_agree(name, arch)
    outputs_agree(name)
    others = [other for tag in tags().get(name, []) if (other := readable(tag)) is not None]
    for other in others:  # they differ in size and classes alone
        assert re.sub(r"head\.classes is .*", "", difference(other, arch)) == ""
    keep(name, file, "", len(others))


def readable(name: str) -> Arch | None:
    """The record of a name with a tag, None where it is refused: trained weights may need a head that no record has."""
    try:
        return named(name)
    except UserError as error:
        assert "cannot describe" not in str(error), "the sentence names no part"  # noqa: PT017 (either will do)
        return None


def keep(name: str, file: str, refusal: str, weights: int = 0) -> None:
    """A line for docs/timm.md (written by docs/make_timm.py); `weights` are the trained weights that are read, too."""
    line = {"name": name, "file": file, "refusal": refusal, "tags": len(tags().get(name, [])), "tags_read": weights}
    write(RESULTS / "timm-names" / f"{name}.json", line)


def twin(name: str, **settings: Any) -> nn.Module:
    """timm's model; a backbone gets 1000 classes, as the reader does it, unless attention pools its tokens."""
    model = timm.create_model(name, **settings)
    pooled = getattr(model, "num_classes", 1) or getattr(model, "global_pool", "") == "map"
    return model if pooled else timm.create_model(name, **settings | {"num_classes": 1000})


def state_of(model: nn.Module) -> dict[str, Tensor]:
    """Tensors without counters."""
    return {at: tensor for at, tensor in model.state_dict().items() if "num_batches" not in at}


def tensors_agree(name: str, arch: Arch) -> None:
    """The whole model, on the meta device: each tensor has its twin, both ways. `read` has counted the parameters."""
    with torch.device("meta"):
        theirs = state_of(twin(name))
        ours = state_of(build(arch))
    entries = timm_maps.tensors_of(arch, theirs)
    shapes = {at: tensor.shape for at, tensor in ours.items()}
    assert {at: tensor.shape for at, tensor in into(entries, theirs).items()} == shapes
    assert {at: t.shape for at, t in back(entries, ours).items()} == {at: t.shape for at, t in theirs.items()}


def small(name: str) -> nn.Module:
    """timm's model in the same form, with few layers and thin heads."""
    with torch.device("meta"):
        model: Any = twin(name)
    kind = type(model).__name__
    if kind == "VOLO":  # its named sizes take no other layers
        stages = [part for part in model.network if isinstance(part, nn.Sequential)]
        heads = tuple(stage[0].attn.num_heads for stage in stages)
        ratio = stages[0][0].mlp.fc1.out_features // stages[0][0].mlp.fc1.in_features
        widths = tuple(8 * count for count in heads)
        return type(model)((1,) * len(heads), 32, embed_dims=widths, num_heads=heads, mlp_ratio=ratio, num_classes=5)
    settings: dict[str, Any] = {"depth": 1, "img_size": 32}
    if kind == "DaVit":
        heads = tuple(stage.blocks[0][0].attn.num_heads for stage in model.stages)
        settings = {"depths": (1,) * len(heads), "embed_dims": tuple(8 * count for count in heads)}
    elif kind == "Xcit":
        settings["cls_attn_layers"] = 1
    elif kind != "TNT":
        block = model.blocks[0]
        attention = block.attns[0].attn if hasattr(block, "attns") else block.attn
        settings = {"depth": 2, "embed_dim": 8 * attention.num_heads, "img_size": 3 * model.patch_embed.patch_size[0]}
    return timm.create_model(name, **settings, num_classes=5 if model.num_classes else 0)


def outputs_agree(name: str) -> None:
    """The same form made small, every tensor randomised: the record read off it computes the same in float64."""
    theirs = randomise(small(name)).eval()
    arch = read(theirs, name, image=32)
    ours = build(arch).double().eval()
    ours.load_state_dict(into(timm_maps.tensors_of(arch, theirs.state_dict()), state_of(theirs)), strict=False)
    side = arch.embed.image  # type: ignore[union-attr]
    images = torch.randn(2, 3, side, side, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    with torch.no_grad():
        a, b = ours(images), theirs(images)
        a = ours.head.pooled(a) if isinstance(arch.head, Features) else a  # type: ignore[operator, union-attr]
    assert b.abs().max() > 1e-3
    assert (a - b).abs().max() <= TOLERANCE * b.abs().max().clamp_min(1)
