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
ANY_SHAPE = "it reads images of any shape, cut into patches beforehand"
SEVERAL = "it is several models in one; write the configuration of its language or vision model alone"
SINKS = "each of its heads has a learned score beside those of the keys (attention sinks)"
SINUSOIDS = "it adds fixed sinusoids as positions, without the learned scale that a record has"
SOUND = "it reads sound, and a record describes models of images, text and points"
SHIFTED = "its windows are shifted from layer to layer, and its scores have relative position biases"
PATTERN = "its attention follows a sparse pattern with tokens that all others see"
# fmt: off
REASONS: dict[str, str] = {
    "albert": SHARED, "bamba": MIXED, "bart": TWO, "bloom": ALIBI, "convnext": CONVOLUTIONS, "convnextv2": CONVOLUTIONS,
    "ctrl": SINUSOIDS, "deberta": DISENTANGLED, "deberta-v2": DISENTANGLED, "efficientnet": CONVOLUTIONS,
    "falcon_h1": MIXED, "falcon_mamba": STATE, "gpt_oss": SINKS, "granite_swa": SINKS, "granitemoehybrid": MIXED,
    "hubert": SOUND, "jamba": MIXED, "lfm2": MIXED, "longformer": PATTERN, "longt5": RELATIVE, "mamba": STATE,
    "mamba2": STATE, "mixtral": SPARSE, "mobilenet_v2": CONVOLUTIONS, "mpt": ALIBI, "mt5": RELATIVE, "nemotron_h": MIXED,
    "olmo_hybrid": MIXED, "qwen3_next": MIXED, "recurrent_gemma": MIXED, "regnet": CONVOLUTIONS, "resnet": CONVOLUTIONS,
    "rwkv": STATE, "swin": SHIFTED, "swinv2": SHIFTED, "t5": RELATIVE, "umt5": RELATIVE, "wav2vec2": SOUND,
    "whisper": SOUND, "xglm": SINUSOIDS, "xlnet": RELATIVE, "xlstm": STATE, "zamba": MIXED, "zamba2": MIXED,
    "apertus": "the activation of its MLP (xIELU) has learned numbers",
    "beit": RELATIVE, "big_bird": PATTERN, "mpnet": RELATIVE, "siglip2_vision_model": ANY_SHAPE,
    "bitnet": "it has norms inside attention and MLP, before their last matrices",
    "diffllama": "its attention is the difference of two softmaxes",
    "falcon": "its matrix of queries, keys and values is laid out in a way of its own for each size",
    "fnet": "it mixes tokens by Fourier transforms, not by attention",
    "funnel": "it pools its tokens between layers, and its scores have relative position biases",
    "gemma3n_text": "its residual stream has several copies, and each layer adds vectors of its own for the tokens",
    "hunyuan_v1_dense": "it norms queries and keys after their rotation, not before",
    "llama4_text": "its attention is cut into chunks, and its scores are scaled by the position",
    "ministral3": "its queries are scaled by their position",
    "perceiver": "a fixed number of learned vectors attends to the tokens",
    "poolformer": "it mixes tokens by pooling, not by attention",
    "reformer": "its attention groups tokens by hashes of their vectors",
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
