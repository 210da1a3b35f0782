"""The steps of a transplant, carried out in order on a model's record and weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import singledispatch

from torch import Tensor

from manyheads.arch.layer_edits import padded
from manyheads.spec.arch import Arch
from manyheads.spec.errors import UserError
from manyheads.spec.transplant import AddHeads, Cut, Drop, Fold, Pad, TransplantStep

from .fold import fold
from .heads_and_units import add_heads, cut, pad
from .layer_weights import TrainedLayer, Weights, put_together, take_apart


def apply(arch: Arch, weights: Mapping[str, Tensor], steps: Sequence[TransplantStep]) -> tuple[Arch, Weights]:
    """The model that `steps` make of the one given, as its record and its weights. Tensors that no step changes are
    those given, not copies; none is written to."""
    model = take_apart(arch, weights)
    layers = model.layers
    for step in steps:
        layers = changed(step, layers)
    return put_together(model, layers)


@singledispatch
def changed(step: TransplantStep, layers: tuple[TrainedLayer, ...]) -> tuple[TrainedLayer, ...]:
    """The layers after one step."""
    raise UserError(f"{type(step).__name__} is no step of a transplant")


@changed.register
def _(step: Fold, layers: tuple[TrainedLayer, ...]) -> tuple[TrainedLayer, ...]:
    _within([number for group in step.groups for number in group], layers)
    ends = {group[0]: group[-1] for group in step.groups}
    inside = {number for group in step.groups for number in group[1:]}
    return tuple(
        fold(layers[number : ends[number] + 1]) if number in ends else layer
        for number, layer in enumerate(layers)
        if number not in inside
    )


@changed.register
def _(step: Drop, layers: tuple[TrainedLayer, ...]) -> tuple[TrainedLayer, ...]:
    _within(step.layers, layers)
    return tuple(layer for number, layer in enumerate(layers) if number not in step.layers)


@changed.register
def _(step: AddHeads, layers: tuple[TrainedLayer, ...]) -> tuple[TrainedLayer, ...]:
    _within([step.layer, step.of or 0], layers)
    of = None if step.of is None else layers[step.of]
    return _with(layers, step.layer, add_heads(layers[step.layer], step.heads, of, step.seed))


@changed.register
def _(step: Cut, layers: tuple[TrainedLayer, ...]) -> tuple[TrainedLayer, ...]:
    _within([step.layer], layers)
    return _with(layers, step.layer, cut(layers[step.layer], step.heads, step.units))


@changed.register
def _(step: Pad, layers: tuple[TrainedLayer, ...]) -> tuple[TrainedLayer, ...]:
    record = padded([layer.record for layer in layers])
    return tuple(pad(layer, record) for layer in layers)


def _with(layers: tuple[TrainedLayer, ...], number: int, new: TrainedLayer) -> tuple[TrainedLayer, ...]:
    return (*layers[:number], new, *layers[number + 1 :])


def _within(numbers: Sequence[int], layers: Sequence[TrainedLayer]) -> None:
    if numbers and max(numbers) >= len(layers):
        raise UserError(f"there is no layer {max(numbers)}: the model has {len(layers)}, counted from 0")
