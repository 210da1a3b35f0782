"""A model's weights layer by layer: taken apart, and put together again under the names of another depth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from manyheads.arch.layer_edits import layer_list, with_layers
from manyheads.models.build import build
from manyheads.spec.arch import Arch
from manyheads.spec.errors import UserError
from manyheads.spec.parts import Layer

Weights = dict[str, Tensor]
LIST = "blocks."


@dataclass(frozen=True)
class TrainedLayer:
    """A layer's record and its weights, named as inside the layer: `attention.op.qkv.weight` and so on."""

    record: Layer
    weights: Weights


@dataclass(frozen=True)
class Apart:
    """A model taken apart: its layers, and the weights outside of them (embedding, head)."""

    arch: Arch
    layers: tuple[TrainedLayer, ...]
    rest: Weights


def take_apart(arch: Arch, weights: Mapping[str, Tensor]) -> Apart:
    """The layers of a model. Half-precision weights become float32, since folding leaves their grid of values."""
    records = layer_list(arch)
    check_names(arch, weights)
    layers: list[Weights] = [{} for _ in records]
    rest: Weights = {}
    for name, tensor in weights.items():
        if not name.startswith(LIST):
            rest[name] = in_full(tensor)
            continue
        number, _, inside = name.removeprefix(LIST).partition(".")
        layers[int(number)][inside] = in_full(tensor)
    return Apart(arch, tuple(TrainedLayer(*pair) for pair in zip(records, layers, strict=True)), rest)


def put_together(model: Apart, layers: Sequence[TrainedLayer]) -> tuple[Arch, Weights]:
    """The record and the weights of the model that has these layers in place of its own."""
    arch = with_layers(model.arch, [layer.record for layer in layers])
    weights = dict(model.rest)
    for number, layer in enumerate(layers):
        weights |= {f"{LIST}{number}.{name}": tensor for name, tensor in layer.weights.items()}
    return arch, weights


def check_names(arch: Arch, weights: Mapping[str, Tensor]) -> None:
    """Refuse weights that are not those of `arch`: every tensor, with its shape."""
    own = build(arch, device="meta").state_dict()
    if not any(name.startswith(LIST) for name in own):
        raise UserError(f"the layers of a {arch.family} model are no single list; it cannot be taken apart")
    wrong = [name for name in own if name not in weights or weights[name].shape != own[name].shape]
    wrong += [name for name in weights if name not in own]
    if wrong:
        raise UserError(
            f"these weights are not those of the record: {len(wrong)} tensors are missing, unknown or of another shape, "
            f"such as {wrong[0]}"
        )


def in_full(tensor: Tensor) -> Tensor:
    """The tensor in float32 if it has fewer digits."""
    return tensor.float() if tensor.dtype in (torch.float16, torch.bfloat16) else tensor
