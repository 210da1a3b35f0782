"""Decay reaches matrices and nothing else, the learning rate is a tensor, and the step is PyTorch's."""

from __future__ import annotations

import pytest
import torch

from manyheads.arch import zoo
from manyheads.models.build import build
from manyheads.spec.recipe import Recipe
from manyheads.train.optimizer import adamw, decayed, moments, prepare, set_lr
from manyheads.train.sharding import clip
from tests.models.tiny import ORIGINALS, inputs, scalar


@pytest.mark.parametrize("name", ORIGINALS)
def test_no_bias_norm_scale_position_token_or_table_decays(name: str) -> None:
    model = build(ORIGINALS[name], device="meta")
    names = decayed(model)
    assert names
    for parameter, tensor in model.named_parameters():
        last = parameter.rpartition(".")[2]
        vector = tensor.ndim < 2 or last in ("bias", "scale", "temperature")
        looked_up = any(word in parameter for word in ("position", "class_token", "registers", "vocab", "types"))
        kernel = last == "weight" and "proj" in parameter  # a projection of positions is a matrix
        if vector or (looked_up and not kernel):
            assert parameter not in names, parameter
        elif tensor.ndim == 2:
            assert parameter in names, parameter


@pytest.mark.parametrize("name", ["vit_ti", "vit_b"])
def test_a_vits_decay_reaches_as_many_numbers_as_timms(name: str) -> None:
    timm = pytest.importorskip("timm", reason="the original to compare with")
    from timm.optim import param_groups_weight_decay

    theirs = timm.create_model({"vit_ti": "vit_tiny", "vit_b": "vit_base"}[name] + "_patch16_224")
    groups = param_groups_weight_decay(theirs, 0.3, no_weight_decay_list=theirs.no_weight_decay())
    count = {group["weight_decay"]: sum(p.numel() for p in group["params"]) for group in groups}
    ours = build(zoo.get(name), device="meta")
    names = decayed(ours)
    assert sum(p.numel() for key, p in ours.named_parameters() if key in names) == count[0.3]
    assert sum(p.numel() for key, p in ours.named_parameters() if key not in names) == count[0.0]


def test_the_step_is_pytorchs_with_a_learning_rate_that_is_a_tensor() -> None:
    arch = ORIGINALS["vit"]
    ours, plain = (build(arch, device="cpu", seed=0) for _ in range(2))
    recipe = Recipe(weight_decay=0.3, clip=0.1)
    mine = adamw(ours, recipe)
    names = decayed(plain)
    groups = [
        {"params": [p for n, p in plain.named_parameters() if (n in names) is kind], "weight_decay": 0.3 * kind}
        for kind in (True, False)
    ]
    theirs = torch.optim.AdamW(groups, foreach=False, fused=False)
    prepare(ours, mine, 0)
    for lr in (0.0, 1e-3, 5e-3):
        set_lr(mine, lr)
        for model, optimizer in ((ours, mine), (plain, theirs)):
            optimizer.zero_grad()
            scalar(model, inputs(arch)).backward()
        clip(list(ours.parameters()), 0.1)
        torch.nn.utils.clip_grad_norm_(plain.parameters(), 0.1)
        theirs.param_groups[0]["lr"] = theirs.param_groups[1]["lr"] = lr
        mine.step()
        theirs.step()
    for (name, a), b in zip(ours.named_parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(a, b, msg=name)
    assert {name.split(".")[0] for name, _ in moments(ours, mine)} == {"exp_avg", "exp_avg_sq"}


def test_the_first_beta_moves_where_it_is_asked_to() -> None:
    model = build(ORIGINALS["vit"], device="cpu", seed=0)
    optimizer = adamw(model, Recipe(betas=(0.9, 0.98)))
    set_lr(optimizer, 0.1, 0.85)
    assert {group["betas"] for group in optimizer.param_groups} == {(0.85, 0.98)}


def test_decay_of_everything_where_the_recipe_says_so() -> None:
    model = build(ORIGINALS["gpt2"], device="cpu", seed=0)
    (group,) = adamw(model, Recipe(decay="all", weight_decay=0.01)).param_groups
    assert len(group["params"]) == len(list(model.parameters()))
    assert group["weight_decay"] == 0.01
