"""Llama and Qwen3 against transformers, weights both ways."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from manyheads.arch.families import llama
from manyheads.models.llama import Llama
from manyheads.models.twins import hf_maps
from manyheads.spec.parts import Rope, RopeLlama3

from .harness import agree
from .hf import in_double, keep_frequencies, tokens, untied

transformers = pytest.importorskip("transformers", reason="transformers is in the dev extra")

PLAIN = {"rope_type": "default", "rope_theta": 10_000.0}
# Trained length 64 and theta 500 put pairs into all three bands: kept, blended, slowed.
STRETCHED = {
    "rope_type": "llama3",
    "rope_theta": 500.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}
BANDS = RopeLlama3(500.0, 8.0, 1.0, 4.0, 64)

# fmt: off
CASES: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {  # name: twin, our settings, the twin's
    "llama": ("Llama", {"rope": Rope(), "tied": False}, {"rope_parameters": PLAIN, "tie_word_embeddings": False}),
    "llama_tied": ("Llama", {"rope": Rope(), "tied": True}, {"rope_parameters": PLAIN, "tie_word_embeddings": True}),
    "llama3_rope": (
        "Llama", {"rope": BANDS, "tied": True}, {"rope_parameters": STRETCHED, "tie_word_embeddings": True},
    ),
    "llama_biases": (
        "Llama", {"rope": Rope(), "tied": True, "qkv_bias": True, "out_bias": True},
        {"rope_parameters": PLAIN, "tie_word_embeddings": True, "attention_bias": True},
    ),
    "qwen3": (
        "Qwen3", {"rope": Rope(1_000_000.0), "tied": True, "qk_norm": True},
        {"rope_parameters": {"rope_type": "default", "rope_theta": 1_000_000.0}, "tie_word_embeddings": True},
    ),
}
# fmt: on


EVERY = [(name, kv_heads, "") for name in CASES for kv_heads in (4, 2)]
PADDED = [("llama3_rope", kv_heads, pad) for kv_heads in (4, 2, 1) for pad in ("left", "right")] + [
    ("qwen3", 2, "left")
]


@pytest.mark.parametrize(("name", "kv_heads", "pad"), EVERY + PADDED)
def test_equals_transformers(name: str, kv_heads: int, pad: str) -> None:
    """Outputs and gradients of transformers' model, in float64, with grouped queries and an inner width (4 x 20) that
    is not the width (48); under padding, those of real tokens."""
    twin, ours, theirs = CASES[name]
    arch = llama(48, 2, 4, 20, 64, kv_heads=kv_heads, vocab=97, tokens=40, eps=1e-5, **ours)
    common = {
        "vocab_size": 97,
        "hidden_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "head_dim": 20,
        "num_key_value_heads": kv_heads,
        "intermediate_size": 64,
        "max_position_embeddings": 64,
        "rms_norm_eps": 1e-5,
    }
    with in_double():
        model = getattr(transformers, f"{twin}ForCausalLM")(getattr(transformers, f"{twin}Config")(**common, **theirs))
        keep_frequencies(model.model.rotary_emb)
    ids, real = tokens(97, 2, 40, pad)

    def call_ours(module: Llama) -> torch.Tensor:
        module.rotary[0].reset()  # the harness has randomised this table too
        return module(ids, real if pad else None)[real]

    def call_twin(module: torch.nn.Module) -> torch.Tensor:
        with in_double():
            return module(ids, attention_mask=real.long() if pad else None, use_cache=False).logits[real]

    label = "_".join(filter(None, (name, f"kv{kv_heads}" if kv_heads < 4 else "", f"padded_{pad}" if pad else "")))
    agree(
        label,
        f"transformers {twin}ForCausalLM",
        arch,
        model,
        hf_maps.llama(arch),
        call_ours,
        call_twin,
        **untied(hf_maps.tied_llama(arch)),
    )
