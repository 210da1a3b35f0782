"""Which map belongs to which model type of transformers (the `model_type` of a config.json)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from manyheads.spec.arch import Arch

from . import hf_decoders, hf_maps
from .tensors import TwinTensor


def _untied(arch: Arch) -> Mapping[str, str]:
    return {}


@dataclass(frozen=True)
class TwinMap:
    """`entries` maps the tensors of a record's twin; `tied` gives the names there that show another tensor once more,
    each with the name of that tensor."""

    entries: Callable[[Arch], list[TwinTensor]]
    tied: Callable[[Arch], Mapping[str, str]] = _untied


MAPS: dict[str, TwinMap] = {
    "bert": TwinMap(hf_maps.bert, hf_maps.tied_bert),
    "gpt2": TwinMap(hf_maps.gpt2, hf_maps.tied_gpt2),
    "nystromformer": TwinMap(hf_maps.nystromformer),
    "vit": TwinMap(hf_maps.vit),
} | {
    kind: TwinMap(partial(hf_decoders.decoder, names=names), partial(hf_decoders.tied, names=names))
    for kind, names in hf_decoders.NAMES.items()
}
