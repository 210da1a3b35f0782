"""Where each tensor of a model lives in its twin, the same model in timm or transformers: maps of names, without the
library.

A map is a list of `TwinTensor`; `into` carries a twin's weights here, `back` carries ours there, from the same list.
"""

from __future__ import annotations

# family -> the files here that map its tensors; () where no library has the model, which then is compared with a plain
# implementation or with torch.nn in the tests
TWINS: dict[str, tuple[str, ...]] = {
    "vit": ("timm_vit", "hf_vit"),
    "deit": ("timm_vit",),
    "xcit": ("timm_xcit",),
    "tnt": ("timm_tnt",),
    "volo": ("timm_volo",),
    "davit": ("timm_davit",),
    "crammed_bert": (),
    "bert": ("hf_bert",),
    "gpt2": ("hf_gpt2",),
    "llama": ("hf_llama",),
    "nystromformer": ("hf_nystromformer",),
    "nearest_neighbor": (),
    "stack": (),
}
