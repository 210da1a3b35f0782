"""The fields of a Hugging Face `config.json`: each is read by its name, checked, and refused in a sentence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from manyheads.spec.arch import Arch, with_residuals
from manyheads.spec.errors import UserError
from manyheads.spec.field_checks import LARGEST, advice, conforms, shown
from manyheads.spec.parts import Act, Classify, Lm, Mlp, Residual

Config = Mapping[str, Any]
MOST_LAYERS = 100_000
ACTS: dict[str, Act] = {
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "quick_gelu": "quick_gelu",
    "tanh": "tanh",
    "relu": "relu",
    "relu2": "relu_squared",
    "silu": "silu",
    "swish": "silu",
}


def whole(config: Config, *names: str, default: int | None = None) -> int:
    """The whole number under the first of `names` that the configuration has; an error without one and a default."""
    for name in names:
        value = config.get(name)
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise UserError(f"{name} is {shown(value)}; write a whole number from 1 up")
        if value >= LARGEST:
            raise UserError(f"{name} is {shown(value)}; write {advice(value, int)}")
        return value
    if default is None:
        raise UserError(f"the configuration lacks {' (or '.join(names)}{')' * (len(names) - 1)}")
    return default


def layer_count(config: Config, *names: str) -> int:
    """How many layers there are; more than any machine holds are refused before they are listed."""
    depth = whole(config, *names)
    if depth > MOST_LAYERS:
        raise UserError(f"{names[0]} is {depth:,}; write a whole number up to {MOST_LAYERS:,}")
    return depth


def real(config: Config, name: str, default: float) -> float:
    """The number under `name`, or the default."""
    value = config.get(name, default)
    if not conforms(value, float):
        raise UserError(f"{name} is {shown(value)}; write a number")
    return float(value)


def flag(config: Config, name: str, default: bool) -> bool:
    """The truth under `name`, or the default."""
    value = config.get(name)
    if value is not None and not isinstance(value, bool):
        raise UserError(f"{name} is {shown(value)}; write true or false")
    return default if value is None else value


def activation(config: Config, name: str, default: str) -> Act:
    """The activation under `name`; one that manyheads does not build is refused."""
    act = str(config.get(name, default))
    if act not in ACTS:
        raise UserError(f"manyheads has no {name} {act!r}; known: {', '.join(ACTS)}")
    return ACTS[act]


def split_head_dim(config: Config, width: int, heads: int) -> int:
    """head_dim of a model whose code divides the width by the heads."""
    if config.get("head_dim") not in (None, width // heads):
        raise UserError(
            f"transformers' {config['model_type']} ignores head_dim {config['head_dim']} and builds "
            f"{width}//{heads}. Write a manyheads arch.json, where head_dim counts"
        )
    if width % heads:
        raise UserError(
            f"width {width} with {heads} heads: {width}/{heads} is not whole, and "
            f"{config['model_type']} has no head_dim of its own"
        )
    return width // heads


def class_count(config: Config) -> int:
    """How many classes a classifier tells apart."""
    labels = config.get("id2label")
    if labels is not None and not isinstance(labels, Mapping):
        raise UserError(f"id2label is {labels!r}; write a mapping from number to label")
    return len(labels) if labels else whole(config, "num_labels", default=2)


def classifies(config: Config) -> bool:
    """Whether the model is a classifier of sequences."""
    return any("SequenceClassification" in name for name in config.get("architectures") or ())


def with_eps_and_act(arch: Arch, eps: float, act: Act) -> Arch:
    """`arch` with another eps in every norm of layers and head, and another activation in its MLPs."""

    def branch(residual: Residual) -> Residual:
        norm = None if residual.norm is None else replace(residual.norm, eps=eps)
        op = replace(residual.op, act=act) if isinstance(residual.op, Mlp) else residual.op
        return replace(residual, norm=norm, op=op)

    head = arch.head
    if isinstance(head, Classify | Lm) and head.norm is not None:
        head = replace(head, norm=replace(head.norm, eps=eps))
    return replace(with_residuals(arch, branch), head=head)
