"""BERT against transformers, masked tokens and classes, weights both ways."""

from __future__ import annotations

import pytest
import torch

from manyheads.arch.families import bert
from manyheads.models.twins import hf_maps
from manyheads.spec.parts import Classify

from .harness import agree
from .hf import tokens, untied

transformers = pytest.importorskip("transformers", reason="transformers is in the dev extra")

EPS = 1e-5  # the default, 1e-12, would hide an eps that is left out somewhere
# fmt: off
CONFIG = {
    "vocab_size": 97, "hidden_size": 48, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 80,
    "max_position_embeddings": 16, "type_vocab_size": 2, "layer_norm_eps": EPS, "num_labels": 5,
}
# fmt: on


@pytest.mark.parametrize(
    ("name", "twin", "pad"),
    [
        ("bert", "BertForMaskedLM", ""),
        ("bert_padded", "BertForMaskedLM", "right"),
        ("bert_classify", "BertForSequenceClassification", ""),
        ("bert_classify_padded", "BertForSequenceClassification", "right"),
    ],
)
def test_equals_transformers(name: str, twin: str, pad: str) -> None:
    """Outputs and gradients of transformers' model, in float64; under padding, those of real tokens."""
    classify = twin == "BertForSequenceClassification"
    head = Classify(5, "class", None, hidden=48, act="tanh") if classify else None
    arch = bert(48, 2, 3, 16, 80, vocab=97, tokens=12, positions=16, head=head, eps=EPS)
    ids, real = tokens(97, 3, 12, pad)
    types = torch.randint(2, ids.shape, generator=torch.Generator().manual_seed(6))
    rows = slice(None) if classify else real
    agree(
        name,
        f"transformers {twin}",
        arch,
        getattr(transformers, twin)(transformers.BertConfig(**CONFIG)),
        hf_maps.bert(arch),
        lambda ours: ours(ids, real if pad else None, types)[rows],
        lambda theirs: theirs(ids, attention_mask=real.long() if pad else None, token_type_ids=types).logits[rows],
        **untied(hf_maps.tied_bert(arch)),
    )
