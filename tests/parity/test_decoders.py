"""Decoders of transformers against ours: outputs and gradients with weights both ways, and the text that both write."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from manyheads.interop.read_hf import from_config
from manyheads.models.build import build
from manyheads.models.generate import Sampling, generate
from manyheads.models.twins import hf_decoders
from manyheads.models.twins.hf_types import MAPS
from manyheads.models.twins.tensors import into
from manyheads.nn.positions import PositionTable
from manyheads.spec.arch import Arch
from tests.interop.hf_types import ROWS

from .harness import agree, randomise
from .hf import in_double, tokens, untied

transformers = pytest.importorskip("transformers", reason="transformers is in the dev extra")

TOKENS = 20
NAMED = {"gemma": hf_decoders.gemma, "gpt_neox": hf_decoders.gpt_neox, "opt": hf_decoders.opt}  # the family's own map
QUICK = ("mistral", "gemma", "gemma2", "gemma3_text", "gpt_neox", "opt", "phi3", "smollm3", "qwen2", "cohere")
CASES = [
    pytest.param(kind, name, marks=[pytest.mark.slow] * (kind not in QUICK), id="-".join(filter(None, (kind, name))))
    for kind in hf_decoders.NAMES
    for name in ("", *ROWS[kind].also)
]


def twin(kind: str, name: str) -> tuple[Any, Arch]:
    """transformers' model of a row of the table, and our record of it."""
    changes = ROWS[kind].also[name] if name else {}
    config = transformers.AutoConfig.for_model(kind, **{**ROWS[kind].config, **changes})
    with in_double():
        model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager").double()
    return model, from_config(config.to_dict() | {"architectures": [type(model).__name__]})


def places(real: Tensor) -> Tensor:
    """Positions that count real tokens."""
    return (real.cumsum(dim=1) - 1).clamp(min=0)


@pytest.mark.filterwarnings("ignore")  # of transformers
@pytest.mark.parametrize("pad", ["", "left"])
@pytest.mark.parametrize(("kind", "name"), CASES)
def test_equals_transformers(kind: str, name: str, pad: str) -> None:
    """Outputs and gradients of transformers' model, in float64; under padding, those of real tokens. The text is longer
    than every window."""
    theirs, arch = twin(kind, name)
    ids, real = tokens(61, 3, TOKENS, pad)

    def call_ours(module: nn.Module) -> Tensor:
        for part in module.modules():  # the harness has randomised these tables too
            if isinstance(part, PositionTable):
                part.reset()
        return module(ids, real, places=places(real))[real] if pad else module(ids).flatten(0, 1)

    def call_twin(module: nn.Module) -> Tensor:
        given = {"attention_mask": real.long(), "position_ids": places(real)} if pad else {}
        with in_double():
            return module(ids, use_cache=False, **given).logits[real]

    label = "_".join(filter(None, (kind, name.replace(" ", "_"), f"padded_{pad}" if pad else "")))
    entries, tied = MAPS[kind].entries(arch), MAPS[kind].tied(arch)
    if kind in NAMED:
        assert NAMED[kind](arch) == entries
    agree(label, f"transformers {type(theirs).__name__}", arch, theirs, entries, call_ours, call_twin, **untied(tied))


@pytest.mark.unchecked  # transformers' cache stands in for ours
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("kind", "name"), CASES)
def test_writes_what_transformers_writes(kind: str, name: str) -> None:
    """Greedily, each with its own cache, over more tokens than a window holds: by our `generate` and, with padding in
    front, by transformers' method of the same name, whose logits agree at every step."""
    door = pytest.importorskip("manyheads.interop.hf", reason="transformers is in the dev extra")
    theirs, arch = twin(kind, name)
    randomise(theirs).eval()
    tied = MAPS[kind].tied(arch)
    state = {at: tensor for at, tensor in theirs.state_dict().items() if at not in tied}
    ours = build(arch).double().eval()
    ours.load_state_dict(into(MAPS[kind].entries(arch), state))
    ids, real = tokens(61, 2, 9, "left")
    how = {"max_new_tokens": 12, "do_sample": False, "eos_token_id": None, "pad_token_id": 0}
    told = {"attention_mask": real.long(), "output_logits": True, "return_dict_in_generate": True}
    with in_double():
        plain = theirs.generate(ids[:1], **how)
        a, b = (model.generate(ids, **how, **told) for model in (theirs, door.wrap(ours)))
    torch.testing.assert_close(torch.stack(b.logits), torch.stack(a.logits), rtol=1e-8, atol=1e-8)
    assert torch.equal(a.sequences, b.sequences)
    assert torch.equal(generate(ours, ids[:1], 12, sampling=Sampling(temperature=0)).ids, plain)
