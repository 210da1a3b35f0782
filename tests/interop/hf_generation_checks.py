"""What transformers' own tests ask of `generate`, written anew: a function for each promise, called with the name of a
family that predicts the next token."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor

from .hf_checks import model_of, near

NEW = 6
PROMPT = torch.tensor([[5, 6, 7, 8], [1, 2, 3, 4]])
PADDED, REAL = torch.tensor([[0, 0, 7, 8], [1, 2, 3, 4]]), torch.tensor([[0, 0, 1, 1], [1, 1, 1, 1]])


def sharp(name: str, **settings: Any) -> Any:
    """A model whose likeliest tokens are not all one."""
    model = model_of(name, **settings)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 2:
                parameter.mul_(3)
    return model


def greedy(model: Any, ids: Tensor = PROMPT, **settings: Any) -> Any:
    """The likeliest tokens."""
    return model.generate(ids, do_sample=False, max_new_tokens=NEW, **settings)


def by_hand(name: str) -> None:
    """Greedy decoding takes the likeliest token, with a cache and without."""
    model, ids = sharp(name), PROMPT
    with torch.no_grad():
        for _ in range(NEW):
            ids = torch.cat((ids, model(ids).logits[:, -1:].argmax(dim=-1)), dim=1)
    for use_cache in (True, False):
        assert torch.equal(greedy(model, use_cache=use_cache), ids)


def arguments(name: str) -> None:
    """`generate` finds the arguments it needs by their names, and refuses a misspelt one."""
    model = sharp(name)
    names = inspect.signature(model.forward).parameters
    assert {"attention_mask", "position_ids", "inputs_embeds", "past_key_values", "logits_to_keep", "kwargs"} <= {
        *names
    }
    with pytest.raises(ValueError, match="atention_mask"):
        greedy(model, atention_mask=REAL)


def sampling_and_beams(name: str) -> None:
    """Samples, beams, sampled beams and several sequences."""
    model = sharp(name)
    for how in (
        {"do_sample": True},
        {"num_beams": 3},
        {"num_beams": 3, "do_sample": True},
        {"num_beams": 4, "num_return_sequences": 2},
        {"do_sample": True, "top_k": 3, "num_return_sequences": 3},
    ):
        out = model.generate(PROMPT, max_new_tokens=NEW, **how)
        assert out.shape == (2 * how.get("num_return_sequences", 1), 4 + NEW)


def everything_left(name: str) -> None:
    """Hidden states, maps, scores and logits of every step."""
    model = sharp(name, attn_implementation="eager")
    out = greedy(
        model,
        return_dict_in_generate=True,
        output_hidden_states=True,
        output_attentions=True,
        output_logits=True,
        output_scores=True,
    )
    layers = len(model.model.blocks)
    assert len(out.logits) == len(out.scores) == len(out.hidden_states) == len(out.attentions) == NEW
    assert all(len(step) == layers + 1 for step in out.hidden_states)
    for number, step in enumerate(out.attentions):
        asking = 4 if number == 0 else 1
        assert [tuple(weights.shape[2:]) for weights in step] == [(asking, 4 + number)] * layers
    whole = model(out.sequences[:, :-1], output_hidden_states=True, output_attentions=True)
    torch.testing.assert_close(
        torch.stack(out.logits, dim=1), whole.logits[:, 3:].float()
    )  # generate computes scores in float32
    near(torch.cat([step[-1] for step in out.hidden_states], dim=1), whole.hidden_states[-1])
    near(out.attentions[-1][0][:, :, 0], whole.attentions[0][:, :, -1])


def assisted(name: str) -> None:
    """A smaller model's drafts, and drafts from the prompt, change nothing."""
    model, drafter = sharp(name), model_of(name)
    expected = greedy(model, PROMPT[:1])
    assert torch.equal(greedy(model, PROMPT[:1], assistant_model=drafter), expected)
    assert torch.equal(greedy(model, PROMPT[:1], assistant_model=model), expected)
    assert torch.equal(greedy(model, PROMPT[:1], prompt_lookup_num_tokens=2), expected)


def from_vectors(name: str) -> None:
    """`inputs_embeds` as a prompt, with a cache and without, and with padding."""
    model = sharp(name)
    vectors = model.get_input_embeddings()(PROMPT)
    for use_cache in (True, False):
        out = model.generate(inputs_embeds=vectors, do_sample=False, max_new_tokens=NEW, use_cache=use_cache)
        assert torch.equal(out, greedy(model)[:, 4:])
    vectors = model.get_input_embeddings()(PADDED)
    out = model.generate(inputs_embeds=vectors, attention_mask=REAL, do_sample=False, max_new_tokens=NEW)
    assert torch.equal(out, greedy(model, PADDED, attention_mask=REAL)[:, 4:])


def without_a_prompt(name: str) -> None:
    """Text from the first token alone."""
    assert sharp(name).generate(bos_token_id=1, do_sample=False, max_new_tokens=NEW).shape == (1, 1 + NEW)


def continued(name: str) -> None:
    """Generation goes on from a cache that was returned."""
    model = sharp(name)
    first = model.generate(PROMPT, do_sample=False, max_new_tokens=2, return_dict_in_generate=True)
    rest = model.generate(
        first.sequences, past_key_values=first.past_key_values, do_sample=False, max_new_tokens=NEW - 2
    )
    assert torch.equal(rest, greedy(model))


def caches(name: str) -> None:
    """A cache of fixed size, one on the host, and a prompt read in pieces, also behind padding."""
    for settings in ({}, {"attn_implementation": "eager"}):
        model = sharp(name, **settings)
        expected = greedy(model, PADDED, attention_mask=REAL)
        for how in ({"cache_implementation": "static"}, {"prefill_chunk_size": 2}, {"cache_implementation": "dynamic"}):
            assert torch.equal(greedy(model, PADDED, attention_mask=REAL, **how), expected), how


def flexible(name: str) -> None:
    """flex_attention generates the same, in a cache of fixed size too."""
    model, flexible = sharp(name), sharp(name, attn_implementation="flex_attention")
    expected = greedy(model, PADDED, attention_mask=REAL)
    for how in ({}, {"cache_implementation": "static"}):
        assert torch.equal(greedy(flexible, PADDED, attention_mask=REAL, **how), expected)


def padding_in_front(name: str) -> None:
    """Logits and text of a padded row are those of the row alone, with positions given or found."""
    model = sharp(name)
    alone = model(PADDED[:1, 2:]).logits[0, -1]
    near(model(PADDED, attention_mask=REAL).logits[0, -1], alone)
    places = (REAL.cumsum(dim=1) - 1).clamp(min=0)
    near(model(PADDED, attention_mask=REAL, position_ids=places).logits[0, -1], alone)
    near(model(PADDED, attention_mask=REAL, use_cache=True).logits[0, -1], alone)
    assert torch.equal(greedy(model, PADDED, attention_mask=REAL)[:1, 2:], greedy(model, PADDED[:1, 2:]))


def kept_logits(name: str) -> None:
    """Logits of the last positions, or of chosen ones, are those of all."""
    model = sharp(name)
    logits = model(PROMPT).logits
    near(model(PROMPT, logits_to_keep=1).logits, logits[:, -1:])
    near(model(PROMPT, logits_to_keep=torch.tensor([0, 2])).logits, logits[:, [0, 2]])


def any_cache(name: str) -> None:
    """The cache holds keys and values as transformers lays them out."""
    model = sharp(name)
    cache = model(PROMPT, use_cache=True).past_key_values
    assert isinstance(cache, transformers.DynamicCache)
    config = model.config
    shape = (2, config.num_key_value_heads, 4, config.head_dim)
    assert [tuple(layer.keys.shape) for layer in cache.layers] == [shape] * len(model.model.blocks)
    assert model(PROMPT, use_cache=False).past_key_values is None


OF_GENERATION: tuple[Callable[[str], None], ...] = (
    by_hand,
    arguments,
    sampling_and_beams,
    everything_left,
    assisted,
    from_vectors,
    without_a_prompt,
    continued,
    caches,
    flexible,
    padding_in_front,
    kept_logits,
    any_cache,
)
