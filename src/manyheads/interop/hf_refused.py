"""Why a model of transformers cannot be read: the reason for each model type, or the field that shows it."""

from __future__ import annotations

from .hf_fields import Config

STATE = "it mixes tokens by a recurrent state, not by attention"
SPARSE = "each token goes to a few of several MLPs (experts)"
RELATIVE = "its attention scores depend on the distance of two tokens (relative position biases)"
ALIBI = "its attention scores fall linearly with the distance of two tokens (ALiBi)"
TWO = "it is an encoder and a decoder that attends to it"
LATENT = "its keys and values are made from a shared low-rank vector (latent attention)"
CONVOLUTIONS = "it has convolutions in place of attention"
DISENTANGLED = "its attention scores have separate terms for content and position (disentangled attention)"
SHARED = "all its layers share one set of weights"
MIXED = "some of its layers are no attention but recurrences or convolutions"
SEVERAL = "it is several models in one; write the configuration of its language or vision model alone"
# fmt: off
REASONS: dict[str, str] = {
    "albert": SHARED, "bart": TWO, "bloom": ALIBI, "convnext": CONVOLUTIONS, "convnextv2": CONVOLUTIONS,
    "deberta": DISENTANGLED, "deberta-v2": DISENTANGLED, "falcon_mamba": STATE, "mamba": STATE, "mamba2": STATE,
    "mixtral": SPARSE, "mpt": ALIBI, "mt5": RELATIVE, "recurrent_gemma": MIXED, "resnet": CONVOLUTIONS, "rwkv": STATE,
    "t5": RELATIVE, "umt5": RELATIVE, "xlstm": STATE,
}
# fmt: on


def reason(kind: str, config: Config) -> str:
    """Why a model of this type, with this configuration, is not read; "" where nothing is known of the type."""
    if kind in REASONS:
        return REASONS[kind]
    if any(isinstance(config.get(name), int) and config[name] > 1 for name in EXPERTS):
        return SPARSE
    if config.get("kv_lora_rank"):
        return LATENT
    if config.get("is_encoder_decoder") is True:
        return TWO
    if any(name.endswith("_config") and value for name, value in config.items() if name in PARTS):
        return SEVERAL
    return ""


EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts")
PARTS = ("text_config", "vision_config", "audio_config", "decoder_config", "encoder_config")
