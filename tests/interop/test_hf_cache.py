"""`generate` with a cache: the tokens of generating without one, at the price of reading each token once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from manyheads.arch.families import gpt2, llama, stories
from manyheads.models.build import build
from manyheads.spec.errors import UserError
from manyheads.spec.parts import Rope

transformers = pytest.importorskip("transformers", reason="transformers is in the hf extra")
door = pytest.importorskip("manyheads.interop.hf", reason="transformers is in the hf extra")

# fmt: off
ARCHS = {
    "gpt2": gpt2(24, 3, 3, 8, 48, vocab=61, tokens=40, positions=40),
    "tinystories": stories(24, 2, 3, 7, 48, vocab=61, tokens=40),
    "llama": llama(24, 2, 3, 8, 48, vocab=61, tokens=40, rope=Rope(10_000.0), tied=False),
    "grouped": llama(24, 2, 4, 8, 48, kv_heads=2, vocab=61, tokens=40, rope=Rope(10_000.0), tied=True, qk_norm=True),
}
# fmt: on
IDS = torch.tensor([[5, 6, 7, 8, 9], [1, 2, 3, 4, 5], [30, 31, 32, 33, 34]])
PADDED = torch.tensor([[0, 0, 0, 8, 9], [1, 2, 3, 4, 5], [0, 31, 32, 33, 34]])
REAL = torch.tensor([[0, 0, 0, 1, 1], [1, 1, 1, 1, 1], [0, 1, 1, 1, 1]])


def sharp_model(name: str) -> Any:
    """A model whose likeliest tokens are not all one: matrices ten times as large as they are drawn."""
    twin = build(ARCHS[name], seed=4).double().eval()
    with torch.no_grad():
        for parameter in twin.parameters():
            if parameter.ndim == 2:
                parameter.mul_(10)
    return door.wrap(twin)


@pytest.mark.parametrize("name", ARCHS)
def test_the_same_tokens_and_logits_as_without_a_cache(name: str) -> None:
    model = sharp_model(name)
    cached, plain = (
        model.generate(
            IDS, max_new_tokens=20, do_sample=False, use_cache=use, output_logits=True, return_dict_in_generate=True
        )
        for use in (True, False)
    )
    assert torch.equal(cached.sequences, plain.sequences)
    assert len(set(cached.sequences[:, 5:].flatten().tolist())) > 5  # something to get wrong
    torch.testing.assert_close(torch.stack(cached.logits), torch.stack(plain.logits), rtol=1e-9, atol=1e-9)
    assert cached.past_key_values.get_seq_length() == 24
    assert plain.past_key_values is None


@pytest.mark.parametrize("name", ARCHS)
def test_padding_in_front_changes_nothing(name: str) -> None:
    model = sharp_model(name)
    batch, plain = (
        model.generate(PADDED, attention_mask=REAL, max_new_tokens=12, do_sample=False, use_cache=use)
        for use in (True, False)
    )
    assert torch.equal(batch, plain)
    for row, real, padded in zip(PADDED, REAL.bool(), batch, strict=True):
        alone = model.generate(row[real][None], max_new_tokens=12, do_sample=False)
        assert torch.equal(padded[5:], alone[0, int(real.sum()) :])


@pytest.mark.parametrize("name", ["gpt2", "llama"])
def test_each_token_is_read_once(name: str) -> None:
    model, read = sharp_model(name), []
    model.model.embed.register_forward_pre_hook(lambda _, args: read.append(args[0].shape[1]))
    model.generate(IDS, max_new_tokens=10, do_sample=False)
    assert read == [5] + [1] * 9
    read.clear()
    model.generate(IDS, max_new_tokens=10, do_sample=False, use_cache=False)
    assert read == list(range(5, 15))


@pytest.mark.parametrize(
    "how",
    [{"num_beams": 3}, {"cache_implementation": "static"}, {"prompt_lookup_num_tokens": 2}, {"prefill_chunk_size": 2}],
    ids=lambda how: next(iter(how)),
)
@pytest.mark.parametrize("name", ["gpt2", "grouped"])
def test_other_ways_to_generate_and_other_caches_give_the_same(name: str, how: dict[str, Any]) -> None:
    model = sharp_model(name)
    ids, mask = (PADDED[:1, 3:], REAL[:1, 3:]) if "prompt_lookup_num_tokens" in how else (PADDED, REAL)
    settings = {"attention_mask": mask, "max_new_tokens": 10, "do_sample": False}
    cached = model.generate(ids, **settings, **how)
    beams = {name: value for name, value in how.items() if name == "num_beams"}
    assert torch.equal(cached, model.generate(ids, **settings, **beams, use_cache=False))


@pytest.mark.parametrize("name", ["gpt2", "grouped"])
def test_a_forward_goes_on_from_what_is_kept(name: str) -> None:
    """In pieces of one and of several tokens: a second prompt, what assisted generation checks."""
    model = sharp_model(name)
    whole = model(IDS).logits
    first = model(IDS[:, :2], use_cache=True)
    then = model(IDS[:, 2:4], past_key_values=first.past_key_values)
    last = model(IDS[:, 4:], past_key_values=then.past_key_values, attention_mask=torch.ones_like(IDS))
    logits = torch.cat((first.logits, then.logits, last.logits), dim=1)
    torch.testing.assert_close(logits, whole, rtol=1e-9, atol=1e-9)
    assert model(IDS).past_key_values is None  # scoring text keeps nothing


def test_a_loaded_folder_generates_with_a_cache(tmp_path: Path) -> None:
    door.export(build(ARCHS["gpt2"], seed=1), tmp_path / "gpt")
    model = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "gpt").eval()
    output = model.generate(IDS, max_new_tokens=4, do_sample=False, return_dict_in_generate=True)
    assert output.past_key_values.get_seq_length() == 8


def test_more_tokens_than_positions_and_masks_that_do_not_fit_are_refused() -> None:
    model = sharp_model("llama")
    assert model.generate(IDS, max_new_tokens=36, do_sample=False).shape == (3, 41)  # the last is written, not read
    with pytest.raises(UserError, match=r"41 tokens, 40 of them in the cache; this model has positions for 40"):
        model.generate(IDS, max_new_tokens=37, do_sample=False)
    past = model(IDS, use_cache=True).past_key_values
    with pytest.raises(UserError, match=r"attention_mask is of shape \(3, 2\); 5 tokens in the cache and 1 new"):
        model(IDS[:, :1], past_key_values=past, attention_mask=torch.tensor([[0, 1]] * 3))


@pytest.mark.parametrize("name", ARCHS)
def test_packed_documents_do_not_leak(name: str) -> None:
    """Another first document changes nothing in the second one, with a cache as without, and none beside itself."""
    model = sharp_model(name)
    ids, other = IDS[:1], torch.tensor([[9, 9, 9, 8, 9]])
    places = torch.tensor([[0, 1, 2, 0, 1]])
    for use_cache in (False, True):
        a, b = (model(x, position_ids=places, use_cache=use_cache).logits[0, 3:] for x in (ids, other))
        assert torch.equal(a, b)
        torch.testing.assert_close(a, model(ids[:, 3:]).logits[0], rtol=1e-9, atol=1e-9)


def test_arguments_that_cannot_be_taken_are_refused_in_a_sentence() -> None:
    model = sharp_model("gpt2")
    vectors = torch.zeros(1, 3, 24, dtype=torch.float64)
    for arguments, message in (
        ({}, "give either input_ids or inputs_embeds"),
        ({"input_ids": IDS, "inputs_embeds": vectors}, "one of both, not two"),
        ({"inputs_embeds": vectors[0]}, r"of shape \(3, 24\); write vectors, batch x tokens x width"),
        ({"inputs_embeds": vectors[..., :9]}, r"of shape \(1, 3, 9\); this model takes batch x tokens x 24"),
        ({"inputs_embeds": vectors.expand(1, 3, 24).repeat(1, 14, 1)}, "42 tokens; this model has positions for 40"),
        ({"input_ids": IDS, "position_ids": IDS[:, :3]}, r"positions are torch.int64 of shape \(3, 3\)"),
        ({"input_ids": IDS, "position_ids": IDS + 38}, "positions run from 39 to 72; this model has positions 0 to 39"),
        ({"input_ids": IDS, "attention_mask": torch.ones(3, 1, 4, 5)}, r"write one of shape \(3, 1, 5, 5\)"),
        ({"input_ids": IDS, "output_attentions": True}, "attn_implementation='eager'"),
        ({"input_ids": IDS, "encoder_hidden_states": vectors}, "no layer attends to another model's tokens"),
        ({"input_ids": IDS, "cu_seq_lens_q": IDS}, "this model divides them by position_ids"),
        ({"input_ids": IDS, "token_type_ids": IDS}, "has other segments than 0, and this model has no segments"),
    ):
        with pytest.raises(UserError, match=message):
            model(**arguments)
