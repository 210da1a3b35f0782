"""The loop: the run folder it leaves, what it logs, evaluates and probes, and the same numbers twice."""

from __future__ import annotations

import gc
import json
import math
import weakref
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from torch._dynamo.testing import CompileCounter

from manyheads.arch.families import vit
from manyheads.experiments import registry
from manyheads.models.build import build
from manyheads.models.store import load
from manyheads.runs import Run, RunSpec
from manyheads.spec.errors import UserError
from manyheads.spec.experiment import specs
from manyheads.spec.lock import Lock
from manyheads.spec.recipe import Rates, Recipe
from manyheads.spec.schedule import factor
from manyheads.tasks import open_task
from manyheads.train import loop
from manyheads.train.loop import train
from manyheads.train.sharding import units
from manyheads.train.step import compile_apart
from tests.specs import run_spec
from tests.train.tiny import ARCH, RECIPE, Blobs, run_here, spec, steps, traces


def lines(folder: Path, name: str, **wanted: object) -> list[dict]:
    """Records of a file whose fields are as wanted."""
    found = [json.loads(line) for line in (folder / name).read_text().splitlines()]
    return [record for record in found if all(record.get(key) == value for key, value in wanted.items())]


def test_a_run_leaves_a_finished_folder_whose_model_scores_what_the_result_says(tmp_path: Path) -> None:
    result = run_here(tmp_path / "a", spec(basis=steps(60)))
    run = Run.open(tmp_path / "a")
    assert run.state == "done"
    assert run.result == result
    assert result["steps"] == 60
    assert result["samples"] == 960
    assert result["score"]["top1"] > 0.6 > 2 * result["trivial"]["top1"]
    assert not run.checkpoints.exists()
    work = open_task(Blobs(), torch.device("cpu"), 0, 16)
    model = load(run.model).eval()
    with torch.no_grad():
        assert work.score(work.tally(model, (0, 1))) == result["score"]


def test_the_same_run_twice_writes_the_same_bytes(tmp_path: Path) -> None:
    made = spec(rates={"dropout": 0.1, "path": 0.1}, ema=0.9)
    first, second = (run_here(tmp_path / name, made) for name in "ab")
    assert traces(tmp_path / "a") == traces(tmp_path / "b")
    for result in (first, second):
        assert result.pop("timing")["seconds"] > 0
    assert first == second


def test_another_seed_starts_from_other_weights_and_sees_other_data(tmp_path: Path) -> None:
    for seed in (0, 1):
        run_here(tmp_path / str(seed), spec(seed=seed, basis=steps(4)))
    assert traces(tmp_path / "0")["metrics.jsonl"] != traces(tmp_path / "1")["metrics.jsonl"]
    assert traces(tmp_path / "0")["head.out.weight"] != traces(tmp_path / "1")["head.out.weight"]


def test_the_log_is_the_mean_loss_since_the_last_one_by_a_plain_loop(tmp_path: Path) -> None:
    run_here(tmp_path / "a", spec(weight_decay=0.0, clip=0.0))
    recipe = Recipe.from_dict(RECIPE)
    model = build(ARCH, device="cpu", seed=0)
    plain = torch.optim.AdamW(model.parameters(), lr=1.0, weight_decay=0.0)
    work = open_task(Blobs(), torch.device("cpu"), 0, 16)
    losses = []
    for step in range(20):
        plain.param_groups[0]["lr"] = recipe.lr * factor(recipe.schedule, (step + 0.5) / 20)
        loss = work.loss(model, *work.batch(step, range(16)))
        plain.zero_grad()
        loss.backward()
        plain.step()
        losses.append(loss.item())
    told = [record["loss"] for record in lines(tmp_path / "a", "metrics.jsonl", kind="train")]
    assert told == pytest.approx([math.fsum(losses[i : i + 4]) / 4 for i in range(0, 20, 4)], rel=1e-4)


def test_evaluation_and_probe_come_at_their_cadence_and_at_the_end(tmp_path: Path) -> None:
    run_here(tmp_path / "a", spec(basis=steps(25)))
    assert [record["step"] for record in lines(tmp_path / "a", "metrics.jsonl", kind="eval")] == [10, 20, 25]
    assert [record["step"] for record in lines(tmp_path / "a", "metrics.jsonl", kind="train")] == [
        4,
        8,
        12,
        16,
        20,
        24,
        25,
    ]
    probed = lines(tmp_path / "a", "spectra.jsonl")
    assert [record["step"] for record in probed] == [0, 0, 10, 10, 20, 20, 25, 25]
    assert {record["layer"] for record in probed} == {0, 1}


def test_parts_of_a_batch_accumulate_to_the_whole(tmp_path: Path) -> None:
    for parts in (1, 4):
        run_here(tmp_path / str(parts), spec(accumulate=parts))
    whole, parts = (lines(tmp_path / name, "metrics.jsonl") for name in ("1", "4"))
    assert [record["loss"] for record in parts] == pytest.approx([record["loss"] for record in whole], rel=1e-4)


def test_averaged_weights_follow_their_formula_and_are_the_ones_saved(tmp_path: Path) -> None:
    """The average after two steps from the weights after none, one and two, each the end of a run of its own."""
    schedule = {"kind": "constant"}
    for count in (1, 2):
        run_here(tmp_path / str(count), spec(basis=steps(count), schedule=schedule))
    run_here(tmp_path / "ema", spec(basis=steps(2), schedule=schedule, ema=0.75))
    zero = build(ARCH, device="cpu", seed=0).state_dict()
    one, two, averaged = (load(tmp_path / name / "model").state_dict() for name in ("1", "2", "ema"))
    for name, tensor in averaged.items():
        expected = 0.75 * (0.75 * zero[name] + 0.25 * one[name]) + 0.25 * two[name]
        torch.testing.assert_close(tensor, expected)
    work = open_task(Blobs(), torch.device("cpu"), 0, 16)
    with torch.no_grad():
        scored = work.score(work.tally(load(tmp_path / "ema" / "model").eval(), (0, 1)))
    assert Run.open(tmp_path / "ema").result["score"] == scored


def test_a_finished_run_gives_its_result_and_is_not_touched(tmp_path: Path) -> None:
    first = run_here(tmp_path / "a", spec())
    before = {path: path.read_bytes() for path in (tmp_path / "a").rglob("*") if path.is_file()}
    assert run_here(tmp_path / "a", spec()) == first
    assert {path: path.read_bytes() for path in (tmp_path / "a").rglob("*") if path.is_file()} == before


def test_a_budget_of_seconds_ends_by_the_clock(tmp_path: Path) -> None:
    basis = {"kind": "seconds", "amount": 0.3}
    result = run_here(tmp_path / "a", spec(basis=basis, log_every=1, evaluate_every=0.5, probe_every=0.5))
    times = [0.0, *(record["seconds"] for record in lines(tmp_path / "a", "timings.jsonl"))]
    longest = max(after - before for before, after in pairwise(times))  # on a busy machine
    assert 0.3 <= result["timing"]["seconds"] < max(0.6, 0.3 + 2 * longest)
    assert result["steps"] > 3
    rates = [record["lr"] for record in lines(tmp_path / "a", "metrics.jsonl", kind="train")]
    assert rates[-1] < 0.05 * max(rates)
    assert len(lines(tmp_path / "a", "metrics.jsonl", kind="eval")) == 2


def test_the_global_random_state_is_left_alone(tmp_path: Path) -> None:
    torch.manual_seed(5)
    before = torch.get_rng_state()
    run_here(tmp_path / "a", spec(basis=steps(2), rates={"dropout": 0.5}))
    assert torch.equal(before, torch.get_rng_state())


def test_a_specification_that_cannot_be_trained_is_told_before_anything_is_written(tmp_path: Path) -> None:
    for number, (wrong, words) in enumerate(
        (
            (lambda: spec(batch=15, accumulate=2), "batch of 15"),
            (lambda: spec(lr=-1.0), "recipe.lr"),
            (lambda: spec(learning_rate=1.0), "learning_rate"),
            (lambda: run_spec(ARCH, {"is": "Blob"}, RECIPE, 0), "Blobs"),
            (lambda: spec(basis={"kind": "tokens", "amount": 5}), "images"),
        )
    ):
        with pytest.raises(UserError, match=words):
            train(Run.create(tmp_path / str(number), wrong()), device="cpu", progress="none")
        assert not (tmp_path / str(number) / "metrics.jsonl").exists()


def test_a_half_precision_run_stays_close_to_a_full_one(tmp_path: Path) -> None:
    for precision in ("fp32", "bf16"):
        run_here(tmp_path / precision, spec(precision=precision))
    full, half = (
        [r["loss"] for r in lines(tmp_path / name, "metrics.jsonl", kind="train")] for name in ("fp32", "bf16")
    )
    assert half != full
    assert half == pytest.approx(full, rel=0.1)


def test_a_process_compiles_its_twelfth_run_as_it_did_its_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PyTorch gives up on a function that it has compiled 8 times, and goes on uncompiled without an error."""
    counter, compiled = CompileCounter(), torch.compile
    monkeypatch.setattr(torch, "compile", lambda forward: compiled(forward, backend=counter))
    frames = []
    for number in range(12):
        arch = vit(16, 1, 2, 8, 8 * (number + 1), image=8, patch=4, channels=1, classes=4)
        run_here(tmp_path / str(number), spec(arch, basis=steps(2), compile="on", evaluate_every=0, probe_every=0))
        frames.append(counter.frame_count)
    assert frames == [number * frames[0] for number in range(1, 13)]
    assert frames[0] > 0


def test_seeds_and_rates_of_a_design_are_compiled_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counter, compiled = CompileCounter(), torch.compile
    monkeypatch.setattr(torch, "compile", lambda forward: compiled(forward, backend=counter))
    designs = [vit(16, 1, 2, 8, units, image=8, patch=4, channels=1, classes=4) for units in (136, 144)]
    how = {"basis": steps(2), "evaluate_every": 0, "probe_every": 0}
    frames, results = [], []
    for number, (design, seed, lr) in enumerate([(0, 0, 1e-3), (1, 0, 1e-3), (0, 1, 1e-3), (1, 1, 2e-3), (0, 2, 1e-3)]):
        made = spec(designs[design], compile="on", lr=lr, **how)
        results.append(run_here(tmp_path / str(number), replace(made, seed=seed)))
        frames.append(counter.frame_count)
    assert frames[1] == 2 * frames[0] > 0
    assert frames[1:] == [frames[1]] * 4
    apart = spec(designs[0], compile="off", lr=1e-3, **how)
    alone = run_here(tmp_path / "alone", replace(apart, seed=2))
    assert results[4]["score"] == pytest.approx(alone["score"], rel=1e-5)


def test_what_is_kept_of_a_design_keeps_no_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    models = []
    made = loop.initial_model

    def remembered(*args: Any) -> torch.nn.Module:
        model = made(*args)
        models.append(weakref.ref(model))
        return model

    monkeypatch.setattr(loop, "initial_model", remembered)
    design = vit(16, 1, 2, 8, 152, image=8, patch=4, channels=1, classes=4)
    for seed in range(2):
        one = replace(spec(design, basis=steps(2), compile="on", evaluate_every=0, probe_every=0), seed=seed)
        run_here(tmp_path / str(seed), one)
    gc.collect()
    assert len(models) == 2
    assert all(model() is None for model in models)


def test_twelve_blocks_of_twelve_rates_are_all_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """As FSDP compiles them: block by block, and drop path grows with depth."""
    counter, compiled = CompileCounter(), torch.compile
    monkeypatch.setattr(torch, "compile", lambda forward: compiled(forward, backend=counter))
    model = build(vit(16, 12, 2, 8, 16, image=8, patch=4, channels=1, classes=4), rates=Rates(path=0.2), seed=0).train()
    torch.manual_seed(0)
    expected = model(torch.ones(3, 1, 8, 8))
    assert len(units(model)) == 12
    for block in units(model):
        compile_apart(block)
    torch.manual_seed(0)
    assert torch.equal(model(torch.ones(3, 1, 8, 8)), expected)
    assert counter.frame_count == 12


@pytest.mark.parametrize(
    "made", [spec(), next(iter(specs(registry.get("theorem"), "smoke")))], ids=["trained", "measured"]
)
def test_a_run_that_another_process_finishes_before_it_is_locked_is_not_repeated(
    made: RunSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine, elsewhere = Run.create(tmp_path, made), Run.create(tmp_path, made)
    result = {"better": ["top1", "up"], "score": {"top1": 0.5}}
    take = Lock.take

    def take_late(lock: Lock) -> None:
        """The other process is faster."""
        monkeypatch.setattr(Lock, "take", take)
        elsewhere.finish(result)
        take(lock)

    monkeypatch.setattr(Lock, "take", take_late)
    assert train(mine, device="cpu", progress="none") == result
    assert not (tmp_path / "metrics.jsonl").exists()
