"""With `validation` > 0, training draws no validation sample, and every metric is scored on all of them too."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional

from manyheads.arch.families import bert, crammed_bert, gpt2, vit
from manyheads.data.image_readers import read
from manyheads.data.image_types import Pixels
from manyheads.data.randomness import balanced
from manyheads.data.text.corpora import corpus
from manyheads.data.text.tokenization import tokenize_files
from manyheads.data.text.vocabulary import load
from manyheads.data.validation import parted
from manyheads.models.build import build
from manyheads.runs import Run
from manyheads.spec.arch import Arch
from manyheads.spec.datasets import BlockOrder, glue_set
from manyheads.spec.errors import UserError
from manyheads.spec.run import RunSpec
from manyheads.spec.task import Task
from manyheads.spec.text import PackedText
from manyheads.tasks import Augment, Glue, Images, LanguageModel, MaskedLanguage, fit, from_dict, open_task, to_dict
from manyheads.tasks.images import ImageWork
from manyheads.train.early_end import Stopped
from manyheads.train.loop import train
from manyheads.train.parallel import joined
from manyheads.train.results import result as outcome
from tests.data.written import write_folder
from tests.specs import run_spec
from tests.train.tiny import traces
from tests.train.workers import Stopper

from .glue_files import write

CPU = torch.device("cpu")


@dataclass(frozen=True)
class Kind:
    """A task with a validation split, and a model for it."""

    task: Callable[[float], Task]
    arch: Arch


KINDS = {
    "images": Kind(
        lambda share: Images(limit=120, test_limit=30, validation=share),
        vit(16, 1, 2, 8, 32, image=28, patch=7, channels=1, classes=10),
    ),
    "files": Kind(
        lambda share: Images("folder:colours", size=16, classes=3, validation=share),
        vit(16, 1, 2, 8, 32, image=16, patch=8, channels=3, classes=3),
    ),
    "causal": Kind(
        lambda share: LanguageModel("shards:own", tokens=9, vocab=261, validation=share),
        gpt2(8, 1, 1, 8, 8, vocab=261, tokens=9, positions=9),
    ),
    "masked": Kind(
        lambda share: MaskedLanguage(tokens=16, held=0.9, test_limit=8, validation=share),
        bert(16, 1, 2, 8, 32, vocab=2048, tokens=16, positions=16),
    ),
    "glue": Kind(
        lambda share: Glue("rte", tokenizer="stories", tokens=40, validation=share),
        fit(Glue("rte", tokenizer="stories", tokens=40), crammed_bert(16, 1, 2, 8, 24, vocab=2048, tokens=40)),
    ),
}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Small datasets of each kind."""
    folder = tmp_path_factory.mktemp("data")
    write_folder(folder / "colours", train=20)
    write(folder, glue_set("rte"), train=120, held=30)
    (folder / "own.txt").write_text("\n\n".join(f"story {number} of a row" for number in range(100)))
    for split in ("train", "valid"):
        tokenize_files([folder / "own.txt"], folder / "own" / split, load("bytes", folder), between="blank", piece=700)
    return folder


@pytest.fixture(autouse=True)
def _in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MANYHEADS_WORKERS", "0")


def opened(task: Task, root: Path, seed: int = 0, batch: int = 12) -> Any:
    """The task at work."""
    return open_task(task, CPU, seed, batch, root=root)


def drawn(work: Any) -> set[bytes]:
    """The inputs of two epochs of training."""
    steps = range(2 * work.samples // 12 + 1)
    return {row.numpy().tobytes() for step in steps for row in work.batch(step, range(12))[0]}


def kept_out(work: Any) -> list[bytes]:
    """The inputs of the validation samples of images or GLUE."""
    rows = np.arange(work.validation.held_out)
    if isinstance(work, ImageWork):
        inputs = work.normalise(next(iter(work.source.held([rows], "valid")))[0])
    else:
        inputs = work.rows(work.validation.held[0], rows)[0]
    return [row.numpy().tobytes() for row in inputs]


@pytest.mark.parametrize("name", ["images", "files", "glue"])
def test_training_never_draws_a_validation_sample_and_draws_all_others(name: str, root: Path) -> None:
    plain, work = (opened(KINDS[name].task(share), root) for share in (0.0, 0.2))
    kept = kept_out(work)
    assert 0.1 * plain.samples < len(kept) < 0.3 * plain.samples
    assert drawn(work).isdisjoint(kept)
    assert drawn(work) | set(kept) == drawn(plain)
    assert (work.samples, work.held_out) == (plain.samples - len(kept), plain.held_out)


@pytest.mark.parametrize("order", ["shuffled", "random", "given"])
@pytest.mark.parametrize("name", ["causal", "masked"])
def test_training_never_reads_a_validation_id(name: str, order: BlockOrder, root: Path) -> None:
    task = KINDS[name].task(0.2)
    assert isinstance(task, PackedText)
    whole, work = opened(replace(task, validation=0.0), root).train.tokens, opened(replace(task, order=order), root)
    kept = work.validation.held.tokens
    assert work.train.tokens.last == kept.first
    assert (work.train.tokens.first, kept.last) == (whole.first, whole.last)
    assert 0.15 * len(whole) < len(kept) <= 0.2 * len(whole) + 1
    starts = np.concatenate([work.train.starts(step, range(12)) for step in range(2 * work.samples // 12 + 1)])
    assert starts.max() + work.train.length <= len(work.train.tokens)


def test_validation_text_begins_with_a_document(root: Path) -> None:
    words = load("bytes", root)
    for share in (0.013, 0.2, 0.6):
        source = corpus("shards:own", root, validation=share)
        assert source.validation is not None
        ids = source.validation.tokens.read(0, 6).tolist()
        assert words.decode(ids) == "story "
        assert source.train.tokens.read(len(source.train.tokens) - 1, 1)[0] == source.train.manifest.separator


@pytest.mark.parametrize(("between", "separator"), [("blank", "@@"), ("file", None)])
def test_text_of_unknown_or_few_documents_is_cut_anywhere(between: str, separator: str | None, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("abcdefgh\n\n" * 50)
    for split in ("train", "valid"):
        folder = tmp_path / "own" / split
        tokenize_files([tmp_path / "a.txt"], folder, load("bytes", tmp_path), between=between, separator=separator)
    whole, parted = (corpus("shards:own", tmp_path, validation=share) for share in (0.0, 0.25))
    assert parted.validation is not None
    assert len(parted.train.tokens) == int(0.75 * len(whole.train.tokens))


@pytest.mark.parametrize("name", KINDS)
def test_every_seed_and_batch_keeps_the_same_samples_out(name: str, root: Path) -> None:
    first, second = (opened(KINDS[name].task(0.2), root, seed, batch) for seed, batch in ((0, 12), (1, 24)))
    if name in ("causal", "masked"):
        ends = [(work.validation.held.tokens.first, work.validation.held.tokens.last) for work in (first, second)]
        assert ends[0] == ends[1]
    else:
        assert kept_out(first) == kept_out(second)


def test_the_way_pictures_are_changed_or_shown_does_not_choose_them(root: Path) -> None:
    base = Images(limit=120, test_limit=30, validation=0.2)
    others = (replace(base, augment=Augment(flip=True, mixup=0.8)), replace(base, test_limit=7, label_smoothing=0.1))
    kept = [kept_out(opened(task, root)) for task in (base, *others)]
    assert kept[0] == kept[1] == kept[2]


@pytest.mark.parametrize("name", KINDS)
def test_every_metric_is_scored_twice_and_adds_up_over_parts(name: str, root: Path) -> None:
    model = build(KINDS[name].arch, seed=0).eval()
    plain, work = (opened(KINDS[name].task(share), root) for share in (0.0, 0.2))
    before, scores = plain.score(plain.tally(model)), work.score(work.tally(model))
    assert set(scores) == set(before) | {f"valid_{metric}" for metric in before}
    assert {metric: scores[metric] for metric in before} == before
    assert scores["valid_loss"] != scores["loss"]
    assert set(work.trivial()) == set(plain.trivial()) | {f"valid_{metric}" for metric in plain.trivial()}
    tallies = [work.tally(model, (part, 3)) for part in range(3)]
    summed = {metric: torch.stack([tally[metric] for tally in tallies]).sum(0) for metric in tallies[0]}
    assert work.score(summed) == pytest.approx(scores, rel=1e-5)


def test_validation_scores_are_those_of_the_validation_samples(root: Path) -> None:
    work = opened(KINDS["images"].task(0.2), root)
    model = build(KINDS["images"].arch, seed=0).eval()
    stored, labels = next(iter(work.source.held([np.arange(work.validation.held_out)], "valid")))
    images = read("fashion_mnist", root)[0]
    assert isinstance(images, Pixels)
    numbers = parted(np.sort(balanced(images.labels, 120)), 0.2, "share")[1]
    assert torch.equal(stored, torch.from_numpy(images.images[numbers]))
    with torch.no_grad():
        logits = model(work.normalise(stored))
    scores = work.score(work.tally(model))
    assert scores["valid_loss"] == pytest.approx(functional.cross_entropy(logits, labels).item(), rel=1e-5)
    assert scores["valid_top1"] == (logits.argmax(1) == labels).double().mean().item()

    work = opened(KINDS["causal"].task(0.2), root)
    language = build(KINDS["causal"].arch, seed=0).double().eval()
    tokens = work.validation.held.tokens
    read_ids = torch.from_numpy(tokens.rows(9 * np.arange((len(tokens) - 1) // 9), 10))
    loss = functional.cross_entropy(language(read_ids[:, :-1]).flatten(0, 1), read_ids[:, 1:].flatten()).item()
    assert work.score(work.tally(language))["valid_loss"] == pytest.approx(loss, rel=1e-6)


@pytest.mark.parametrize(
    ("task", "told"),
    [
        (Images(limit=20, validation=0.001), "Images.validation is 0.001, which leaves none of 20 training samples"),
        (Glue("rte", tokenizer="stories", tokens=40, limit=5, validation=0.001), "Glue.validation is 0.001"),
        (
            LanguageModel("shards:own", tokens=200, vocab=261, validation=0.001),
            r"LanguageModel.validation is 0.001: the last documents of shards:own have \d+ ids, which do not fill one",
        ),
    ],
)
def test_a_split_without_samples_is_refused(task: Task, told: str, root: Path) -> None:
    with pytest.raises(UserError, match=told):
        opened(task, root)


@pytest.mark.parametrize("name", KINDS)
def test_a_share_is_a_field_that_is_written_where_it_is_not_zero(name: str) -> None:
    plain, task = KINDS[name].task(0.0), KINDS[name].task(0.2)
    assert "validation" not in to_dict(plain)
    assert to_dict(task)["validation"] == 0.2
    assert from_dict(to_dict(task)) == task
    with pytest.raises(UserError, match=rf"{type(plain).__name__}.validation is 1; write a number from 0 to 0.9"):
        KINDS[name].task(1)


# ---------------------------------------------------------------------------------------------------------------- runs
def short(name: str) -> RunSpec:
    """A few steps."""
    recipe = {"batch": 12, "basis": {"kind": "steps", "amount": 12}, "lr": 5e-3, "log_every": 2}
    cadence = {"evaluate_every": 3, "probe_every": 6, "probe_samples": 2, "checkpoint_every": 4}
    task = KINDS[name].task(0.2)
    if isinstance(task, Glue):
        task = replace(task, weights="scratch")
    return run_spec(KINDS[name].arch, task, recipe | cadence, 0)


@pytest.mark.parametrize("name", KINDS)
def test_a_resumed_run_is_equal_to_the_bit_and_writes_both_scores(name: str, root: Path, tmp_path: Path) -> None:
    result = train(Run.create(tmp_path / "whole", short(name)), device="cpu", progress="none", root=root)
    stopper: Any = Stopper(6)
    with pytest.raises(Stopped):
        train(Run.create(tmp_path / "parts", short(name)), device="cpu", progress=stopper, root=root)
    again = train(Run.create(tmp_path / "parts", short(name)), device="cpu", progress="none", root=root)
    assert traces(tmp_path / "whole") == traces(tmp_path / "parts")
    assert {**result, "timing": 0} == {**again, "timing": 0}
    records = [record for record in Run.open(tmp_path / "parts").metrics.read() if record["kind"] == "eval"]
    headline = result["better"][0]
    assert len(records) == 4
    for scores in (*records, result["score"]):
        assert {headline, f"valid_{headline}", "loss", "valid_loss"} <= set(scores)


def test_the_best_evaluation_is_the_one_that_validation_finds(tmp_path: Path) -> None:
    scores = [{"top1": top1, "valid_top1": valid} for top1, valid in ((0.5, 0.4), (0.9, 0.3), (0.6, 0.7), (0.8, 0.6))]
    run = Run.create(tmp_path / "run", short("images"))
    for step, score in enumerate(scores, 1):
        run.metrics.append({"step": step, "samples": step, "kind": "eval"} | score)
    work = opened(KINDS["images"].task(0.2), tmp_path)
    with joined("none", "cpu") as ranks:
        made = outcome(run, run.spec.recipe, work, ranks, steps=4, samples=4, seconds=1.0)
    assert made["best"] == {"step": 3} | scores[2]
    assert made["score"] == scores[3]
