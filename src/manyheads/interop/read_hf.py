"""A Hugging Face `config.json` as a record, without importing transformers.

A key means here what it means to transformers. A part that a record cannot describe is refused by name. The model types
are read in `read_hf_language`, `read_hf_encoders` and `read_hf_vision`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from manyheads.spec.arch import Arch
from manyheads.spec.errors import UserError
from manyheads.spec.field_checks import shown

from . import read_hf_decoders, read_hf_encoders, read_hf_language, read_hf_vision
from .hf_fields import Config
from .hf_refused import reason
from .read_hf_encoders import beside_the_head

READERS = read_hf_language.READERS | read_hf_decoders.READERS | read_hf_encoders.READERS | read_hf_vision.READERS
# keys for which a record has no field, and the only value that is supported
# fmt: off
UNSUPPORTED: dict[str, Any] = {
    "is_decoder": False, "add_cross_attention": False,
    "scale_attn_by_inverse_layer_idx": False, "position_embedding_type": "absolute",
}
# fmt: on


def from_config(config: Config) -> Arch:
    """The record of a transformers model from its configuration."""
    if not isinstance(config, Mapping):
        raise UserError(f"config is {shown(config)}; write the object of a config.json, with a model_type")
    kind = str(config.get("model_type", ""))
    if kind not in READERS:
        why = reason(kind, config)
        raise UserError(
            f"manyheads cannot describe a model of type {kind!r}: {why}"
            if why
            else f"model_type {kind!r} is not one manyheads reads; those are {', '.join(sorted(READERS))}"
        )
    reader, heads = READERS[kind]
    classes = config.get("architectures") or []
    if not isinstance(classes, list) or not all(isinstance(name, str) for name in classes):
        raise UserError(f"architectures is {classes!r}; write a list of class names")
    for name in classes:
        if name.endswith("ForPreTraining") and kind == "bert":
            raise UserError(beside_the_head(config, name))
        if not name.endswith(heads):
            raise UserError(
                f"architectures names {name}; manyheads reads {', '.join('*' + h for h in heads)} of model_type {kind}"
            )
    for name, plain in UNSUPPORTED.items():
        if config.get(name, plain) not in (plain, None):
            raise UserError(
                f"manyheads does not build models with {name} {config[name]!r}; only {plain!r} is supported"
            )
    return reader(config)
