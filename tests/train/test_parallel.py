"""Several processes for real, over gloo: the same losses as one, and checkpoints that any number of them can read."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from manyheads.arch.count import params
from manyheads.arch.families import nearest_neighbor, vit, xcit
from manyheads.models.build import build
from manyheads.runs import Run
from manyheads.spec.errors import UserError
from manyheads.train.parallel import Ranks, joined
from manyheads.train.sharding import local, units
from tests.specs import changed, run_spec
from tests.train.tiny import run_here, spec, steps, together, traces
from tests.train.workers import meta_shards, shard_families, train_together

# biases of keys have no gradient but rounding, which a small eps would blow up to steps
MADE = spec(ema=0.9, accumulate=2, eps=1e-5)


def curve(folder: Path) -> list[float]:
    """Every loss that a run wrote."""
    return [json.loads(line)["loss"] for line in (folder / "metrics.jsonl").read_text().splitlines()]


def kappas(folder: Path) -> list[float]:
    """Every log kappa that a run wrote."""
    return [json.loads(line)["log_kappa"] for line in (folder / "spectra.jsonl").read_text().splitlines()]


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run in one process."""
    folder = tmp_path_factory.mktemp("alone") / "run"
    run_here(folder, MADE)
    return folder


def same(folder: Path, alone: Path) -> None:
    """A run of several processes gives one's numbers, to rounding."""
    assert Run.open(folder).state == "done"
    assert curve(folder) == pytest.approx(curve(alone), rel=1e-4)
    assert kappas(folder) == pytest.approx(kappas(alone), rel=1e-3)
    mine, theirs = (load_file(path / "model" / "model.safetensors") for path in (folder, alone))
    for name in theirs:
        torch.testing.assert_close(mine[name], theirs[name], rtol=1e-2, atol=2e-4)


@pytest.mark.parametrize(("kind", "world"), [("ddp", 2), ("ddp", 4), ("fsdp", 2)])
def test_several_processes_train_as_one(kind: str, world: int, alone: Path, tmp_path: Path) -> None:
    together(world, train_together, str(tmp_path / "run"), MADE.to_dict(), kind)
    same(tmp_path / "run", alone)


@pytest.mark.parametrize(("first", "second"), [("ddp", "none"), ("fsdp", "none"), ("fsdp", "fsdp"), ("none", "fsdp")])
def test_a_checkpoint_of_some_processes_is_resumed_by_others(
    first: str, second: str, alone: Path, tmp_path: Path
) -> None:
    """2 processes stop, 1 or 4 go on; or 1 stops and 4 go on. Optimizer and averages included, or the losses would
    part."""
    folder = tmp_path / "run"
    worlds = {("none", "fsdp"): (1, 4), ("fsdp", "fsdp"): (2, 4)}.get((first, second), (2, 1))
    together(worlds[0], train_together, str(folder), MADE.to_dict(), first, 8)
    stopped = Run.open(folder)
    assert stopped.state == "stopped"
    assert stopped.status is not None
    assert 8 <= stopped.status["step"] < 20
    together(worlds[1], train_together, str(folder), MADE.to_dict(), second)
    same(folder, alone)


@pytest.mark.parametrize("kind", ["ddp", "fsdp"])
def test_a_stopped_run_of_two_processes_ends_with_the_bits_of_one_that_was_not(kind: str, tmp_path: Path) -> None:
    """XCiT's batch norms keep running statistics, which on CPUs each process has of its own rows."""
    arch = xcit(16, 1, 2, 8, 32, image=32, channels=1, classes=4, class_layers=1, scaled=1.0)
    made = spec(arch, {"size": 32}, ema=0.9, rates={"dropout": 0.1}, evaluate_every=6, basis=steps(12))
    together(2, train_together, str(tmp_path / "whole"), made.to_dict(), kind)
    together(2, train_together, str(tmp_path / "run"), made.to_dict(), kind, 8)
    assert Run.open(tmp_path / "run").state == "stopped"
    together(2, train_together, str(tmp_path / "run"), made.to_dict(), kind)
    assert traces(tmp_path / "run") == traces(tmp_path / "whole")


def test_every_family_gives_sharded_the_gradients_it_gives_whole() -> None:
    together(2, shard_families)


def test_scalars_that_fsdp_cannot_cut_train_too(tmp_path: Path) -> None:
    """The rank experiments' norm has one learned number; FSDP2 refuses scalars, so they stay whole and are averaged."""
    arch = nearest_neighbor(16, 2, 2, 8, 32, tokens=6)
    assert any(p.ndim == 0 for p in build(arch, device="meta").parameters())
    made = run_spec(arch, {"is": "Points"}, changed(MADE.recipe, ema=0.0, clip=0.1), 0)
    run_here(tmp_path / "one", made)
    together(2, train_together, str(tmp_path / "two"), made.to_dict(), "fsdp")
    same(tmp_path / "two", tmp_path / "one")


def test_a_model_of_a_billion_parameters_is_sharded_without_being_allocated(tmp_path: Path) -> None:
    arch = vit(2048, 20, 32, 64, 8192, image=224, patch=14)
    assert params(arch).total > 1_000_000_000
    together(1, meta_shards, arch, str(tmp_path / "told"))
    told = json.loads((tmp_path / "told").read_text())
    assert told["parameters"] == params(arch).total
    assert told["here"] == pytest.approx(params(arch).total / 8, rel=1e-3)
    assert told["kibibytes"] < 300_000  # a billion float32 would be four million


def test_every_process_has_its_rows_and_no_row_is_taken_twice() -> None:
    ranks = [Ranks(torch.device("cpu"), "ddp", rank, 4) for rank in range(4)]
    rows = [row for rank in ranks for part in range(2) for row in rank.rows(64, part, 2)]
    assert rows == list(range(64))
    with pytest.raises(UserError, match="batch=64"):
        ranks[0].check(60, 2)


def test_processes_that_do_not_know_of_each_other_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RANK", raising=False)
    with pytest.raises(UserError, match="torchrun"), joined("ddp", "cpu"):
        pass
    monkeypatch.setenv("WORLD_SIZE", "4")
    with pytest.raises(UserError, match="parallel=ddp"), joined("none", "cpu"):
        pass


def test_fsdp_gathers_block_by_block() -> None:
    assert len(units(build(vit(16, 3, 2, 8, 32, image=8, patch=4, classes=4), device="meta"))) == 3
    assert local(torch.ones(2)).shape == (2,)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["ddp", "fsdp"])
def test_compiled_processes_train_as_one_that_is_not(kind: str, alone: Path, tmp_path: Path) -> None:
    made = replace(MADE, recipe=changed(MADE.recipe, compile="on"))
    together(2, train_together, str(tmp_path / "run"), made.to_dict(), kind, seconds=300)
    same(tmp_path / "run", alone)
