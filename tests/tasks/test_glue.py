"""GLUE: the official files are read, each task has its metric, what is missing is told, and every task is learned."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from manyheads.arch import zoo
from manyheads.arch.families import bert, crammed_bert
from manyheads.data.text import glue
from manyheads.data.text.glue import Examples, encode, read_examples, shortened
from manyheads.data.text.vocabulary import load
from manyheads.models.build import build
from manyheads.models.store import save
from manyheads.runs import Run
from manyheads.spec.datasets import GLUE_SETS, glue_set
from manyheads.spec.errors import UserError
from manyheads.tasks import Glue, MaskedLanguage, check, fit, glue_scores, open_task, to_dict
from manyheads.tasks.glue import GlueWork
from manyheads.train.finetune import begin, finetune, weights_digest
from tests.specs import run_spec
from tests.train.tiny import traces

from .glue_files import write, write_all

CPU = torch.device("cpu")
STORIES = load("stories", Path())
ENCODER = crammed_bert(32, 1, 2, 16, 48, vocab=2048, tokens=40)


def work(root: Path, task: str, batch: int = 16, seed: int = 0, **fields: object) -> GlueWork:
    """A task on small files, with the embedded tokenizer."""
    given = {"tokenizer": "stories", "tokens": 40} | fields
    return open_task(Glue(task, **given), CPU, seed, batch, root=root)  # type: ignore[arg-type]


# ------------------------------------------------------------------------------------------------------------- metrics
def test_metrics_are_those_of_scipy_and_of_the_formulas() -> None:
    stats = pytest.importorskip("scipy.stats", reason="scipy is in the dev extra")
    dice = np.random.default_rng(0)
    for _ in range(5):
        found, true = dice.integers(0, 2, 200), dice.integers(0, 2, 200)
        assert glue_scores.matthews(found, true) == pytest.approx(
            stats.pearsonr(found, true).statistic
        )  # the phi coefficient
        a = dice.normal(size=100).round(1)  # with ties
        b = a + dice.normal(size=100)
        assert glue_scores.pearson(a, b) == pytest.approx(stats.pearsonr(a, b).statistic)
        assert glue_scores.spearman(a, b) == pytest.approx(stats.spearmanr(a, b).statistic)
        assert glue_scores.ranks(a).tolist() == stats.rankdata(a).tolist()


def test_metrics_are_those_of_scikit_learn() -> None:
    metrics = pytest.importorskip("sklearn.metrics", reason="scikit-learn is not installed; known answers are below")
    dice = np.random.default_rng(1)
    for share in (0.1, 0.5, 0.9):
        found, true = (dice.random(300) < share).astype(int), (dice.random(300) < 0.6).astype(int)
        assert glue_scores.accuracy(found, true) == pytest.approx(metrics.accuracy_score(true, found))
        assert glue_scores.f1(found, true) == pytest.approx(metrics.f1_score(true, found))
        assert glue_scores.matthews(found, true) == pytest.approx(metrics.matthews_corrcoef(true, found))


def test_metrics_have_their_known_answers() -> None:
    found, true = np.array([1, 1, 1, 0, 0, 0, 1, 0]), np.array([1, 1, 0, 0, 0, 1, 1, 0])
    assert glue_scores.confusion(found, true) == (3, 1, 1, 3)
    assert (glue_scores.accuracy(found, true), glue_scores.f1(found, true), glue_scores.matthews(found, true)) == (
        0.75,
        0.75,
        0.5,
    )
    ones, zeros = np.ones(4, dtype=int), np.zeros(4, dtype=int)
    assert (glue_scores.f1(zeros, ones), glue_scores.f1(zeros, zeros), glue_scores.matthews(ones, ones)) == (0, 0, 0)
    assert glue_scores.pearson(np.array([1.0, 2, 3]), np.array([2.0, 4, 6])) == pytest.approx(1)
    assert glue_scores.pearson(np.array([1.0, 1, 1]), np.array([2.0, 4, 6])) == 0
    assert glue_scores.spearman(np.array([1.0, 2, 3]), np.array([1.0, 8, 27])) == pytest.approx(1)
    # the notes on Table 1: RTE 3.0, MRPC 1.8, SST-2 0.9 points at the accuracies of these models
    for share, rows, points in ((0.6, 277, 2.9), (0.85, 408, 1.8), (0.92, 872, 0.9)):
        assert 100 * glue_scores.binomial_error(share, rows) == pytest.approx(points, abs=0.06)


def test_the_median_over_seeds_stands_with_its_error_and_its_ends() -> None:
    seeds = [{"accuracy": share, "standard_error": share / 10} for share in (0.7, 0.9, 0.75)]
    (line,) = glue_scores.lines({"rte": seeds})
    assert (line.median, line.low, line.high, line.seeds, line.error) == pytest.approx((75, 70, 90, 3, 7.5))
    assert "75.0 +- 7.5" in glue_scores.table([line])
    with pytest.raises(UserError, match="without cola, sst2"):
        glue_scores.average([line])
    every = {
        task: [{GLUE_SETS[task].metric: 0.5 + i / 100, "standard_error": 0.01}]
        for i, task in enumerate(glue_scores.TASKS)
    }
    assert glue_scores.average(glue_scores.lines(every)) == pytest.approx(53.5)
    assert "mean of eight" in glue_scores.table(glue_scores.lines(every))
    with pytest.raises(UserError, match="write a GLUE task"):
        glue_scores.lines({"wnli": seeds})


# --------------------------------------------------------------------------------------------------------------- files
def test_every_task_is_read_from_its_official_columns(tmp_path: Path) -> None:
    write_all(tmp_path, train=30, held=10)
    assert len(GLUE_SETS) == 8
    for task in GLUE_SETS.values():
        found = read_examples(task, tmp_path / "glue" / task.folder / "train.tsv")
        assert (len(found.first), len(found.second), len(found.labels), found.short) == (30, 30, 30, 0)
        told = found.second if task.second else found.first
        for sign, label in (("happy", 0), ("sad", 1), ("funny", 2)):
            chosen = [value for text, value in zip(told, found.labels, strict=True) if sign in text.split('"')[1]]
            assert all(
                value == label if task.classes else abs(value - (0.5, 2.5, 4.5)[label]) < 0.31 for value in chosen
            )
        assert all('"' in text for text in told)  # quotation marks are text
        assert task.second is None or all(found.second)


def test_what_a_file_lacks_is_told_with_its_name_and_line(tmp_path: Path) -> None:
    task = glue_set("rte")
    folder = write(tmp_path, task)
    path = folder / "dev.tsv"
    good = path.read_text()
    lines = good.splitlines()
    for content, told in [
        (good.replace("label", "lable"), "no column label; it has index, sentence1, sentence2, lable"),
        ("\n".join(line.rpartition("\t")[0] for line in lines), "no column label"),
        ("", "no column sentence1"),
        (
            good.replace("not_entailment", "maybe", 1),
            r"line \d+ of .*dev.tsv has the label 'maybe'; RTE has entailment",
        ),
        (good.replace("\t", "    "), "no column"),
        (lines[0] + "\n" + "\n".join(["x\ty"] * 9), "0 whole lines and 9 with"),
    ]:
        path.write_text(content)
        with pytest.raises(UserError, match=told):
            work(tmp_path, "rte")
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(UserError, match="is not UTF-8"):
        work(tmp_path, "rte")
    path.unlink()
    with pytest.raises(UserError, match=r"dev.tsv is missing; RTE has train.tsv and dev.tsv"):
        work(tmp_path, "rte")
    with pytest.raises(UserError, match=r"GLUE's QNLI is not at .*glue/QNLI; get it from https://gluebenchmark"):
        work(tmp_path, "qnli")
    with pytest.raises(UserError, match="'qnil' is no GLUE task; did you mean qnli"):
        Glue("qnil")
    stsb = write(tmp_path, glue_set("stsb")) / "dev.tsv"
    stsb.write_text(stsb.read_text().splitlines()[0] + "\n" + "\t".join("123456789") + "\t7\n")
    with pytest.raises(UserError, match="has the score '7'; STS-B has numbers from 0 to 5"):
        work(tmp_path, "stsb")


def test_a_few_short_lines_and_labels_without_agreement_are_left_out(tmp_path: Path) -> None:
    qqp = write(tmp_path, glue_set("qqp")) / "train.tsv"
    qqp.write_text(qqp.read_text() + "1\t2\t3\n")
    assert read_examples(glue_set("qqp"), qqp).short == 1
    mnli = write(tmp_path, glue_set("mnli")) / "dev_matched.tsv"
    mnli.write_text(mnli.read_text().replace("\tneutral\n", "\t-\n"))
    assert len(read_examples(glue_set("mnli"), mnli).labels) < 60


# ---------------------------------------------------------------------------------------------------------------- rows
def test_a_row_is_cls_a_sep_b_sep() -> None:
    one = encode(Examples(["the cat"], [""], np.array([1])), STORIES, 10)
    two = encode(Examples(["the cat"], ["sat down"], np.array([0])), STORIES, 10)
    a, b = STORIES.encode(["the cat", "sat down"])
    assert one.ids[0].tolist() == [2, *a, 3, 3] + [0] * (10 - len(a) - 3)
    assert two.ids[0].tolist() == [2, *a, 3, *b, 3] + [0] * (10 - len(a) - len(b) - 3)
    assert (one.lengths[0], two.lengths[0], two.parts[0]) == (len(a) + 3, len(a) + len(b) + 3, len(a) + 2)


def test_the_longer_sentence_gives_way() -> None:
    for left, right, room in ((9, 2, 6), (2, 9, 6), (9, 9, 7), (3, 3, 6), (0, 9, 4), (5, 4, 8), (4, 5, 3)):
        a, b = shortened(list(range(left)), list(range(right)), room)
        plain = [left, right]
        while sum(plain) > room:
            plain[0 if plain[0] > plain[1] else 1] -= 1
        assert [len(a), len(b)] == plain
        assert (a, b) == (list(range(len(a))), list(range(len(b))))


def test_batches_masks_and_segments_are_functions_of_seed_step_and_row(tmp_path: Path) -> None:
    write(tmp_path, glue_set("mrpc"))
    whole = work(tmp_path, "mrpc", segments=True).batch(9, range(16))
    parts = [work(tmp_path, "mrpc", segments=True).batch(9, rows) for rows in (range(8), range(8, 16))]
    for mine, theirs in zip(whole, zip(*parts, strict=True), strict=True):
        assert torch.equal(mine, torch.cat(theirs))
    ids, real, types, labels = whole
    assert torch.equal(real, ids != 0)
    assert [int(row.sum()) for row in types] == [
        int((row[:n].flip(0) == 3).nonzero()[1]) for row, n in zip(ids, real.sum(1).tolist(), strict=True)
    ]
    assert (labels.dtype, ids.dtype) == (torch.int64, torch.int64)
    assert len(work(tmp_path, "mrpc").batch(0, range(4))) == 3


def test_rows_are_kept_and_used_without_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, glue_set("rte"))
    first = work(tmp_path, "rte")
    kept = sorted((tmp_path / "glue" / "encoded").iterdir())
    assert [path.name.split("-")[:2] for path in kept] == [["rte", "dev"], ["rte", "train"]]
    monkeypatch.setattr(glue, "encode", None)
    again = work(tmp_path, "rte")
    assert np.array_equal(first.train.ids, again.train.ids)
    monkeypatch.undo()
    kept[1].write_bytes(kept[1].read_bytes()[:100])  # damaged: made again
    assert np.array_equal(first.train.ids, work(tmp_path, "rte").train.ids)
    work(tmp_path, "rte", tokens=30)
    assert len(list((tmp_path / "glue" / "encoded").iterdir())) == 4


# ------------------------------------------------------------------------------------------------------------ training
@pytest.mark.parametrize("task", GLUE_SETS)
def test_every_task_is_learned_and_scored_by_its_metric(task: str, tmp_path: Path) -> None:
    write(tmp_path, glue_set(task), train=160, held=40)
    opened = work(tmp_path, task, batch=32)
    arch = fit(Glue(task, tokenizer="stories", tokens=40), ENCODER)
    check(Glue(task, tokenizer="stories", tokens=40), arch)
    model = build(arch, seed=0)
    optimizer = torch.optim.AdamW(model.parameters(), 5e-3, betas=(0.9, 0.98))
    for step in range(150):
        loss = opened.loss(model, *opened.batch(step, range(32)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.eval()
    score, trivial = opened.score(opened.tally(model)), opened.trivial()
    assert opened.better == (GLUE_SETS[task].metric, "up")
    assert score["loss"] < 0.5 * trivial["loss"]
    assert score[opened.better[0]] > 0.85
    assert 0 <= score["standard_error"] < 0.06
    assert ("accuracy_mismatched" in score) == (task == "mnli")
    assert ("spearman" in score) == (task == "stsb")


def test_evaluation_adds_up_over_parts_and_a_broken_model_scores_nothing(tmp_path: Path) -> None:
    write(tmp_path, glue_set("mnli"), held=37)
    opened = work(tmp_path, "mnli")
    model = build(fit(Glue("mnli", tokenizer="stories", tokens=40), ENCODER), seed=0).double().eval()
    whole = opened.tally(model)
    for parts in (2, 3):
        tallies = [opened.tally(model, (part, parts)) for part in range(parts)]
        for name, tensor in whole.items():
            torch.testing.assert_close(sum(tally[name] for tally in tallies), tensor)
    assert whole["outputs1"].shape == (37, 3)
    broken = opened.score({name: tensor * float("nan") for name, tensor in whole.items()})
    assert math.isnan(broken["accuracy"])
    assert math.isnan(broken["loss"])
    probed = opened.probe_batch(4)
    assert probed.shape[0] == 4
    assert (probed != 0).all()


def test_fine_tuning_starts_from_the_pretrained_weights_and_resumes(tmp_path: Path) -> None:
    write(tmp_path, glue_set("rte"), train=64, held=20)
    save(build(ENCODER, seed=3), tmp_path / "pretrained")
    task = Glue("rte", tokenizer="stories", tokens=40, weights=weights_digest(tmp_path / "pretrained"))
    recipe = {
        "batch": 16,
        "basis": {"kind": "epochs", "amount": 2},
        "lr": 1e-3,
        "rates": {"dropout": 0.1},
        "ema": 0.9,
        "checkpoint_every": 3,
        "probe_every": 4,
        "probe_samples": 2,
    }
    spec = run_spec(fit(task, ENCODER), to_dict(task), recipe, 1)
    for name in "ab":
        run = Run.create(tmp_path / name, spec)
        begin(run, tmp_path / "pretrained")
        begin(run, tmp_path / "pretrained")  # it has begun: nothing happens
        result = finetune(run, tmp_path / "pretrained", device="cpu", progress="none", root=tmp_path)
        assert result["steps"] == 8
    assert traces(tmp_path / "a") == traces(tmp_path / "b")
    still = replace(task, test_limit=19)
    run = Run.create(
        tmp_path / "c", run_spec(fit(task, ENCODER), to_dict(still), recipe | {"lr": 1e-12, "ema": 0.0}, 1)
    )
    finetune(run, tmp_path / "pretrained", device="cpu", progress="none", root=tmp_path)
    trained, source = build(fit(task, ENCODER), seed=1).state_dict(), build(ENCODER, seed=3).state_dict()
    from safetensors.torch import load_file

    for tensor_name, tensor in load_file(tmp_path / "c/model/model.safetensors").items():
        wanted = source if tensor_name in source else trained  # the new head is drawn from the run's own seed
        torch.testing.assert_close(tensor, wanted[tensor_name], rtol=0, atol=1e-8)


def test_fine_tuning_from_other_weights_is_another_run(tmp_path: Path) -> None:
    write(tmp_path, glue_set("rte"), train=64, held=20)
    save(build(ENCODER, seed=3), tmp_path / "first")
    save(build(ENCODER, seed=4), tmp_path / "second")
    save(build(crammed_bert(32, 2, 2, 8, 48, vocab=2048, tokens=40), seed=4), tmp_path / "other")
    task = Glue("rte", tokenizer="stories", tokens=40, weights=weights_digest(tmp_path / "first"))
    run = Run.create(tmp_path / "run", run_spec(fit(task, ENCODER), to_dict(task), {"batch": 16}, 1))
    with pytest.raises(UserError, match=r"has sha256 .*, and the run's task says weights="):
        begin(run, tmp_path / "second")
    with pytest.raises(UserError, match="does not exist; give the folder of a saved model"):
        begin(run, tmp_path / "none")
    deep = replace(task, weights=weights_digest(tmp_path / "other"))
    narrow = Run.create(tmp_path / "run2", run_spec(fit(task, ENCODER), to_dict(deep), {"batch": 16}, 1))
    with pytest.raises(
        UserError, match=r"holds a crammed_bert model without blocks.0.attention.op.qkv.weight of shape"
    ):
        begin(narrow, tmp_path / "other")


def test_check_and_fit_put_model_and_task_together() -> None:
    crammed = fit(Glue("mnli", vocab=32_768), zoo.get("crammed_bert"))
    assert (crammed.head.classes, crammed.head.hidden, crammed.head.act) == (3, 1024, "tanh")  # type: ignore[union-attr]
    check(Glue("mnli"), crammed)
    base = fit(Glue("stsb", segments=True), zoo.get("bert_base"))
    assert (base.head.classes, base.head.hidden) == (1, 768)  # type: ignore[union-attr]
    check(Glue("stsb", segments=True), base)
    for task, arch, told in [
        (Glue("rte"), zoo.get("crammed_bert"), "has a Classify head; this one is crammed_bert with Token and Masked"),
        (Glue("rte"), crammed, "rte has 2 outputs and the model gives 3"),
        (Glue("stsb"), base, r"write segments=True"),
        (Glue("mnli", vocab=40_000), crammed, "ids 0 to 39999 and the model's vocabulary is 32768"),
        (Glue("mnli", tokens=64), crammed, "Glue.tokens is 64 and the model is built for 128"),
    ]:
        with pytest.raises(UserError, match=told):
            check(task, arch)
    with pytest.raises(UserError, match="fine-tunes an encoder"):
        fit(Glue("rte"), zoo.get("gpt2"))
    for fields, told in [
        ({"tokenizer": "x.json"}, "write vocab="),
        ({"weights": "abc"}, "sha256"),
        ({"tokens": 3}, "of"),
        ({"segments": 1}, "true or false"),
        ({"limit": 0}, "limit is 0"),
    ]:
        with pytest.raises(UserError, match=told):
            Glue("rte", **fields)  # type: ignore[arg-type]


def test_another_tokenizer_than_stated_is_told(tmp_path: Path) -> None:
    write(tmp_path, glue_set("rte"))
    with pytest.raises(UserError, match="tokenizer stories has 2048 ids, and the task says vocab=999"):
        work(tmp_path, "rte", vocab=999)
    with pytest.raises(UserError, match="is no file and no folder"):
        work(tmp_path, "rte", tokenizer="x.json", vocab=9)
    assert MaskedLanguage().ids == Glue("rte", tokenizer="stories").ids
    assert work(tmp_path, "rte", tokenizer="bytes", tokens=64).train.ids.max() < 261
    model = build(
        fit(
            Glue("rte", tokenizer="stories", tokens=40, segments=True),
            bert(16, 1, 2, 8, 32, vocab=2048, tokens=40, positions=40),
        ),
        seed=0,
    )
    opened = work(tmp_path, "rte", segments=True)
    assert opened.loss(model, *opened.batch(0, range(8))).isfinite()
