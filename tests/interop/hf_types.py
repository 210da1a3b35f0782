"""Model types of transformers: each is read exactly, or refused with its reason.

To add a row, write its model type in `ROWS` with a small configuration, in the words of transformers' own class (the
keyword arguments of `AutoConfig.for_model`), and `auto`, the Auto class or the class of its own that builds it, unless
that is AutoModelForCausalLM. For a type that is refused, add `refused`: words of the reason. A type that is read needs
its reader in `interop/read_hf_*.py` and its map in `models/twins/hf_types.py`; `test_hf_types.py` then compares the
number of parameters, and with every tensor random the results of both models in float64. `also` holds further
configurations of the type, each by a name and by what it changes. docs/model_types.md is written from the results."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Row:
    """One model type: a small configuration, the Auto class that builds it, and words of the refusal if it is one."""

    config: Mapping[str, Any]
    auto: str = "AutoModelForCausalLM"
    refused: str = ""
    also: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48, "vocab_size": 61}
SHORT = {"max_position_embeddings": 24}
PLAIN = SIZES | SHORT | {"bos_token_id": 1, "eos_token_id": 1, "pad_token_id": 0}
GROUPED = PLAIN | {"num_key_value_heads": 2}
SQUARE = GROUPED | {
    "hidden_size": 36
}  # a root that float32 holds: transformers rounds the scale of Gemma's vectors to it
STILL = dict.fromkeys(("hidden_dropout_prob", "attention_probs_dropout_prob"), 0.0)
IMAGE = {key: SIZES[key] for key in SIZES if key != "vocab_size"} | {"image_size": 32, "patch_size": 8, "num_labels": 7}

# fmt: off
ROWS: dict[str, Row] = {
    # ------------------------------------------------------------------------------------------------------- decoders
    "arcee": Row(GROUPED | {"head_dim": 16}, also={"biases": {"attention_bias": True, "mlp_bias": True}}),
    "biogpt": Row(PLAIN | STILL, also={"unscaled": {"scale_embedding": False}}),
    "cohere": Row(GROUPED, also={"biases": {"attention_bias": True, "logit_scale": 0.5}}),
    "cohere2": Row(GROUPED | {"head_dim": 16, "sliding_window": 5, "num_hidden_layers": 4}),
    "cwm": Row(GROUPED | {"head_dim": 16, "sliding_window": 5}),
    "ernie4_5": Row(GROUPED | {"head_dim": 16}, also={"biases": {"use_bias": True}}),
    "exaone4": Row(GROUPED | {"sliding_window": 5, "num_hidden_layers": 4}, also={
        "no window": {"sliding_window": None, "layer_types": ["full_attention"] * 4}}),
    "gemma": Row(SQUARE | {"head_dim": 16}, also={"biases": {"attention_bias": True}}),
    "gemma2": Row(SQUARE | {"head_dim": 16, "sliding_window": 5, "query_pre_attn_scalar": 9, "num_hidden_layers": 3},
                  also={"uncapped": {"final_logit_softcapping": None, "attn_logit_softcapping": None}}),
    "gemma3_text": Row(SQUARE | {"head_dim": 16, "sliding_window": 5, "num_hidden_layers": 7}, also={
        "stretched": {"rope_parameters": {
            "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e6},
            "sliding_attention": {"rope_type": "default", "rope_theta": 1e4}}},
        "capped": {"final_logit_softcapping": 20.0, "query_pre_attn_scalar": 9}}),
    "glm": Row(GROUPED | {"head_dim": 16}),
    "glm4": Row(GROUPED | {"head_dim": 16}),
    "gpt2": Row({"n_embd": 32, "n_layer": 2, "n_head": 4, "vocab_size": 61, "n_positions": 24}),
    "gpt_bigcode": Row({"n_embd": 32, "n_layer": 2, "n_head": 4, "vocab_size": 61, "n_positions": 24}),
    "gpt_neo": Row({"hidden_size": 32, "num_layers": 2, "num_heads": 4, "vocab_size": 61, "window_size": 5,
                    "max_position_embeddings": 24, "attention_types": [[["global", "local"], 1]]}),
    "gpt_neox": Row(PLAIN | {"rotary_pct": 0.5}, also={
        "one after the other": {"use_parallel_residual": False}, "tied": {"tie_word_embeddings": True}}),
    "gptj": Row({"n_embd": 32, "n_layer": 2, "n_head": 4, "vocab_size": 61, "n_positions": 24, "rotary_dim": 4}),
    "granite": Row(GROUPED | {"embedding_multiplier": 3.0, "logits_scaling": 4.0, "residual_multiplier": 0.5,
                              "attention_multiplier": 0.25}, also={"biases": {"mlp_bias": True, "attention_bias": True}}),
    "helium": Row(GROUPED | {"head_dim": 8}),
    "hyperclovax": Row(GROUPED | {"embedding_multiplier": 3.0, "logits_scaling": 4.0, "residual_multiplier": 0.5},
                       also={"before alone": {"use_post_norm": False, "attention_multiplier": 0.3}}),
    "jais2": Row(GROUPED),
    "llama": Row(GROUPED, also={
        "biases": {"attention_bias": True, "mlp_bias": True}, "tied": {"tie_word_embeddings": True},
        "linear": {"rope_parameters": {"rope_type": "linear", "factor": 4.0, "rope_theta": 1e4}}}),
    "ministral": Row(GROUPED | {"sliding_window": 5, "head_dim": 16}),
    "mistral": Row(GROUPED | {"sliding_window": 5}, also={"no window": {"sliding_window": None}}),
    "nemotron": Row(GROUPED | {"head_dim": 16}, also={"biases": {"mlp_bias": True, "attention_bias": True}}),
    "olmo": Row(GROUPED),
    "olmo2": Row(GROUPED),
    "olmo3": Row(GROUPED | {"sliding_window": 5, "num_hidden_layers": 4}),
    "opt": Row(PLAIN | {"ffn_dim": 48}, also={
        "norms after": {"do_layer_norm_before": False},
        "bare": {"enable_bias": False, "layer_norm_elementwise_affine": False}}),
    "persimmon": Row(PLAIN, also={"no norms": {"qk_layernorm": False}}),
    "phi": Row(GROUPED, also={"norms": {"qk_layernorm": True}}),
    "phi3": Row(GROUPED, also={"window": {"sliding_window": 5}, "partial": {"partial_rotary_factor": 0.5}}),
    "qwen2": Row(GROUPED, also={
        "window": {"use_sliding_window": True, "sliding_window": 5, "max_window_layers": 1, "num_hidden_layers": 3}}),
    "qwen3": Row(GROUPED | {"head_dim": 16}, also={"biases": {"attention_bias": True}}),
    "seed_oss": Row(GROUPED | {"head_dim": 16, "mlp_bias": True}),
    "smollm3": Row(GROUPED | {"num_hidden_layers": 5}, also={
        "window": {"use_sliding_window": True, "sliding_window": 5}, "biases": {"mlp_bias": True, "attention_bias": True}}),
    "stablelm": Row(GROUPED, also={"side by side": {"use_parallel_residual": True, "use_qkv_bias": True}}),
    "starcoder2": Row(GROUPED, also={"window": {"sliding_window": 5}, "bare": {"use_bias": False}}),
    "vaultgemma": Row(SQUARE | {"head_dim": 16, "sliding_window": 5}),
    # ------------------------------------------------------------------------------------------------------- encoders
    "bert": Row(PLAIN | STILL, "AutoModelForMaskedLM", also={"ReLU": {"hidden_act": "relu"}}),
    "camembert": Row(PLAIN | STILL, "AutoModelForMaskedLM"),
    "clip_text_model": Row(PLAIN, "AutoModel"),
    "distilbert": Row({"dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 48, "vocab_size": 61} | SHORT,
                      "AutoModelForMaskedLM"),
    "electra": Row(PLAIN | STILL | {"embedding_size": 32}, "AutoModelForMaskedLM"),
    "roberta": Row(PLAIN | STILL, "AutoModelForMaskedLM", also={"padding 3": {"pad_token_id": 3}}),
    "siglip2_text_model": Row(PLAIN, "Siglip2TextModel"),
    "siglip_text_model": Row(PLAIN, "SiglipTextModel", also={"projection": {"projection_size": 7}}),
    "xlm-roberta": Row(PLAIN | STILL, "AutoModelForMaskedLM"),
    # --------------------------------------------------------------------------------------------------------- images
    "clip_vision_model": Row(IMAGE, "AutoModel"),
    "deit": Row(IMAGE | STILL, "DeiTForImageClassification"),
    "dinov2": Row(IMAGE | STILL | {"mlp_ratio": 2}, "AutoModelForImageClassification", also={
        "gated": {"use_swiglu_ffn": True}, "no mask token": {"use_mask_token": False}}),
    "dinov2_with_registers": Row(IMAGE | STILL | {"mlp_ratio": 2, "num_register_tokens": 3},
                                 "AutoModelForImageClassification"),
    "siglip_vision_model": Row(IMAGE, "AutoModel", also={"no pooler": {"vision_use_head": False}}),
    "vit": Row(IMAGE | STILL, "AutoModelForImageClassification", also={"head_dim": {"head_dim": 16}}),
    # -------------------------------------------------------------------------------------------------------- refused
    "albert": Row(PLAIN, "AutoModelForMaskedLM", "share one set of weights"),
    "apertus": Row(GROUPED, refused="xIELU"),
    "beit": Row(IMAGE, "AutoModelForImageClassification", "relative position biases"),
    "bart": Row({"d_model": 32, "vocab_size": 61}, "AutoModelForSeq2SeqLM", "an encoder and a decoder"),
    "big_bird": Row(PLAIN, "AutoModelForMaskedLM", "a sparse pattern"),
    "bitnet": Row(GROUPED, refused="norms inside attention and MLP"),
    "bloom": Row({"hidden_size": 32, "n_layer": 2, "n_head": 4, "vocab_size": 61}, refused="ALiBi"),
    "clip": Row({}, "AutoModel", "several models in one"),
    "convnext": Row({"image_size": 32}, "AutoModelForImageClassification", "convolutions in place of attention"),
    "ctrl": Row({"n_embd": 32, "vocab_size": 61}, refused="fixed sinusoids"),
    "deberta": Row(PLAIN, "AutoModelForMaskedLM", "content and position"),
    "deberta-v2": Row(PLAIN, "AutoModelForMaskedLM", "content and position"),
    "deepseek_v2": Row(GROUPED, refused="experts|latent attention"),
    "deepseek_v3": Row(GROUPED, refused="experts|latent attention"),
    "diffllama": Row(GROUPED, refused="difference of two softmaxes"),
    "falcon": Row({"hidden_size": 32, "vocab_size": 61}, refused="laid out in a way of its own"),
    "falcon_mamba": Row({"hidden_size": 32, "vocab_size": 61}, refused="a recurrent state"),
    "fnet": Row({"hidden_size": 32, "vocab_size": 61}, "AutoModelForMaskedLM", "Fourier"),
    "funnel": Row({"d_model": 32, "vocab_size": 61}, "AutoModelForMaskedLM", "pools its tokens"),
    "gemma3": Row({}, "AutoModelForImageTextToText", "several models in one"),
    "gemma3n_text": Row({"vocab_size": 61}, refused="several copies"),
    "gpt_oss": Row(GROUPED | {"layer_types": ["full_attention"] * 2}, refused="attention sinks"),
    "granitemoe": Row(GROUPED, refused="experts"),
    "hunyuan_v1_dense": Row(GROUPED | {"head_dim": 8}, refused="after their rotation"),
    "jamba": Row({"vocab_size": 61}, refused="recurrences or convolutions"),
    "lfm2": Row({"vocab_size": 61}, refused="recurrences or convolutions"),
    "llava": Row({}, "AutoModelForImageTextToText", "several models in one"),
    "longformer": Row(PLAIN, "AutoModelForMaskedLM", "a sparse pattern"),
    "mamba": Row({"hidden_size": 32, "num_hidden_layers": 2, "vocab_size": 61}, refused="a recurrent state"),
    "mamba2": Row({"vocab_size": 61}, refused="a recurrent state"),
    "marian": Row({"d_model": 32, "vocab_size": 61}, "AutoModelForSeq2SeqLM", "an encoder and a decoder"),
    "mbart": Row({"d_model": 32, "vocab_size": 61}, "AutoModelForSeq2SeqLM", "an encoder and a decoder"),
    "minicpm3": Row({"vocab_size": 61}, refused="latent attention"),
    "mixtral": Row(GROUPED, refused="several MLPs"),
    "mpt": Row({"d_model": 32, "n_layers": 2, "n_heads": 4, "vocab_size": 61}, refused="ALiBi"),
    "mpnet": Row(PLAIN, "AutoModelForMaskedLM", "relative position biases"),
    "mt5": Row({"d_model": 32, "vocab_size": 61}, "AutoModelForSeq2SeqLM", "relative position biases"),
    "olmoe": Row(GROUPED, refused="experts"),
    "pegasus": Row({"d_model": 32, "vocab_size": 61}, "AutoModelForSeq2SeqLM", "an encoder and a decoder"),
    "phimoe": Row(GROUPED, refused="experts"),
    "qwen2_moe": Row(GROUPED, refused="experts"),
    "qwen2_vl": Row({}, "AutoModelForImageTextToText", "several models in one"),
    "qwen3_moe": Row(GROUPED, refused="experts"),
    "qwen3_next": Row({"vocab_size": 61}, refused="recurrences or convolutions"),
    "recurrent_gemma": Row({"vocab_size": 61}, refused="recurrences or convolutions"),
    "reformer": Row({"vocab_size": 61}, refused="hashes"),
    "resnet": Row({}, "AutoModelForImageClassification", "convolutions in place of attention"),
    "rwkv": Row({"hidden_size": 32, "num_hidden_layers": 2, "vocab_size": 61}, refused="a recurrent state"),
    "siglip": Row({}, "AutoModel", "several models in one"),
    "siglip2_vision_model": Row({}, "AutoModel", "images of any shape"),
    "swin": Row({"image_size": 32}, "AutoModelForImageClassification", "windows are shifted"),
    "t5": Row({"d_model": 32, "vocab_size": 61}, "AutoModelForSeq2SeqLM", "relative position biases"),
    "wav2vec2": Row({}, "AutoModelForCTC", "reads sound"),
    "whisper": Row({"vocab_size": 61}, "AutoModelForSpeechSeq2Seq", "reads sound"),
    "xglm": Row({"vocab_size": 61}, refused="fixed sinusoids"),
    "xlnet": Row({"vocab_size": 61}, refused="relative position biases"),
    "zamba2": Row({"vocab_size": 61}, refused="recurrences or convolutions"),
}
# fmt: on
