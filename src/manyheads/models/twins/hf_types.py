"""Which map belongs to which model type of transformers (the `model_type` of a config.json)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from manyheads.spec.arch import Arch

from . import hf_decoders, hf_maps, hf_text_maps, hf_vision_maps
from .tensors import TwinTensor


def _untied(arch: Arch) -> Mapping[str, str]:
    return {}


@dataclass(frozen=True)
class TwinMap:
    """`entries` maps the tensors of a record's twin; `tied` gives the names there that show another tensor once more,
    each with the name of that tensor."""

    entries: Callable[[Arch], list[TwinTensor]]
    tied: Callable[[Arch], Mapping[str, str]] = _untied


_ROBERTA = TwinMap(hf_text_maps.roberta, hf_text_maps.tied_roberta)
_DINOV2 = TwinMap(hf_vision_maps.dinov2)
_SIGLIP_TEXT = TwinMap(hf_text_maps.siglip_text)
MAPS: dict[str, TwinMap] = {
    "bert": TwinMap(hf_maps.bert, hf_maps.tied_bert),
    "camembert": _ROBERTA,
    "clip_text_model": TwinMap(hf_text_maps.clip_text),
    "clip_vision_model": TwinMap(hf_vision_maps.clip_image),
    "deit": TwinMap(hf_vision_maps.deit),
    "dinov2": _DINOV2,
    "dinov2_with_registers": _DINOV2,
    "distilbert": TwinMap(hf_text_maps.distilbert, hf_text_maps.tied_distilbert),
    "electra": TwinMap(hf_text_maps.electra, hf_text_maps.tied_electra),
    "gpt2": TwinMap(hf_maps.gpt2, hf_maps.tied_gpt2),
    "nystromformer": TwinMap(hf_maps.nystromformer, hf_maps.tied_nystromformer),
    "roberta": _ROBERTA,
    "siglip2_text_model": _SIGLIP_TEXT,
    "siglip_text_model": _SIGLIP_TEXT,
    "siglip_vision_model": TwinMap(hf_vision_maps.siglip_image),
    "vit": TwinMap(hf_maps.vit),
    "xlm-roberta": _ROBERTA,
} | {
    kind: TwinMap(partial(hf_decoders.decoder, names=names), partial(hf_decoders.tied, names=names))
    for kind, names in hf_decoders.NAMES.items()
}
