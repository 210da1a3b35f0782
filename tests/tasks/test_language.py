"""Language modelling: batches are functions of seed, step and row; evaluation is exact; a small model learns."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from manyheads.arch import zoo
from manyheads.arch.families import crammed_bert, gpt2, llama, vit
from manyheads.data.text.corpora import corpus
from manyheads.data.text.tokenization import tokenize_files
from manyheads.data.text.vocabulary import load
from manyheads.experiments.recipes import NAMED, crammed, glue, stories_proper, stories_repository
from manyheads.models.build import build
from manyheads.runs import Run
from manyheads.spec.errors import UserError
from manyheads.spec.parts import Rope
from manyheads.spec.recipe import Recipe
from manyheads.spec.schedule import factor
from manyheads.tasks import LanguageModel, MaskedLanguage, check, fit, from_dict, open_task, to_dict
from manyheads.tasks.text import LanguageWork
from manyheads.train.loop import train
from tests.specs import run_spec
from tests.train.tiny import traces

CPU = torch.device("cpu")
TINY = gpt2(16, 1, 2, 8, 32, vocab=2048, tokens=16, positions=16)


def small(seed: int = 0, batch: int = 12, **fields: object) -> LanguageWork:
    """Work on the embedded stories."""
    return open_task(LanguageModel(**{"tokens": 16, "test_limit": 37} | fields), CPU, seed, batch)  # type: ignore[arg-type]


@pytest.mark.parametrize("order", ["shuffled", "random", "given"])
def test_a_batch_is_the_same_for_any_ranks_accumulation_and_resume(order: str) -> None:
    work = small(order=order)
    for step in (0, 1, 6000):  # the last one in the second epoch
        whole = work.batch(step, range(12))
        again = small(order=order)
        for size in (2, 3, 6):
            parts = [again.batch(step, range(start, start + size)) for start in range(0, 12, size)]
            for mine, theirs in zip(whole, zip(*parts, strict=True), strict=True):
                assert torch.equal(mine, torch.cat(theirs))
        ids, targets = whole
        assert (ids.dtype, ids.shape, targets.shape) == (torch.int64, (12, 16), (12, 16))
        assert torch.equal(ids[:, 1:], targets[:, :-1])
    if order != "given":
        assert not torch.equal(small(1, order=order).batch(0, range(12))[0], work.batch(0, range(12))[0])


def test_a_sample_is_a_sequence_measured_in_tokens() -> None:
    work = small()
    assert (work.unit, work.per_sample, work.better) == ("tokens", 16, ("loss", "down"))
    assert work.samples == (1_136_346 - 1) // 16


def test_the_loss_is_that_of_the_next_token() -> None:
    model, work = build(TINY, seed=0).double().eval(), small()
    ids, targets = work.batch(3, range(12))
    plain = functional.cross_entropy(model(ids).flatten(0, 1), targets.flatten())
    torch.testing.assert_close(work.loss(model, ids, targets), plain)


@pytest.mark.parametrize("task", [LanguageModel(tokens=16), MaskedLanguage(tokens=16)], ids=["causal", "masked"])
def test_the_loss_compiles_in_one_graph_and_once(task: LanguageModel | MaskedLanguage) -> None:
    arch = TINY if isinstance(task, LanguageModel) else crammed_bert(16, 1, 2, 8, 24, vocab=2048, tokens=16)
    model, work = build(arch, seed=0), open_task(task, CPU, 0, 4)
    torch.compiler.reset()
    whole = torch.compile(lambda *batch: work.loss(model, *batch), fullgraph=True, backend="eager")
    for step in range(2):
        with torch.compiler.set_stance("fail_on_recompile" if step else "default"):
            found = whole(*work.batch(step, range(4)))
        torch.testing.assert_close(found, work.loss(model, *work.batch(step, range(4))))


def test_evaluation_is_exact_and_adds_up_over_parts() -> None:
    model = build(TINY, seed=0).double().eval()
    held = corpus("tinystories", Path()).held.tokens
    read = torch.from_numpy(held.rows(16 * np.arange(37), 17))
    plain = functional.cross_entropy(model(read[:, :-1]).flatten(0, 1), read[:, 1:].flatten()).item()
    for parts in (1, 2, 5):
        shapes: list[tuple[int, ...]] = []

        class Watched(nn.Module):
            """Notes the shapes it is given."""

            def forward(self, ids: Tensor, targets: Tensor) -> Tensor:
                shapes.append(tuple(ids.shape))  # noqa: B023
                return model(ids, targets=targets)

        tallies = [small().tally(Watched(), (part, parts)) for part in range(parts)]
        assert len(set(shapes)) == 1
        assert len(shapes) % parts == 0
        total = {name: torch.stack([tally[name] for tally in tallies]).sum() for name in tallies[0]}
        assert total["tokens"].item() == 37 * 16
        assert total["loss"].dtype == torch.float64
        score = small().score(total)
        assert score["loss"] == pytest.approx(plain, rel=1e-12)
        assert score["perplexity"] == pytest.approx(math.exp(plain))
        manifest = corpus("tinystories", Path()).held.manifest
        assert score["bits"] == pytest.approx(plain / math.log(2) * manifest.tokens / manifest.text_bytes)


def test_equal_logits_score_the_trivial_and_a_broken_model_nothing_finite() -> None:
    class Constant(nn.Module):
        """The same chance for every token."""

        def __init__(self, value: float) -> None:
            super().__init__()
            self.value = value

        def forward(self, ids: Tensor, targets: Tensor) -> Tensor:
            return torch.full((), self.value)

    work = small()
    assert work.score(work.tally(Constant(math.log(2048)))) == pytest.approx(work.trivial(), rel=1e-6)
    assert work.trivial()["perplexity"] == pytest.approx(2048)
    assert math.isnan(work.score(work.tally(Constant(float("nan"))))["loss"])


def test_the_probe_sees_the_same_held_out_sequences_every_time() -> None:
    first, second = small(0).probe_batch(5), small(7, batch=3, order="random").probe_batch(5)
    assert torch.equal(first, second)
    assert first.shape == (5, 16)
    with pytest.raises(UserError, match="37 are held out"):
        small().probe_batch(38)


def test_without_the_tokenizers_package_the_embedded_stories_train() -> None:
    import subprocess
    import sys

    code = """
import sys
sys.modules["tokenizers"] = None
import torch
from manyheads.tasks import LanguageModel, MaskedLanguage, open_task
for task in (LanguageModel(tokens=16), MaskedLanguage(tokens=16)):
    assert open_task(task, torch.device("cpu"), 0, 8).batch(0, range(8))[0].shape == (8, 16)
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_shards_of_ones_own_are_trained_on_in_the_same_way(tmp_path: Path) -> None:
    words = load("bytes", tmp_path)
    (tmp_path / "a.txt").write_text("abcdefgh\n\n" * 200)
    for split in ("train", "valid"):
        tokenize_files([tmp_path / "a.txt"], tmp_path / "own" / split, words, between="blank", piece=700)
    task = LanguageModel("shards:own", tokens=9, vocab=261)
    work = open_task(task, CPU, 0, 4, root=tmp_path)
    assert work.samples == 199
    assert words.decode(work.batch(0, range(4))[0][0].tolist()) == "abcdefgh"
    held = open_task(LanguageModel("shards:own", tokens=9, vocab=261, held=0.25), CPU, 0, 4, root=tmp_path)
    assert (held.samples, held.held_out) == (149, 49)
    assert held.tally(build(gpt2(8, 1, 1, 8, 8, vocab=261, tokens=9, positions=9), seed=0))["tokens"].item() == 49 * 9
    for wrong, told in [
        (replace(task, vocab=300), "of 261 ids, and the task says vocab=300; write vocab=261"),
        (replace(task, tokenizer="abc"), r"made with tokenizer bytes \(.*\), and the task says abc"),
        (replace(task, tokens=5000), "do not fill one sequence of 5000"),
    ]:
        with pytest.raises(UserError, match=told):
            open_task(wrong, CPU, 0, 4, root=tmp_path)
    open_task(replace(task, tokenizer=words.digest), CPU, 0, 4, root=tmp_path)


def test_check_and_fit_put_model_and_text_together() -> None:
    task = LanguageModel(tokens=64)
    other = llama(16, 1, 2, 8, 32, vocab=9, tokens=8, rope=Rope(), tied=True)
    for arch in (zoo.get("gpt2_tinystories"), zoo.get("gpt2"), other):
        fitted = fit(task, arch)
        check(task, fitted)
        assert fitted.embed.vocab == 2048  # type: ignore[union-attr]
    for arch, told in [
        (vit(16, 1, 2, 8, 32, image=8, patch=4), "reads tokens and has a Lm head; this one is vit"),
        (zoo.get("crammed_bert"), "this one is crammed_bert with Token and Masked"),
        (gpt2(16, 1, 2, 8, 32, vocab=100, tokens=64, positions=64), "vocabulary is 100; build it with vocab=2048"),
        (gpt2(16, 1, 2, 8, 32, vocab=2048, tokens=32, positions=32), "built for 32; write tokens=32, or build"),
    ]:
        with pytest.raises(UserError, match=told):
            check(task, arch)
    check(
        LanguageModel(tokens=64), gpt2(16, 1, 2, 8, 32, vocab=4096, tokens=64, positions=64)
    )  # rows that are not used


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"data": "wiki"}, "is no corpus"),
        ({"data": "shards:x"}, "states no vocab"),
        ({"tokens": 1}, "tokens is 1"),
        ({"vocab": 9}, "has 2048: leave it out"),
        ({"order": "sorted"}, "'shuffled', 'random', 'given'"),
        ({"held": 1}, "0.9"),
        ({"tokenizer": 7}, "tokenizer is 7"),
        ({"test_limit": 0}, "test_limit is 0"),
    ],
)
def test_a_wrong_task_is_explained(fields: dict[str, object], told: str) -> None:
    with pytest.raises(UserError, match=told):
        LanguageModel(**fields)  # type: ignore[arg-type]


def test_a_small_gpt_learns_the_embedded_stories_and_does_the_same_twice(tmp_path: Path) -> None:
    """Guessing by frequency alone scores 6.08; a model that is below has learned what follows what."""
    arch = gpt2(64, 1, 4, 16, 128, vocab=2048, tokens=32, positions=32)
    task = to_dict(LanguageModel(tokens=32, test_limit=100))
    recipe = {
        "batch": 32,
        "basis": {"kind": "steps", "amount": 140},
        "lr": 2e-2,
        "weight_decay": 0.01,
        "clip": 0,
        "schedule": {"kind": "linear", "warmup": 0.1},
        "evaluate_every": 0,
    }
    result = train(Run.create(tmp_path / "a", run_spec(arch, task, recipe, 0)), device="cpu", progress="none")
    assert result["score"]["loss"] < 5.6 < result["trivial"]["loss"] - 2
    assert result["tokens"] == 140 * 32 * 32
    short = recipe | {"basis": {"kind": "tokens", "amount": 12 * 32 * 32}, "probe_every": 6, "probe_samples": 2}
    short["checkpoint_every"], short["rates"] = 5, {"dropout": 0.1}
    for name in "bc":
        done = train(Run.create(tmp_path / name, run_spec(arch, task, short, 0)), device="cpu", progress="none")
        assert done["steps"] == 12
    assert traces(tmp_path / "b") == traces(tmp_path / "c")


@pytest.mark.gpu
@pytest.mark.parametrize("recipe", [{}, {"precision": "fp32", "rates": {"dropout": 0.1}}, {"accumulate": 2}])
@pytest.mark.parametrize(
    "task",
    [LanguageModel(tokens=32, test_limit=100), MaskedLanguage(tokens=32, test_limit=100)],
    ids=["causal", "masked"],
)
def test_a_gpu_trains_it_too(task: LanguageModel | MaskedLanguage, recipe: dict, tmp_path: Path) -> None:
    size = (64, 1, 4, 16, 128)
    arch = (
        gpt2(*size, vocab=2048, tokens=32, positions=32)
        if isinstance(task, LanguageModel)
        else (crammed_bert(*size, vocab=2048, tokens=32))
    )
    usual = {"batch": 48, "basis": {"kind": "steps", "amount": 300}, "lr": 4e-3, "betas": [0.9, 0.98], "clip": 0.0}
    spec = run_spec(arch, to_dict(task), usual | recipe, 0)
    result = train(Run.create(tmp_path / "a", spec), device="cuda", progress="none")
    assert result["score"]["loss"] < 5.7


def test_recipes_say_what_the_originals_do() -> None:
    for recipe, task in NAMED.values():
        assert Recipe.from_dict(recipe().to_dict()) == recipe()
        assert from_dict(to_dict(task())) == task()
    first = stories_repository()
    assert (first.batch, first.basis.amount, first.lr, first.clip, first.decay) == (128, 2000, 3e-4, 0.0, "all")
    assert {factor(first.schedule, t) for t in (0.0, 0.5, 1.0)} == {1.0}
    stories = NAMED["stories_repository"][1]()
    check(stories, zoo.get("gpt2_tinystories"))
    assert (stories.held, stories.order, stories.tokens) == (0.1, "random", 64)
    assert stories_proper().clip == 1.0
    ramp = crammed()  # min(1/4 + t, 4 (1 - t)) over the budget
    for t in (0.0, 0.3, 0.75, 0.9, 1.0):
        assert factor(ramp.schedule, t) == pytest.approx(min(0.25 + t, 4 * (1 - t)))
    assert (ramp.basis.kind, ramp.batch, ramp.rows, ramp.ramp) == ("seconds", 8192, 128, 0.6)
    tuned = glue()
    assert (tuned.batch, tuned.basis.amount, tuned.lr, tuned.rates.dropout) == (16, 5, 4e-5, 0.1)


def test_a_model_that_is_fitted_keeps_its_dialect() -> None:
    stories = zoo.get("gpt2_tinystories")
    fitted = fit(LanguageModel(tokens=32), stories)
    assert (stories.dialect, fitted.dialect, fitted.stages[0].tokens) == ("stories", "stories", 32)
    open_ai = replace(stories, dialect="")
    assert fit(LanguageModel(tokens=32), open_ai).dialect == ""


def test_held_out_text_is_read_from_the_split_that_the_task_names(tmp_path: Path) -> None:
    texts = {"train": "a" * 100, "valid": "b" * 100, "choose": "c" * 100}
    for split, text in texts.items():
        (tmp_path / "a.txt").write_text(text)
        tokenize_files([tmp_path / "a.txt"], tmp_path / "abc" / split, load("bytes", Path()), between="file")
    task = LanguageModel("shards:abc", tokens=8, vocab=261)
    for split, one in (("valid", task), ("choose", replace(task, held_split="choose"))):
        work = open_task(one, CPU, 0, 4, root=tmp_path)
        assert set(work.held.block(np.arange(3)).ravel().tolist()) == {ord(texts[split][0]) + 5}
    assert "held_split" not in to_dict(task)
    assert from_dict(to_dict(replace(task, held_split="choose"))).held_split == "choose"
    for wrong in ({"data": "tinystories", "vocab": None}, {"held": 0.1}):
        with pytest.raises(UserError, match="has its held-out text elsewhere"):
            replace(task, held_split="choose", **wrong)
    with pytest.raises(UserError, match="no folder's name"):
        replace(task, held_split="../valid")
