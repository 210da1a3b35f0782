"""Nyströmformer against transformers, weights both ways, and what transformers does otherwise.

Its pseudo-inverse starts from one number for the whole batch; the start per matrix, which is ours, is written there but
out of reach: the option meant to select it (`inv_coeff_init_option`) reads a key that no configuration has. The tests
set the attribute behind it. A batch of one sample and one head holds one matrix a layer, and there the two starts are
one."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from manyheads.models.build import build
from manyheads.models.twins import hf_maps
from manyheads.models.twins.tensors import into
from manyheads.spec.arch import Arch
from manyheads.spec.parts import Attention, Classify, Mlp, Norm, Nystrom, Residual, Stage, Token

from .harness import agree, randomise
from .hf import tokens

transformers = pytest.importorskip("transformers", reason="transformers is in the dev extra")

NORM = Norm(eps=1e-5)


def record(heads: int, head_dim: int, length: int, landmarks: int, conv: int) -> Arch:
    attention = Attention(heads, head_dim, mix=Nystrom(landmarks, conv=conv))
    layer = (Residual(attention, NORM, "post"), Residual(Mlp(40, "gelu_tanh"), NORM, "post"))
    stage = Stage(24, length, 2, (layer,))
    head = Classify(5, "class", None, hidden=24, act="gelu_tanh")
    return Arch("nystromformer", Token(97, 60, types=2, norm=NORM), (stage,), head)


def twin(arch: Arch, *, per_matrix: bool = True) -> nn.Module:
    attention, length = arch.stages[0].unit[0][0].op, arch.stages[0].tokens
    config = transformers.NystromformerConfig(
        vocab_size=97,
        hidden_size=24,
        num_hidden_layers=2,
        num_attention_heads=attention.heads,
        intermediate_size=40,
        max_position_embeddings=60,
        segment_means_seq_len=length,
        num_landmarks=attention.mix.landmarks,
        conv_kernel_size=attention.mix.conv,
        num_labels=5,
        pad_token_id=0,
    )
    model = transformers.NystromformerForSequenceClassification(config)
    for layer in model.nystromformer.encoder.layer:
        layer.attention.self.init_option = "per matrix" if per_matrix else "original"
    return model


@pytest.mark.parametrize(
    ("name", "arch", "batch", "pad", "per_matrix"),
    [
        ("nystromformer", record(3, 8, 48, 12, 7), 3, "", True),
        ("nystromformer_one_matrix", record(1, 24, 48, 12, 7), 1, "", False),
        ("nystromformer_exact", record(2, 12, 16, 16, 5), 3, "", True),
        ("nystromformer_exact_padded", record(2, 12, 16, 16, 1), 3, "right", True),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_equals_transformers(name: str, arch: Arch, batch: int, pad: str, per_matrix: bool) -> None:
    """Outputs and gradients in float64. Padding is compared where transformers takes it: with as many landmarks as
    tokens, and a filter of one tap, because its filter also reads what stands at the padding."""
    ids, real = tokens(97, batch, arch.stages[0].tokens, pad)
    types = torch.randint(2, ids.shape, generator=torch.Generator().manual_seed(6))
    agree(
        name,
        "transformers NystromformerForSequenceClassification",
        arch,
        twin(arch, per_matrix=per_matrix),
        hf_maps.nystromformer(arch),
        lambda ours: ours(ids, real if pad else None, types),
        lambda theirs: theirs(ids, attention_mask=real.long() if pad else None, token_type_ids=types).logits,
    )


def test_in_transformers_a_sample_depends_on_its_batch_and_here_it_does_not() -> None:
    arch = record(3, 8, 48, 12, 7)
    theirs = randomise(twin(arch, per_matrix=False)).eval()
    ours = build(arch).double().eval()
    ours.load_state_dict(into(hf_maps.nystromformer(arch), theirs.state_dict()))
    ids, _ = tokens(97, 4, 48)
    with torch.no_grad():
        alone, together = theirs(ids[:1]).logits, theirs(ids).logits[:1]
        assert (alone - together).abs().max() > 1e-4
        assert (ours(ids[:1]) - ours(ids)[:1]).abs().max() < 1e-12


def test_transformers_refuses_a_padded_batch_and_here_it_runs() -> None:
    """Its mask is tokens x tokens, its scores landmarks x tokens."""
    arch = record(3, 8, 48, 12, 7)
    ids, real = tokens(97, 3, 48, "right")
    with pytest.raises(RuntimeError, match="must match"):
        twin(arch)(ids, attention_mask=real.long())
    assert build(arch)(ids, real).isfinite().all()


def test_the_rows_before_position_0_are_kept_out_and_come_back_empty() -> None:
    arch = record(3, 8, 48, 12, 7)
    [entry] = [e for e in hf_maps.nystromformer(arch) if e.ours == "embed.positions.weight"]
    table = torch.randn(62, 24)
    ours = entry.how.into([table])
    assert torch.equal(ours, table[2:])
    [theirs] = entry.how.back(ours)
    assert torch.equal(theirs[2:], table[2:])
    assert not theirs[:2].any()
