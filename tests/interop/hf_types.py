"""Model types of transformers: each is read exactly, or refused with its reason.

To add a row, write its model type in `ROWS` with a small configuration, in the words of transformers' own class (the
keyword arguments of `AutoConfig.for_model`), and `auto`, the Auto class that builds it, unless that is
AutoModelForCausalLM. For a type that is refused, add `refused`: words of the reason. A type that is read needs its
reader in `interop/read_hf_*.py` and its map in `models/twins/hf_types.py`; `test_hf_types.py` then compares the number
of parameters, and with every tensor random the results of both models in float64. `also` holds further configurations
of the type, each by a name and by what it changes. docs/model_types.md is written from the results."""

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
STILL = dict.fromkeys(("hidden_dropout_prob", "attention_probs_dropout_prob"), 0.0)
IMAGE = {key: SIZES[key] for key in SIZES if key != "vocab_size"} | {"image_size": 32, "patch_size": 8, "num_labels": 7}

# fmt: off
ROWS: dict[str, Row] = {
    # ------------------------------------------------------------------------------------------------------- decoders
    "gpt2": Row({"n_embd": 32, "n_layer": 2, "n_head": 4, "vocab_size": 61, "n_positions": 24}),
    "llama": Row(GROUPED, also={"biases": {"attention_bias": True}, "tied": {"tie_word_embeddings": True}}),
    "mistral": Row(GROUPED | {"sliding_window": None}),
    "qwen2": Row(GROUPED),
    "qwen3": Row(GROUPED | {"head_dim": 16}),
    # ------------------------------------------------------------------------------------------------------- encoders
    "bert": Row(PLAIN | STILL, "AutoModelForMaskedLM"),
    # --------------------------------------------------------------------------------------------------------- images
    "vit": Row(IMAGE | STILL, "AutoModelForImageClassification"),
    # -------------------------------------------------------------------------------------------------------- refused
    "albert": Row(PLAIN, "AutoModelForMaskedLM", "share one set of weights"),
    "bart": Row({"d_model": 32, "vocab_size": 61}, "AutoModelForSeq2SeqLM", "an encoder and a decoder"),
    "bloom": Row({"hidden_size": 32, "n_layer": 2, "n_head": 4, "vocab_size": 61}, refused="ALiBi"),
    "convnext": Row({"image_size": 32}, "AutoModelForImageClassification", "convolutions in place of attention"),
    "deberta": Row(PLAIN, "AutoModelForMaskedLM", "content and position"),
    "deberta-v2": Row(PLAIN, "AutoModelForMaskedLM", "content and position"),
    "mamba": Row({"hidden_size": 32, "num_hidden_layers": 2, "vocab_size": 61}, refused="a recurrent state"),
    "mixtral": Row(GROUPED, refused="several MLPs"),
    "mpt": Row({"d_model": 32, "n_layers": 2, "n_heads": 4, "vocab_size": 61}, refused="ALiBi"),
    "mt5": Row({"d_model": 32, "vocab_size": 61}, "AutoModelForSeq2SeqLM", "relative position biases"),
    "rwkv": Row({"hidden_size": 32, "num_hidden_layers": 2, "vocab_size": 61}, refused="a recurrent state"),
    "t5": Row({"d_model": 32, "vocab_size": 61}, "AutoModelForSeq2SeqLM", "relative position biases"),
}
# fmt: on
