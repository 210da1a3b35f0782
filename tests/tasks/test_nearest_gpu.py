"""Drawn tasks on a GPU: samples are made there without the host waiting, and models of thousands of heads train."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from manyheads.experiments.rank_heads import RANK_FIG1
from manyheads.experiments.rank_parts import encoder
from manyheads.models.build import build
from manyheads.runs import Run
from manyheads.spec.datasets import CLOUDS, Cloud
from manyheads.spec.experiment import folder, specs
from manyheads.spec.recipe import Basis
from manyheads.tasks import NearestNeighbor, Regression, open_task
from manyheads.train.loop import train

pytestmark = pytest.mark.gpu
CUDA = torch.device("cuda")


@pytest.mark.parametrize("points", CLOUDS)
def test_samples_are_drawn_on_the_device_and_the_host_does_not_wait(points: Cloud) -> None:
    task = NearestNeighbor(16, 8, "separate", points)
    work, again = (open_task(task, CUDA, 3, 64) for _ in range(2))
    whole = work.batch(0, range(64))
    parts = [again.batch(0, range(start, start + 16)) for start in range(0, 64, 16)]
    for mine, theirs in zip(whole, zip(*parts, strict=True), strict=True):
        assert mine.device.type == "cuda"
        assert torch.equal(mine, torch.cat(theirs))
    works = [work, open_task(Regression(), CUDA, 3, 64), open_task(NearestNeighbor(16, 8), CUDA, 3, 64)]
    torch.cuda.set_sync_debug_mode("error")
    try:
        for step in range(1, 200):
            for one in works:
                one.batch(step, range(64))
    finally:
        torch.cuda.set_sync_debug_mode("default")


def test_what_is_held_out_is_the_cpus() -> None:
    here, there = (open_task(NearestNeighbor(16, 8), torch.device(kind), 0, 64) for kind in ("cpu", "cuda"))
    assert torch.equal(here.probe_batch(20), there.probe_batch(20).cpu())


def test_a_captured_run_learns(tmp_path: Path) -> None:
    spec = specs(RANK_FIG1, "laptop")[0]
    result = train(Run.create(folder(tmp_path, spec), spec), device="cuda", progress="none")
    assert result["score"]["loss"] < 0.12


def test_the_recipe_of_small_scale_compiles_and_captures(tmp_path: Path) -> None:
    """A short run of the grid's first arm; the rest of its recipe as it is."""
    spec = specs(RANK_FIG1, "small")[0]
    spec = replace(spec, recipe=replace(spec.recipe, basis=Basis("steps", 400)))
    result = train(Run.create(folder(tmp_path, spec), spec), device="cuda", progress="none")
    assert result["machine"]["compiled"]
    assert result["score"]["loss"] < 0.95


def test_four_thousand_heads_of_rank_one_fit() -> None:
    """The largest of Figure 1, one training step at its batch."""
    model = build(encoder(64, 5, 64, 1, tokens=16, mlp_dim=2048), device="cuda", seed=0)
    work = open_task(NearestNeighbor(64, 16), CUDA, 0, 256)
    torch.cuda.reset_peak_memory_stats()
    work.loss(model, *work.batch(0, range(256))).backward()
    assert torch.cuda.max_memory_allocated() < 70e9
