"""GPT-2 against transformers, weights both ways."""

from __future__ import annotations

import pytest

from manyheads.arch.families import gpt2
from manyheads.models.twins import hf_maps

from .harness import agree
from .hf import tokens, untied

transformers = pytest.importorskip("transformers", reason="transformers is in the dev extra")


@pytest.mark.parametrize(
    ("name", "tied", "pad"),
    [
        ("gpt2", True, ""),
        ("gpt2_untied", False, ""),
        ("gpt2_padded_left", True, "left"),
        ("gpt2_padded_right", True, "right"),
    ],
)
def test_equals_transformers(name: str, tied: bool, pad: str) -> None:
    """Outputs and gradients of transformers' model, in float64; under padding, those of real tokens."""
    arch = gpt2(48, 2, 3, 16, 80, vocab=97, tokens=12, positions=16, tied=tied)
    config = transformers.GPT2Config(
        vocab_size=97,
        n_positions=16,
        n_embd=48,
        n_layer=2,
        n_head=3,
        n_inner=80,
        tie_word_embeddings=tied,
        bos_token_id=1,
        eos_token_id=1,
    )
    ids, real = tokens(97, 3, 12, pad)
    agree(
        name,
        "transformers GPT2LMHeadModel",
        arch,
        transformers.GPT2LMHeadModel(config),
        hf_maps.gpt2(arch),
        lambda ours: ours(ids, real if pad else None)[real],
        lambda twin: twin(ids, attention_mask=real.long() if pad else None).logits[real],
        **untied(hf_maps.tied_gpt2(arch)),
    )
