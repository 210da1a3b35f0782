"""A model of ours as timm's own: an architecture of timm, arguments for it, and the weights under its names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from manyheads.models.resize import difference
from manyheads.models.twins.tensors import back
from manyheads.spec.arch import Arch, attentions, mlps, residuals
from manyheads.spec.errors import UserError, optional
from manyheads.spec.parts import Classify, Patch

from . import read_timm
from .twin_state import fitting

# family -> an architecture of timm whose arguments can say the sizes of others
ANY_SIZE = {"vit": "vit_base_patch16_224", "deit": "deit_base_distilled_patch16_224"}


def stock_state(model: nn.Module, source: Mapping[str, Any]) -> tuple[str, dict[str, Any], dict[str, Tensor]]:
    """An architecture of timm, its arguments, and the weights of `model` under its names. `source` names the
    architecture that the weights come from, and its arguments, if they come from timm. A record that timm cannot say is
    refused with the difference."""
    arch = model.arch
    assert isinstance(arch, Arch)
    fault = ""
    for name, settings in _candidates(arch, source):
        twin = _created(name, settings)
        said = read_timm.read(twin, name, getattr(arch.embed, "image", None))  # some modules do not keep it
        fault = difference(arch, said, sides=("in this record", f"in timm's {name}"))
        if said == arch:
            state = back(fitting(arch, "timm", twin.state_dict(), set(model.state_dict())), model.state_dict())
            return name, settings, state
        fault = fault or f"it takes images of another size than timm's {name}"
    why = fault or f"timm's architectures of family {arch.family!r} take no sizes"
    raise UserError(
        f"timm cannot express this model: {why}. Leave --stock out: the folder then loads after "
        "import manyheads.interop.timm"
    )


def _candidates(arch: Arch, source: Mapping[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    classes = arch.head.classes if isinstance(arch.head, Classify) else 0
    found: list[tuple[str, dict[str, Any]]] = []
    known = source.get("architecture")
    if known is not None and known != "manyheads":
        settings: dict[str, Any] = dict(source.get("model_args") or {}) | {"num_classes": classes}
        if isinstance(arch.embed, Patch):
            settings |= {"img_size": arch.embed.image, "in_chans": arch.embed.channels}
        found.append((str(known), settings))
    if arch.family in ANY_SIZE and isinstance(arch.embed, Patch):
        found.append((ANY_SIZE[arch.family], _vit(arch, arch.embed, classes)))
    return found


def _vit(arch: Arch, embed: Patch, classes: int) -> dict[str, Any]:
    """The arguments of timm's VisionTransformer."""
    stage, head = arch.stages[0], arch.head
    attention, mlp = attentions(stage)[0], mlps(stage)[0]
    assert isinstance(head, Classify)
    settings: dict[str, Any] = {
        "img_size": embed.image,
        "patch_size": embed.patch,
        "in_chans": embed.channels,
        "num_classes": classes,
        "embed_dim": stage.width,
        "depth": sum(stage.depth for stage in arch.stages),
        "num_heads": attention.heads,
        "mlp_ratio": mlp.mlp_dim / stage.width,
        "qkv_bias": attention.qkv_bias,
        "init_values": next(iter(residuals(stage))).scaled,
    }
    if arch.family == "vit":
        settings |= {"class_token": embed.class_tokens > 0, "no_embed_class": not embed.class_positions}
        settings |= {"global_pool": "token" if head.pool == "class" else "avg", "fc_norm": head.norm_last}
    if mlp.act == "gelu_tanh":
        settings["act_layer"] = "gelu_tanh"
    return settings


def _created(name: str, settings: dict[str, Any]) -> Any:
    timm = optional("timm", "manyheads[vision]")
    try:
        with torch.device("meta"):
            return timm.create_model(name, pretrained=False, **settings)
    except (TypeError, ValueError, AssertionError, RuntimeError) as error:
        raise UserError(f"timm's {name} does not take the sizes of this model ({error}); leave --stock out") from None
