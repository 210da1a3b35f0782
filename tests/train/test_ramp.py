"""A batch that grows with the budget: Crammed BERT's formula, samples counted right, the same bits when it is
killed."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
import torch

from manyheads.arch.families import crammed_bert, nearest_neighbor
from manyheads.experiments.recipes import crammed
from manyheads.models.build import build
from manyheads.runs import Run
from manyheads.spec.errors import UserError
from manyheads.spec.parts import Masked, Norm
from manyheads.spec.recipe import Basis, Recipe
from manyheads.spec.schedule import factor
from manyheads.tasks import MaskedLanguage, open_task, to_dict
from manyheads.tasks.points import NearestNeighbor
from manyheads.train.budget import TrainingBudget, budget, ramp_parts
from manyheads.train.early_end import Diverged
from manyheads.train.estimate import estimate
from manyheads.train.loop import train
from tests.faults.killing import KILLED, attempt, killed_at
from tests.specs import run_spec
from tests.train.tiny import ARCH, RECIPE, Blobs, run_here, spec, steps, together, traces
from tests.train.workers import train_together

GROWS = {"batch": 16, "accumulate": 8, "ramp": 0.5, "eps": 1e-5}
SAMPLES = {"kind": "samples", "amount": 240}
BASES = {"samples": SAMPLES, "steps": steps(20)}


def told(folder: Path, kind: str = "train") -> list[dict]:
    """Records of the metrics."""
    found = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [record for record in found if record["kind"] == kind]


def test_the_ramp_is_the_originals() -> None:
    """min(mbs (floor(t / 0.6 x 8192 / mbs) + 1), 8192), also at the micro-batch of the author's own script."""
    for rows in (128, 512):
        recipe = crammed(rows=rows)
        assert recipe.rows == recipe.dealt == rows
        for t in (0.0, 0.001, 0.01, 0.29, 0.3, 0.45, 0.59, 0.6, 0.9, 1.0):
            assert rows * ramp_parts(recipe, t) == min(rows * (math.floor(t / 0.60 * 8192 / rows) + 1), 8192)


def test_a_budget_of_samples_is_spent_to_the_part_and_progress_goes_by_it() -> None:
    recipe = Recipe(batch=64, accumulate=16, ramp=0.6, basis=Basis("samples", 4000))
    spend = budget(recipe, ARCH, unit="images", per_sample=1, samples=None)
    assert spend.parts_before is not None
    sizes = [4 * spend.parts(recipe, step, 0.0) for step in range(spend.steps or 0)]
    assert (sum(sizes), spend.samples(recipe)) == (4000, 4000)
    assert sizes[0] == 4
    assert sizes[:-1] == sorted(sizes[:-1])  # the last step takes what is left
    assert max(sizes) == 64
    seen = 0
    for step, size in enumerate(sizes[:-1]):
        assert spend.progress(step, 0.0) == seen / 4000
        assert size == 4 * ramp_parts(recipe, seen / 4000)
        seen += size
    assert [spend.spent(step, 0.0) for step in (len(sizes) - 1, len(sizes))] == [False, True]
    assert 0 < spend.midpoint(0, 0.0) < spend.midpoint(len(sizes) - 1, 0.0) < 1
    due = [step for step in range(1, len(sizes) + 1) if spend.due(0.25, step, 0.0, 0.0)]
    assert [math.floor(4 * spend.progress(step, 0.0)) for step in due] == [1, 2, 3, 4]
    tokens = budget(replace(recipe, basis=Basis("tokens", 4000 * 32)), ARCH, unit="tokens", per_sample=32, samples=None)
    epochs = budget(replace(recipe, basis=Basis("epochs", 4)), ARCH, unit="images", per_sample=1, samples=1000)
    assert tokens == epochs == spend


def test_a_budget_of_steps_grows_by_steps_and_one_of_seconds_by_the_clock() -> None:
    recipe = Recipe(batch=64, accumulate=16, ramp=0.5, basis=Basis("steps", 64))
    spend = budget(recipe, ARCH, unit="images", per_sample=1, samples=None)
    assert spend == TrainingBudget(64)
    assert [spend.parts(recipe, step, 0.0) for step in (0, 1, 2, 30, 31, 32, 63)] == [1, 1, 2, 16, 16, 16, 16]
    assert spend.samples(recipe) == 4 * (2 * sum(range(1, 17)) + 32 * 16)
    clock = TrainingBudget(None, 10.0)
    assert [clock.parts(recipe, 7, elapsed) for elapsed in (0.0, 2.5, 5.0, 9.0)] == [1, 9, 16, 16]
    assert clock.samples(recipe) is None


@pytest.mark.parametrize("basis", BASES)
def test_a_growing_batch_trains_as_a_plain_loop_over_growing_batches(basis: str, tmp_path: Path) -> None:
    made = spec(basis=BASES[basis], weight_decay=0.0, clip=0.0, log_every=1, **GROWS)
    result = run_here(tmp_path / "a", made)
    recipe = made.recipe
    spend = budget(recipe, ARCH, unit="images", per_sample=1, samples=None)
    model = build(ARCH, device="cpu", seed=0)
    plain = torch.optim.AdamW(model.parameters(), lr=1.0, weight_decay=0.0, eps=1e-5)
    work = open_task(Blobs(), torch.device("cpu"), 0, 2)
    losses, samples, number = [], [], 0
    for step in range(spend.steps or 0):
        count = spend.parts(recipe, step, 0.0)
        parts = [work.batch(number + part, range(2)) for part in range(count)]
        plain.param_groups[0]["lr"] = recipe.lr * factor(recipe.schedule, spend.midpoint(step, 0.0))
        loss = work.loss(model, *(torch.cat(both) for both in zip(*parts, strict=True)))
        plain.zero_grad()
        loss.backward()
        plain.step()
        number += count
        losses.append(loss.item())
        samples.append(2 * number)
    records = told(tmp_path / "a")
    assert [record["loss"] for record in records] == pytest.approx(losses, rel=1e-4)
    assert [record["samples"] for record in records] == samples
    assert [record["batch"] for record in records] == [now - before for before, now in pairwise([0, *samples])]
    assert records[0]["batch"] == 2 < max(record["batch"] for record in records) == 16
    assert (result["samples"], result["steps"]) == (samples[-1], len(samples))
    assert told(tmp_path / "a", "eval")[-1]["samples"] == samples[-1]
    assert estimate(ARCH, recipe, gpus=1).samples == samples[-1]


@pytest.mark.parametrize("basis", BASES)
def test_a_run_killed_while_its_batch_grows_ends_with_the_same_bits(basis: str, tmp_path: Path) -> None:
    made = spec(basis=BASES[basis], ema=0.9, rates={"dropout": 0.1}, checkpoint_every=3, evaluate_every=0.25, **GROWS)
    attempt(tmp_path / "whole", made, 180)
    kills = sum(killed_at(tmp_path / "run", made, event) == KILLED for event in (30, 35, 40))
    assert kills == 3
    assert Run.open(tmp_path / "run").state != "done"
    attempt(tmp_path / "run", made, 180)
    assert traces(tmp_path / "run") == traces(tmp_path / "whole")


def test_two_processes_grow_as_one(tmp_path: Path) -> None:
    made = spec(basis=SAMPLES, **(GROWS | {"batch": 32}))
    run_here(tmp_path / "one", made)
    together(2, train_together, str(tmp_path / "two"), made.to_dict(), "ddp")
    one, two = (told(tmp_path / name) for name in ("one", "two"))
    assert [record["samples"] for record in one] == [record["samples"] for record in two]
    assert [record["loss"] for record in two] == pytest.approx([record["loss"] for record in one], rel=1e-4)


def test_two_processes_have_one_clock_checkpoints_or_not(tmp_path: Path) -> None:
    """A process that went by its own clock would grow, or end, before the other, which then waits for it in vain."""
    basis = {"kind": "seconds", "amount": 1.5}
    made = spec(basis=basis, log_every=1, checkpoint_every=1, evaluate_every=0, **(GROWS | {"batch": 32}))
    together(2, train_together, str(tmp_path / "two"), made.to_dict(), "ddp")
    records = told(tmp_path / "two")
    assert records[-1]["samples"] == sum(record["batch"] for record in records)
    assert Run.open(tmp_path / "two").state == "done"


def test_data_that_comes_again_after_so_many_batches_does_not_grow(tmp_path: Path) -> None:
    task = to_dict(NearestNeighbor(dim=8, tokens=4, replay=3))
    arch = nearest_neighbor(8, 1, 1, 8, 16, tokens=4)
    with pytest.raises(UserError, match="replays 3 batches"):
        train(
            Run.create(tmp_path / "run", run_spec(arch, task, spec(**GROWS).recipe, 0)), device="cpu", progress="none"
        )


def test_by_the_clock_samples_stay_right_when_a_run_is_stopped_and_goes_on(tmp_path: Path) -> None:
    made = spec(basis={"kind": "seconds", "amount": 1.0}, log_every=1, checkpoint_every=0, evaluate_every=0, **GROWS)
    together(1, train_together, str(tmp_path / "run"), made.to_dict(), "none", 20)
    assert Run.open(tmp_path / "run").state == "stopped"
    stopped = len(told(tmp_path / "run"))
    result = train_again(tmp_path / "run")
    records = told(tmp_path / "run")
    assert 20 <= stopped < len(records)
    seen = 0
    for record in records:
        seen += record["batch"]
        assert record["samples"] == seen
    batches = [record["batch"] for record in records]
    assert batches[0] == 2
    assert batches == sorted(batches)
    assert batches[-1] == 16
    assert (result["samples"], result["steps"]) == (seen, len(records))
    assert result["images"] == seen


def train_again(folder: Path) -> dict:
    """Train a folder to its end."""
    return run_here(folder, Run.open(folder).spec)


def test_the_record_of_a_divergence_tells_the_samples_before_it(tmp_path: Path) -> None:
    made = spec(basis=steps(20), lr=1e6, schedule={"kind": "constant"}, log_every=4, clip=0.0, **GROWS)
    with pytest.raises(Diverged):
        run_here(tmp_path / "a", made)
    (record,) = told(tmp_path / "a", "diverged")
    recipe = made.recipe
    spend = TrainingBudget(20)
    assert record["samples"] == 2 * sum(spend.parts(recipe, step, 0.0) for step in range(record["step"])) > 0


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"ramp": -0.1, "accumulate": 4}, "fraction of the run in which the batch grows"),
        ({"ramp": 1.5, "accumulate": 4}, "fraction of the run in which the batch grows"),
        ({"ramp": 0.6}, "this one has a single part; write accumulate=2 or more"),
        ({"ramp": 0.6, "accumulate": 4, "capture": "on"}, "write capture=auto, or ramp=0"),
    ],
)
def test_a_ramp_that_cannot_be_is_refused(fields: dict, words: str) -> None:
    with pytest.raises(UserError, match=words):
        Recipe.from_dict(RECIPE | fields)


def test_a_constant_batch_is_recorded_as_before_and_a_ramp_makes_another_run() -> None:
    assert "ramp" not in Recipe().to_dict()
    assert Recipe.from_dict(crammed().to_dict()) == crammed()
    plain, grown = (
        spec(**(Recipe.from_dict(RECIPE | {"accumulate": 8, "ramp": much}).to_dict())) for much in (0.0, 0.5)
    )
    assert plain.id == spec(**Recipe.from_dict(RECIPE | {"accumulate": 8}).to_dict()).id != grown.id


def test_the_crammed_recipe_learns_the_embedded_stories_on_exactly_its_tokens(tmp_path: Path) -> None:
    """Its triangle and its ramp, from 4 sequences to 32, at a size for seconds: far below equal chances, ln 2048."""
    arch = crammed_bert(48, 1, 3, 16, 48, vocab=2048, tokens=32, head=Masked(norm=Norm(eps=1e-12)))
    tokens = 4 * 32 * 800
    recipe = replace(crammed(Basis("tokens", tokens), batch=32, rows=4), lr=5e-3, evaluate_every=0, checkpoint_every=0)
    task = MaskedLanguage(tokens=32, test_limit=64)
    made = run_spec(arch, to_dict(task), recipe.to_dict(), 0)
    result = run_here(tmp_path / "run", made)
    assert (result["tokens"], result["samples"]) == (tokens, 4 * 800)
    assert result["steps"] < 800 / 2  # most steps took several parts
    assert {record["batch"] for record in told(tmp_path / "run")} >= {32}
    assert result["score"]["loss"] < 5.8 < result["trivial"]["loss"] - 1.8
