"""Generation: a cache changes the cost and nothing else; sampling is what it says; its memory is counted."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from manyheads.arch.count import kv_bytes
from manyheads.arch.families import gpt2, llama
from manyheads.arch.redesign import redesign
from manyheads.models.build import build
from manyheads.models.generate import Reader, Sampling, generate
from manyheads.models.twins import hf_maps
from manyheads.models.twins.tensors import into
from manyheads.nn.cache import Cache
from manyheads.spec.errors import UserError
from manyheads.spec.parts import Rope

from .language import BOTH_WAYS, CAUSAL, TOKENS, VOCAB

GREEDY = Sampling(temperature=0)


def prompt(batch: int = 2, length: int = 5) -> Tensor:
    """Random token ids."""
    return torch.randint(VOCAB, (batch, length), generator=torch.Generator().manual_seed(3))


@pytest.mark.parametrize("name", CAUSAL)
def test_with_a_cache_every_token_sees_what_it_would_without(name: str) -> None:
    model = build(CAUSAL[name], seed=0).double().eval()
    ids = prompt(3, TOKENS)
    whole = model.features(ids)
    for cuts in ((1,) * TOKENS, (5, 1, 1, 4, 1, 4), (TOKENS,)):
        cache, parts = Cache(len(model.blocks), TOKENS, torch.device("cpu")), []
        for part in ids.split(cuts, dim=1):
            parts.append(model.features(part, cache=cache))
            cache.advance(part.shape[1])
        torch.testing.assert_close(torch.cat(parts, dim=1), whole, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", CAUSAL)
def test_cached_and_uncached_write_the_same_text_also_beyond_the_positions(name: str) -> None:
    model = build(CAUSAL[name], seed=0).double()
    for sampling in (GREEDY, Sampling(seed=4), Sampling(top_k=5, top_p=0.9)):
        found, plain = (generate(model, prompt(), 40, sampling=sampling, cached=cached) for cached in (True, False))
        assert torch.equal(found.ids, plain.ids)
        assert found.ids.shape == (2, 45)
        assert torch.equal(found.ids[:, :5], prompt())
    assert (plain.cache_bytes, found.new) == (0, 40)
    assert model.training


@pytest.mark.parametrize(
    "way", [{"heads": 8, "policy": "fixed"}, {"heads": 6, "kv_heads": 3}, {"heads": 6, "kv_heads": 1}]
)
def test_the_cache_takes_the_bytes_of_the_closed_form(way: dict) -> None:
    for name in ("gpt2", "llama"):
        arch = redesign(CAUSAL[name], **way)
        found = generate(build(arch, seed=0), prompt(3), 11, sampling=GREEDY)
        assert found.cache_bytes == 3 * TOKENS * kv_bytes(arch, 4)  # 5 + 11 tokens are the room there is
        half = generate(build(arch, seed=0).bfloat16(), prompt(3), 3, sampling=GREEDY)
        assert half.cache_bytes == 3 * 8 * kv_bytes(arch, 2)


def test_shared_keys_are_not_repeated() -> None:
    """The queries of a group are stacked instead; the answer is that of repeated keys."""
    model = build(redesign(CAUSAL["llama"], heads=6, kv_heads=2), seed=0).double().eval()
    reader = Reader(model, TOKENS, cached=True, capture=False)
    reader(prompt())
    assert reader.cache.layers[0].keys.shape[1] == 2
    again = torch.cat((prompt(), prompt(length=1)), dim=1)
    want = model(again)[:, -1]
    torch.testing.assert_close(reader(prompt(length=1)), want, rtol=0, atol=1e-12)


@pytest.mark.parametrize("twin", ["gpt2", "llama"])
def test_writes_what_transformers_writes(twin: str) -> None:
    transformers = pytest.importorskip("transformers", reason="transformers is in the dev extra")
    common = {"vocab_size": VOCAB, "bos_token_id": 1, "eos_token_id": None, "pad_token_id": 0}
    if twin == "gpt2":
        arch = gpt2(32, 2, 4, 8, 64, vocab=VOCAB, tokens=32, positions=32)
        config = transformers.GPT2Config(n_positions=32, n_embd=32, n_layer=2, n_head=4, n_inner=64, **common)
        theirs, entries = transformers.GPT2LMHeadModel(config), hf_maps.gpt2(arch)
    else:
        arch = llama(32, 2, 4, 8, 64, kv_heads=2, vocab=VOCAB, tokens=32, rope=Rope(), tied=False)
        config = transformers.LlamaConfig(
            hidden_size=32,
            intermediate_size=64,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            max_position_embeddings=32,
            tie_word_embeddings=False,
            **common,
        )
        theirs, entries = transformers.LlamaForCausalLM(config), hf_maps.llama(arch)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.add_(0.3 * torch.randn(parameter.shape, generator=generator))  # so that answers differ
    ours = build(arch)
    kept = {name for entry in entries for name in entry.theirs}  # a tied head is named twice
    ours.load_state_dict(into(entries, {name: value for name, value in theirs.state_dict().items() if name in kept}))
    told = theirs.eval().generate(prompt(), max_new_tokens=20, do_sample=False, use_cache=True)
    assert torch.equal(generate(ours, prompt(), 20, sampling=GREEDY).ids, told)
    assert len(told[:, 5:].unique()) > 3


def test_stops_where_every_row_has_stopped_and_fills_up() -> None:
    model = build(CAUSAL["gpt2"], seed=0)
    free = generate(model, prompt(4), 11, sampling=Sampling(seed=1)).ids[:, 5:]
    stop = int(free[0, 3])
    found = generate(model, prompt(4), 11, sampling=Sampling(seed=1), stop=stop)
    for mine, plain in zip(found.ids[:, 5:], free, strict=True):
        at = (plain == stop).nonzero()
        length = int(at[0]) + 1 if len(at) else len(plain)
        shown = min(length, found.new)
        assert torch.equal(mine[:shown], plain[:shown])
        assert (mine[shown:] == stop).all()


def test_the_same_seed_draws_the_same_and_another_draws_another() -> None:
    model = build(CAUSAL["qwen3"], seed=0)
    first, same, other = (generate(model, prompt(), 11, sampling=Sampling(1.0, seed=seed)).ids for seed in (5, 5, 6))
    assert torch.equal(first, same)
    assert not torch.equal(first, other)


def test_top_k_and_top_p_keep_the_likeliest_and_draw_by_chance() -> None:
    chances = torch.tensor([0.5, 0.25, 0.15, 0.06, 0.04]).repeat(20_000, 1)
    dice = torch.Generator().manual_seed(0)

    def drawn(**fields: float) -> list[float]:
        return (
            torch.bincount(Sampling(**{"temperature": 1.0} | fields).draw(chances.log(), dice)[:, 0], minlength=5)
            / 20_000
        ).tolist()

    assert drawn() == pytest.approx([0.5, 0.25, 0.15, 0.06, 0.04], abs=0.012)
    assert drawn(top_k=2) == pytest.approx([2 / 3, 1 / 3, 0, 0, 0], abs=0.012)
    assert drawn(top_p=0.6) == pytest.approx([2 / 3, 1 / 3, 0, 0, 0], abs=0.012)
    assert drawn(top_p=0.01) == [1, 0, 0, 0, 0]
    assert drawn(top_p=5e-324) == drawn(temperature=5e-324) == drawn(temperature=1e-40) == [1, 0, 0, 0, 0]
    assert drawn(temperature=0.5) == pytest.approx(
        [x / 0.3427 for x in (0.25, 0.0625, 0.0225, 0.0036, 0.0016)], abs=0.02
    )
    assert drawn(temperature=0) == [1, 0, 0, 0, 0]


@pytest.mark.unchecked
def test_what_cannot_be_generated_is_told() -> None:
    model = build(CAUSAL["gpt2"], seed=0)
    for given, words in [
        ({"prompt": prompt(length=17), "new": 1}, r"\(2, 17\); .* 1 to 16"),
        ({"prompt": prompt()[0], "new": 1}, r"\(5,\)"),
        ({"prompt": prompt(), "new": 0}, "0 tokens"),
        ({"prompt": prompt() + VOCAB, "new": 1}, "vocabulary"),
    ]:
        with pytest.raises(UserError, match=words):
            generate(model, **given)
    with pytest.raises(UserError, match="writes no text"):
        generate(build(BOTH_WAYS["bert"]), prompt(), 1)
    for fields in ({"temperature": -1}, {"top_k": -1}, {"top_p": 0}):
        with pytest.raises(UserError, match="write"):
            Sampling(**fields)


@pytest.mark.gpu
@pytest.mark.parametrize("name", CAUSAL)
def test_a_replayed_graph_writes_the_same_text(name: str) -> None:
    model = build(CAUSAL[name], seed=0).cuda()
    for sampling in (GREEDY, Sampling(seed=4)):
        found = [
            generate(model, prompt().cuda(), 40, sampling=sampling, capture=capture).ids for capture in (True, False)
        ]
        assert torch.equal(*found)
