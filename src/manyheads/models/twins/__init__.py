"""Where each tensor of a model lives in its twin, the same model in timm or transformers: maps of names, without the
library.

A map is a list of `TwinTensor`; `into` carries a twin's weights here, `back` carries ours there, from the same list.
"""

from __future__ import annotations

# family -> the functions here that map its tensors, FILE.FUNCTION; () where no library has the model, which then is
# compared with a plain implementation or with torch.nn in the tests
TWINS: dict[str, tuple[str, ...]] = {
    "vit": (
        "timm_vit.vit",
        "hf_maps.vit",
        "hf_vision_maps.dinov2",
        "hf_vision_maps.clip_image",
        "hf_vision_maps.siglip_image",
    ),
    "deit": ("timm_vit.vit", "hf_vision_maps.deit"),
    "xcit": ("timm_maps.xcit",),
    "tnt": ("timm_maps.tnt",),
    "volo": ("timm_maps.volo",),
    "davit": ("timm_maps.davit",),
    "crammed_bert": (),
    "bert": (
        "hf_maps.bert",
        "hf_text_maps.roberta",
        "hf_text_maps.distilbert",
        "hf_text_maps.electra",
        "hf_text_maps.clip_text",
        "hf_text_maps.siglip_text",
    ),
    "gpt2": ("hf_maps.gpt2",),
    "llama": ("hf_maps.llama",),
    "gemma": ("hf_decoders.gemma",),
    "gpt_neox": ("hf_decoders.gpt_neox",),
    "opt": ("hf_decoders.opt",),
    "nystromformer": ("hf_maps.nystromformer",),
    "nearest_neighbor": (),
    "stack": (),
}
