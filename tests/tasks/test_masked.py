"""Masked language modelling: exactly a quarter of each sequence is predicted, the same at every resume; a model
learns."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from torch.nn import functional

from manyheads.arch import zoo
from manyheads.arch.families import bert, crammed_bert
from manyheads.data.text.tokenization import tokenize_files
from manyheads.data.text.vocabulary import parse, written
from manyheads.models.build import build
from manyheads.runs import Run
from manyheads.spec.errors import UserError
from manyheads.tasks import MaskedLanguage, check, fit, from_dict, open_task, to_dict
from manyheads.tasks.text import MaskedWork
from manyheads.train.loop import train
from tests.specs import run_spec

CPU = torch.device("cpu")
MODELS = {
    "crammed_bert": crammed_bert(16, 1, 2, 8, 24, vocab=2048, tokens=16),
    "bert": bert(16, 1, 2, 8, 32, vocab=2048, tokens=16, positions=16),
}


def small(seed: int = 0, batch: int = 12, **fields: object) -> MaskedWork:
    """Work on the embedded stories."""
    return open_task(MaskedLanguage(**{"tokens": 16, "test_limit": 37} | fields), CPU, seed, batch)  # type: ignore[arg-type]


def test_a_batch_is_the_same_for_any_ranks_accumulation_and_resume() -> None:
    work = small()
    for step in (0, 1, 6000):
        whole, again = work.batch(step, range(12)), small()
        for size in (2, 3, 6):
            parts = [again.batch(step, range(start, start + size)) for start in range(0, 12, size)]
            for mine, theirs in zip(whole, zip(*parts, strict=True), strict=True):
                assert torch.equal(mine, torch.cat(theirs))
        ids, at, targets = whole
        assert (ids.shape, at.shape, targets.shape) == ((12, 16), (12, 4), (12, 4))
    assert not torch.equal(small(1).batch(0, range(12))[1], work.batch(0, range(12))[1])


def test_a_sequence_seen_again_is_hidden_in_another_way() -> None:
    work = small(order="given", batch=100)
    epoch = work.samples  # steps of 100 rows: the same rows come back after as many steps as there are samples
    (first, at, _), (again, other, _) = work.batch(0, range(100)), work.batch(epoch, range(100))
    shown = (first != 4) & (again != 4)
    assert (first[shown] == again[shown]).float().mean() > 0.9
    assert not torch.equal(at, other)


def test_the_mask_hides_what_is_asked_for_and_separators_are_protected_unless_told() -> None:
    for protect in (True, False):
        work = small(batch=4000, protect=protect)
        ids, at, targets = work.batch(0, range(4000))
        shown = ids.gather(1, at)
        assert ((shown == 4).sum(1) == 3).all()
        assert (targets == 1).any().item() is not protect


@pytest.mark.parametrize("name", MODELS)
def test_the_loss_is_that_of_the_hidden_tokens_alone(name: str) -> None:
    model, work = build(MODELS[name], seed=0).double().eval(), small()
    ids, at, targets = work.batch(2, range(12))
    logits = model(ids).take_along_dim(at[..., None], dim=1)
    plain = functional.cross_entropy(logits.flatten(0, 1), targets.flatten())
    torch.testing.assert_close(work.loss(model, ids, at, targets), plain)


def test_evaluation_hides_the_same_every_time_and_adds_up_over_parts() -> None:
    model = build(MODELS["crammed_bert"], seed=0).double().eval()
    scores = []
    for seed, parts in ((0, 1), (5, 2), (9, 5)):
        tallies = [small(seed).tally(model, (part, parts)) for part in range(parts)]
        total = {name: torch.stack([tally[name] for tally in tallies]).sum() for name in tallies[0]}
        assert total["tokens"].item() == 37 * 4
        scores.append(small().score(total)["loss"])
    assert scores == pytest.approx([scores[0]] * 3, rel=1e-12)
    assert torch.equal(small(0).probe_batch(3), small(1).probe_batch(3))
    assert small().trivial() == pytest.approx({"loss": math.log(2048), "perplexity": 2048})
    with pytest.raises(UserError, match="37 are held out"):
        small().probe_batch(38)


def test_wrong_tasks_models_and_tokenizers_are_told(tmp_path: Path) -> None:
    task = MaskedLanguage(tokens=16)
    assert from_dict(to_dict(task)) == task
    for arch in MODELS.values():
        check(task, arch)
    check(task, fit(task, zoo.get("crammed_bert")))
    with pytest.raises(UserError, match="has a Masked head; this one is gpt2"):
        check(task, zoo.get("gpt2"))
    for fields, told in [
        ({"share": 0}, "share is 0"),
        ({"protect": 1}, "true or false"),
        ({"tokens": 0}, "tokens is 0"),
    ]:
        with pytest.raises(UserError, match=told):
            MaskedLanguage(**fields)  # type: ignore[arg-type]
    words = {"type": "WordLevel", "vocab": {"a": 0, "</s>": 1}, "unk_token": "a"}
    bare = parse(written(words, {}, pre_tokenizer={"type": "WhitespaceSplit"}), "bare")
    (tmp_path / "a.txt").write_text("a a a a a a")
    for split in ("train", "valid"):
        tokenize_files([tmp_path / "a.txt"], tmp_path / "own" / split, bare, between="blank")
    with pytest.raises(UserError, match=r"tokenizer bare, which has no <mask> or \[MASK\]"):
        open_task(MaskedLanguage("shards:own", tokens=4, vocab=2), CPU, 0, 2, root=tmp_path)


def test_a_small_encoder_learns_the_embedded_stories(tmp_path: Path) -> None:
    """Guessing by frequency alone scores 6.05; what is below was read off the neighbours."""
    arch = crammed_bert(64, 1, 4, 16, 96, vocab=2048, tokens=32)
    recipe = {
        "batch": 48,
        "basis": {"kind": "steps", "amount": 220},
        "lr": 4e-3,
        "betas": [0.9, 0.98],
        "clip": 0,
        "weight_decay": 0.01,
        "schedule": {"kind": "triangle", "warmup": 0.1},
        "evaluate_every": 0,
    }
    spec = run_spec(arch, to_dict(MaskedLanguage(tokens=32, test_limit=200)), recipe, 0)
    result = train(Run.create(tmp_path / "a", spec), device="cpu", progress="none")
    assert result["score"]["loss"] < 5.6 < result["trivial"]["loss"] - 2
    assert result["tokens"] == 220 * 48 * 32
