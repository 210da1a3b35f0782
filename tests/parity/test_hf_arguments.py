"""transformers' arguments mean here what they mean to its own models: positions, packed documents, vectors in place of
ids, masks of queries and keys, hidden states element by element, attention maps; outputs and gradients in float64."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch
from torch import Tensor

from manyheads.arch.families import bert, gpt2, llama
from manyheads.models.build import build
from manyheads.models.twins import hf_maps
from manyheads.models.twins.tensors import TwinTensor, into
from manyheads.spec.arch import Arch
from manyheads.spec.errors import UserError
from manyheads.spec.parts import Rope

from .harness import randomise
from .hf import in_double, keep_frequencies
from .test_nystromformer import record, twin

transformers = pytest.importorskip("transformers", reason="transformers is in the dev extra")
door = pytest.importorskip("manyheads.interop.hf", reason="transformers is in the dev extra")

Made = tuple[Arch, Any, list[TwinTensor], Mapping[str, str]]  # our record, their model, the map, its tied names
SIZES = {"vocab_size": 61, "hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 3}
DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
TOKENS, ROWS = 12, 2


def _gpt2() -> Made:
    arch = gpt2(24, 2, 3, 8, 48, vocab=61, tokens=16, positions=16)
    config = transformers.GPT2Config(
        vocab_size=61, n_positions=16, n_embd=24, n_layer=2, n_head=3, n_inner=48, bos_token_id=1, eos_token_id=1
    )
    return arch, transformers.GPT2LMHeadModel(config), hf_maps.gpt2(arch), hf_maps.tied_gpt2(arch)


def _llama() -> Made:
    arch = llama(24, 2, 4, 6, 48, kv_heads=2, vocab=61, tokens=16, rope=Rope(10_000.0), tied=False)
    config = transformers.LlamaConfig(
        **SIZES | {"num_attention_heads": 4}, intermediate_size=48, num_key_value_heads=2, max_position_embeddings=16
    )
    with in_double():
        twin = transformers.LlamaForCausalLM(config).double()
    keep_frequencies(twin.model.rotary_emb)
    return arch, twin, hf_maps.llama(arch), {}


def _bert() -> Made:
    arch = bert(24, 2, 3, 8, 48, vocab=61, tokens=16, positions=16, types=2)
    config = transformers.BertConfig(**SIZES, **DROPOUT, intermediate_size=48, max_position_embeddings=16)
    return arch, transformers.BertForMaskedLM(config), hf_maps.bert(arch), hf_maps.tied_bert(arch)


def _nystromformer() -> Made:
    arch = record(3, 8, TOKENS, 4, 3)
    return arch, twin(arch), hf_maps.nystromformer(arch), {}


MODELS: dict[str, Callable[[], Made]] = {"gpt2": _gpt2, "llama": _llama, "bert": _bert, "nystromformer": _nystromformer}
FIRST = {"nystromformer": 2}  # transformers' first position there, since its table starts at 2
PACKED = torch.tensor([[0, 1, 2, 3, 4, 0, 1, 2, 0, 1, 2, 3], [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1]])
SPREAD = torch.tensor([[0, 2, 3, 5, 6, 7, 8, 9, 10, 12, 13, 15], [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 14]])


def seen(causal: bool) -> Tensor:
    """A random mask of queries and keys in which each query sees itself."""
    dice = torch.Generator().manual_seed(3)
    mask = (torch.rand(ROWS, 1, TOKENS, TOKENS, generator=dice) < 0.6) | torch.eye(TOKENS, dtype=torch.bool)
    return mask.tril() if causal else mask


def added(mask: Tensor) -> Tensor:
    """The same as numbers that are added to the scores."""
    return torch.zeros(mask.shape, dtype=torch.float64).masked_fill(~mask, torch.finfo(torch.float64).min)


def arguments(name: str, case: str, vectors: Tensor) -> dict[str, Any]:
    """What a case hands to both models."""
    ids = torch.randint(1, 61, (ROWS, TOKENS), generator=torch.Generator().manual_seed(5))
    causal = name in ("gpt2", "llama")
    ones = torch.ones(ROWS, TOKENS, dtype=torch.long)
    match case:
        case "positions":
            return {"input_ids": ids, "position_ids": SPREAD, "attention_mask": ones}
        case "packed documents":
            return {"input_ids": ids, "position_ids": PACKED}
        case "vectors":
            return {"inputs_embeds": vectors}
        case "mask of pairs":
            return {"input_ids": ids, "attention_mask": seen(causal)}
        case "added mask of pairs":
            return {"input_ids": ids, "attention_mask": added(seen(causal))}
    return {"input_ids": ids}


CASES = ("plain", "positions", "packed documents", "vectors", "mask of pairs", "added mask of pairs")


@pytest.mark.parametrize("how", ["sdpa", "eager"])
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("name", MODELS)
def test_the_arguments_mean_what_they_mean_to_transformers(name: str, case: str, how: str) -> None:
    """Logits, each hidden state, each attention map, and the gradient of every parameter."""
    arch, theirs, entries, tied = MODELS[name]()
    randomise(theirs).eval().set_attn_implementation(how)
    state = {at: tensor for at, tensor in theirs.state_dict().items() if at not in tied}
    ours = door.wrap(build(arch).double()).eval()
    ours.model.load_state_dict(into(entries, state), strict=False)
    vectors = torch.randn(ROWS, TOKENS, 24, dtype=torch.float64, generator=torch.Generator().manual_seed(8))
    given = arguments(name, case, vectors)
    maps = how == "eager" and name != "nystromformer"
    if name == "nystromformer" and "mask" in case:
        with pytest.raises(UserError, match="Nyström attention never forms that map"):
            ours(**given)
        return
    ours.set_attn_implementation(how)
    a = ours(**given, output_hidden_states=True, output_attentions=maps)
    if "position_ids" in given:
        given["position_ids"] = given["position_ids"] + FIRST.get(name, 0)
    if name in ("gpt2", "llama"):
        given["use_cache"] = False  # transformers divides documents only where it makes no cache
    if case == "mask of pairs" and how == "eager":  # transformers would add True to a score as 1
        given["attention_mask"] = added(given["attention_mask"])
    with in_double():
        b = theirs(**given, output_hidden_states=True, output_attentions=maps)
    close(a.logits, b.logits)
    assert len(a.hidden_states) == len(b.hidden_states)
    for mine, its in zip(a.hidden_states, b.hidden_states, strict=True):
        close(mine, its)
    for mine, its in zip(a.attentions or (), b.attentions or (), strict=True):
        close(mine, its)
    probe = torch.randn(a.logits.shape, generator=torch.Generator().manual_seed(7), dtype=torch.float64)
    (a.logits * probe).sum().backward()
    with in_double():
        (b.logits * probe).sum().backward()
    grads = {at: p.grad for at, p in theirs.named_parameters()}
    for entry in entries:
        gradient = ours.model.get_parameter(entry.ours).grad
        gradient = torch.zeros_like(ours.model.get_parameter(entry.ours)) if gradient is None else gradient
        for left, at in zip(entry.how.back(gradient), entry.theirs, strict=True):
            close(left, torch.zeros_like(left) if grads[at] is None else grads[at])


def close(a: Tensor, b: Tensor) -> None:
    """Equal but for the rounding of float64."""
    torch.testing.assert_close(a, b, rtol=1e-8, atol=1e-8)
