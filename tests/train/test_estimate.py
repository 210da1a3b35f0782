"""What a run would take is said beforehand, and what fits when it did not fit."""

from __future__ import annotations

import re
import resource

import pytest
import torch

from manyheads.arch import zoo
from manyheads.arch.count import training_bytes
from manyheads.arch.families import vit
from manyheads.experiments.recipes import TABLE6
from manyheads.spec.errors import UserError
from manyheads.spec.recipe import IMAGENET_IMAGES, Basis, Recipe
from manyheads.train.estimate import advice, estimate, explain_out_of_memory, fitting
from manyheads.train.parallel import Ranks
from tests.train.tiny import ARCH

GPU = Ranks(torch.device("cuda", 0))


def test_table_6_is_planned_for_eight_gpus_with_the_papers_memory() -> None:
    """The paper prints 178.4 GB for ViT-B on 8 GPUs, 22.3 each; about 3.3 GB of that are no tensor of the model's."""
    told = estimate(zoo.get("vit_b"), TABLE6, samples=IMAGENET_IMAGES)
    assert told.params == 86_567_656
    assert told.steps == 375_342
    assert told.rows == 128
    assert told.memory_unfused / 1e9 == pytest.approx(22.3 - 3.3, rel=0.1)
    assert told.memory < told.memory_unfused
    assert told.flops == pytest.approx(3 * 35.1e9 * 300 * IMAGENET_IMAGES, rel=0.01)
    assert told.seconds == pytest.approx(told.flops / (8 * 156e12 * 0.4))


def test_a_billion_parameters_are_planned_without_being_allocated() -> None:
    arch = vit(2048, 20, 32, 64, 8192, image=224, patch=14)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    told = estimate(arch, Recipe(batch=256), gpus=8, parallel="fsdp")
    assert told.params > 1_000_000_000
    assert told.memory > 16 * told.params / 8
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000  # KiB; weights would be 4 million


def test_sharding_divides_the_state_and_not_the_activations() -> None:
    recipe = Recipe(batch=1024, basis=Basis("samples", 1e6))
    whole, cut = (estimate(zoo.get("vit_l"), recipe, parallel=kind) for kind in ("ddp", "fsdp"))  # type: ignore[arg-type]
    assert cut.memory < whole.memory
    kept = training_bytes(zoo.get("vit_l"), 128, "amp", True) - training_bytes(zoo.get("vit_l"), 0, "amp", True)
    assert cut.memory > kept


def test_a_plan_that_cannot_be_is_refused() -> None:
    with pytest.raises(UserError, match="write batch=1024"):
        estimate(zoo.get("vit_b"), Recipe(batch=1020), gpus=8)
    with pytest.raises(UserError, match="at least one"):
        estimate(zoo.get("vit_b"), Recipe(), gpus=0)


def test_a_budget_of_seconds_takes_its_seconds() -> None:
    assert estimate(ARCH, Recipe(basis=Basis("seconds", 60)), gpus=1).seconds == 60


def test_out_of_memory_says_which_batch_fits_and_it_does() -> None:
    recipe = Recipe(batch=4096, ema=0.99)
    room = 24 * 2**30
    rows = fitting(zoo.get("vit_b"), recipe, room, GPU)
    extra = 4 * 86_567_656  # averaged weights
    assert training_bytes(zoo.get("vit_b"), rows, "amp", True) + extra <= room
    assert training_bytes(zoo.get("vit_b"), rows + 1, "amp", True) + extra > room
    told = advice(zoo.get("vit_b"), recipe, room, GPU)
    parts = int(re.search(r"accumulate=(\d+)", told)[1])  # type: ignore[index]
    assert 4096 // parts <= fitting(zoo.get("vit_b"), recipe, 0.85 * room, GPU)
    assert 4096 % parts == 0


def test_weights_that_do_not_fit_at_all_are_told_to_be_sharded() -> None:
    assert "fsdp" in advice(zoo.get("vit_l"), Recipe(), 2**30, GPU)


def test_the_allocators_error_becomes_a_sentence() -> None:
    with (
        pytest.raises(UserError, match="accumulate="),
        explain_out_of_memory(ARCH, Recipe(), Ranks(torch.device("cpu"))),
    ):
        torch.empty(2**50)
