"""Language models: counted, initialised as their originals, trainable in every redesign, blind to future and
padding."""

from __future__ import annotations

import random
from dataclasses import fields

import pytest
import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from manyheads.arch import zoo
from manyheads.arch.count import forward_flops, params
from manyheads.arch.redesign import redesign
from manyheads.models.build import build, groups
from manyheads.models.twins import hf_maps
from manyheads.spec.arch import Arch
from manyheads.spec.errors import UserError

from ..parity import plain, plain_maps
from .language import ALL, BOTH_WAYS, CAUSAL, CLASSIFIERS, TOKENS, VOCAB
from .statistics import same_statistics

NAMES = ("gpt2", "gpt2_tinystories", "bert_base", "crammed_bert", "llama_1b", "qwen3_0.6b")


def tokens(batch: int = 2, length: int = 12, seed: int = 0) -> Tensor:
    """Random token ids."""
    return torch.randint(VOCAB, (batch, length), generator=torch.Generator().manual_seed(seed))


def counted(arch: Arch) -> tuple[dict[str, int], int]:
    """Parameters by group and operations of one forward pass, of the built module, without allocating it."""
    model = build(arch, device="meta").eval()
    where, found = groups(model), {field.name: 0 for field in fields(params(arch))}
    for name, parameter in model.named_parameters():
        found[where[name]] += parameter.numel()
    with FlopCounterMode(display=False) as counter:
        model(torch.zeros(1, arch.stages[0].tokens, dtype=torch.int64, device="meta"))
    return found, counter.get_total_flops()


def expected(arch: Arch) -> tuple[dict[str, int], int]:
    """The same, in closed form."""
    count = params(arch)
    return {field.name: getattr(count, field.name) for field in fields(count)}, forward_flops(arch)


# ------------------------------------------------------------------------------------------------------------- counts
@pytest.mark.parametrize("name", NAMES)
def test_random_grouped_redesigns_are_counted_exactly(name: str) -> None:
    dice = random.Random(name)
    for _ in range(4):
        kv_heads = dice.randint(1, 4)
        arch = redesign(
            zoo.get(name),
            depth=dice.randint(1, 5),
            heads=kv_heads * dice.randint(1, 6),
            kv_heads=kv_heads,
            head_dim=2 * dice.randint(1, 40),
            mlp_dim=dice.randint(1, 500),
            tokens=dice.randint(2, 64),
        )
        assert counted(arch) == expected(arch)


@pytest.mark.parametrize("name", ALL)
def test_small_models_and_classifiers_are_counted_exactly(name: str) -> None:
    assert counted(ALL[name]) == expected(ALL[name])


def test_a_tied_head_is_one_parameter_counted_once() -> None:
    model = build(CAUSAL["gpt2"])
    assert model.head.weight is None
    shape = (VOCAB, 32)
    assert [name for name, p in model.named_parameters() if p.shape == shape] == ["embed.vocab.weight"]
    features = model.features(tokens())
    assert torch.equal(model(tokens()), model.head.last(features) @ model.embed.vocab.weight.T)
    untied = build(CAUSAL["gpt2_tinystories"])
    assert sum(p.shape == shape for p in untied.parameters()) == 2


# ----------------------------------------------------------------------------------------------------- initial weights
@pytest.mark.parametrize(
    ("name", "twin", "config", "entries"),
    [
        (
            "gpt2",
            "GPT2LMHeadModel",
            {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_inner": 64, "n_positions": TOKENS},
            hf_maps.gpt2,
        ),
        ("bert", "BertForMaskedLM", {"max_position_embeddings": TOKENS}, hf_maps.bert),
        (
            "bert_classify",
            "BertForSequenceClassification",
            {"max_position_embeddings": TOKENS, "num_labels": 3},
            hf_maps.bert,
        ),
        ("llama", "LlamaForCausalLM", {"num_key_value_heads": 2, "tie_word_embeddings": False}, hf_maps.llama),
        (
            "qwen3",
            "Qwen3ForCausalLM",
            {"num_key_value_heads": 2, "head_dim": 8, "tie_word_embeddings": True},
            hf_maps.llama,
        ),
    ],
)
def test_starts_as_transformers_does(name: str, twin: str, config: dict, entries) -> None:
    transformers = pytest.importorskip("transformers", reason="transformers is in the dev extra")
    make = getattr(transformers, twin)
    common = {"vocab_size": VOCAB, "bos_token_id": 1, "eos_token_id": 1}
    if name != "gpt2":
        common |= {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
    torch.manual_seed(0)
    theirs = make(make.config_class(**common | config))
    ours = build(ALL[name], seed=1)
    same_statistics(ours, theirs, entries(ALL[name]))
    assert (ours.embed.vocab.weight[0] == 0).all() == name.startswith("bert")  # the row of padding


@pytest.mark.parametrize("name", ["gpt2_tinystories", "crammed_bert", "crammed_classify"])
def test_starts_as_its_description_says(name: str) -> None:
    torch.manual_seed(0)
    if name == "gpt2_tinystories":
        twin: nn.Module = plain.Stories(VOCAB, TOKENS, 32, 2, 4, 8, 64)
    else:
        classes = 3 if name == "crammed_classify" else 0
        twin = plain.Crammed(VOCAB, 32, 2, 4, 8, 128, classes, 48)
    entries = plain_maps.stories if name == "gpt2_tinystories" else plain_maps.crammed
    ours = build(ALL[name], seed=1)
    same_statistics(ours, twin, entries(ALL[name]))
    assert (ours.embed.vocab.weight[0] == 0).all() == (name == "crammed_classify")  # the row of padding


def test_deeper_gpt2_writes_less_into_the_stream() -> None:
    """Its residual projections start at 0.02 / sqrt(2 depth); the TinyStories dialect's do not shrink."""
    for name, std in (("gpt2", 0.02 / 4), ("gpt2_tinystories", 0.02)):
        model = build(redesign(CAUSAL[name], depth=8), seed=0)
        for block in model.blocks:
            for out in (block.attention.op.out, block.mlp.op.out):
                assert out.weight.std().item() == pytest.approx(std, rel=0.1)


# ------------------------------------------------------------------------------------------------------------ training
REDESIGNS = {
    "original": {},
    "fixed": {"heads": 8, "depth": 1, "policy": "fixed"},
    "split": {"heads": 8, "depth": 1, "policy": "split"},
    "grouped": {"heads": 6, "kv_heads": 3},
    "uneven": {"heads": 3, "head_dim": 10, "kv_heads": 1, "mlp_dim": 30},
}


@pytest.mark.parametrize("way", REDESIGNS)
@pytest.mark.parametrize("name", ALL)
def test_every_redesign_trains_and_every_parameter_learns(name: str, way: str) -> None:
    arch = redesign(ALL[name], **REDESIGNS[way])
    model = build(arch, seed=0).train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
    losses = []
    for _ in range(2):
        logits = model(tokens())
        goal = torch.zeros(2, dtype=torch.int64) if name in CLASSIFIERS else tokens(seed=1)
        loss = nn.functional.cross_entropy(logits.flatten(0, -2), goal.flatten())
        optimizer.zero_grad()
        loss.backward()
        still = [name for name, p in model.named_parameters() if p.grad is None or not p.grad.abs().max() > 0]
        assert not still, f"no gradient reaches {still}"
        optimizer.step()
        losses.append(loss.item())
    assert losses[1] < losses[0]


def test_layers_of_another_head_dim_turn_by_their_own_table() -> None:
    first = CAUSAL["llama"].stages[0]
    second = redesign(CAUSAL["llama"], heads=2, head_dim=16, kv_heads=1).stages[0]
    arch = Arch("llama", CAUSAL["llama"].embed, (first, second), CAUSAL["llama"].head)
    model = build(arch, seed=0)
    assert model.turns == [0, 0, 1, 1]
    assert [rotary.head_dim for rotary in model.rotary] == [8, 16]
    assert counted(arch) == expected(arch)
    assert model(tokens()).isfinite().all()


# ------------------------------------------------------------------------------------------------------ who sees whom
@pytest.mark.parametrize("name", CAUSAL)
def test_a_later_token_changes_nothing_before_it(name: str) -> None:
    model = build(CAUSAL[name], seed=0).double().eval()
    for at in (1, 5, 11):
        ids = tokens()
        other = ids.clone()
        other[:, at] = (other[:, at] + 1) % VOCAB
        before, after = model(ids), model(other)
        torch.testing.assert_close(before[:, :at], after[:, :at], rtol=0, atol=1e-14)
        changes = (before[:, at:] - after[:, at:]).abs().amax(dim=(0, 2))
        reach = 9 if name == "windows" else TOKENS  # two layers hand a token on to four more each
        assert changes[:reach].min() > 1e-9
        assert not changes[reach:].any()


@pytest.mark.parametrize("name", BOTH_WAYS)
def test_an_encoder_looks_both_ways(name: str) -> None:
    model = build(BOTH_WAYS[name], seed=0).double().eval()
    ids = tokens()
    other = ids.clone()
    other[:, -1] = (other[:, -1] + 1) % VOCAB
    assert (model(ids) - model(other)).abs().amax(dim=(0, 2)).min() > 1e-6


@pytest.mark.parametrize("name", ALL)
def test_padding_changes_nothing_for_real_tokens(name: str) -> None:
    model = build(ALL[name], seed=0).double().eval()
    short = tokens(length=9)
    padded = torch.cat((short, tokens(length=5, seed=2)), dim=1)  # any ids will do: they are not seen
    mask = torch.arange(14).expand(2, 14) < 9
    plainly, masked = model(short), model(padded, mask)
    masked = masked if name in CLASSIFIERS else masked[:, :9]
    torch.testing.assert_close(plainly, masked, rtol=0, atol=1e-13)


@pytest.mark.parametrize("name", CAUSAL)
def test_padding_in_front_is_finite_and_unseen(name: str) -> None:
    model = build(CAUSAL[name], seed=0).double().eval()
    mask = torch.arange(12).expand(2, 12) >= torch.tensor([[4], [0]])
    ids = tokens()
    other = torch.where(mask, ids, (ids + 1) % VOCAB)
    first, second = model(ids, mask), model(other, mask)
    assert first.isfinite().all()
    torch.testing.assert_close(first[mask], second[mask], rtol=0, atol=1e-14)


@pytest.mark.parametrize("name", BOTH_WAYS)
def test_sparse_prediction_is_the_full_one_at_the_chosen_places(name: str) -> None:
    model = build(BOTH_WAYS[name], seed=0).double().eval()
    ids, at = tokens(), torch.tensor([[0, 3, 11], [7, 2, 2]])
    picked = torch.stack([row[places] for row, places in zip(model(ids), at, strict=True)])
    torch.testing.assert_close(model(ids, at=at), picked, rtol=0, atol=1e-14)


# -------------------------------------------------------------------------------------------------- bad inputs fmt: off
BAD = {
    "too long": (lambda: {"ids": tokens(length=17)}, r"17 tokens; this model has positions for 16"),
    "id too large": (lambda: {"ids": tokens() + 55}, rf"run from \d+ to \d+; .* 0 to {VOCAB - 1}"),
    "id negative": (lambda: {"ids": tokens() - VOCAB}, r"run from -\d+ to -\d+"),
    "not whole": (lambda: {"ids": tokens().float()}, r"torch.float32 of shape \(2, 12\)"),
    "one sequence bare": (lambda: {"ids": tokens()[0]}, r"of shape \(12,\)"),
    "mask of numbers": (lambda: {"ids": tokens(), "mask": torch.ones(2, 12, dtype=torch.int64)}, r"mask.bool\(\)"),
    "mask too short": (lambda: {"ids": tokens(), "mask": torch.ones(2, 11, dtype=torch.bool)}, r"\(2, 11\).*\(2, 12\)"),
    "mask of nothing": (
        lambda: {"ids": tokens(), "mask": torch.tensor([[True] * 12, [False] * 12])},
        r"all 12 tokens of sequence 1",
    ),
}
# fmt: on


@pytest.mark.unchecked
@pytest.mark.parametrize("case", BAD)
@pytest.mark.parametrize("name", ALL)
def test_a_wrong_input_is_told_in_numbers(name: str, case: str) -> None:
    make, words = BAD[case]
    with pytest.raises(UserError, match=words):
        build(ALL[name])(**make())


@pytest.mark.unchecked
def test_wrong_segments_and_places_are_told_in_numbers() -> None:
    ids, model = tokens(), build(BOTH_WAYS["bert"])
    for given, words in [
        ({"types": torch.full_like(ids, 2)}, "run from 2 to 2; this model knows 0 to 1"),
        ({"types": torch.zeros(2, 3, dtype=torch.int64)}, r"\(2, 3\).*\(2, 12\)"),
        ({"at": torch.tensor([[0], [12]])}, "run from 0 to 12; these sequences have 0 to 11"),
        ({"at": torch.tensor([0, 1])}, r"of shape \(2,\)"),
        ({"at": torch.tensor([[0]])}, r"of shape \(1, 1\).*2 sequences"),
    ]:
        with pytest.raises(UserError, match=words):
            model(ids, **given)
    with pytest.raises(UserError, match="3 positions to predict"):
        build(CLASSIFIERS["crammed_classify"])(ids, at=torch.zeros(2, 3, dtype=torch.int64))
