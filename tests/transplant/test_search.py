"""The search finds what costs least, and the loss it states is that of the model the steps make."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from manyheads.arch.count import params
from manyheads.arch.layer_edits import layer_list
from manyheads.spec.errors import UserError
from manyheads.spec.transplant import Drop, Fold
from manyheads.transplant import Candidate, apply, least_used, measure_use, search
from tests.models.tiny import ORIGINALS

from .cases import CASES, GPT2, LLAMA, VIT, agree, batch, rebuilt, trained


def loss(model: nn.Module, x: Any) -> float:
    """A number that depends on every output."""
    return float(model(*x).detach().double().square().mean().log())


@pytest.mark.parametrize("name", ["vit_scaled", "gpt2", "llama"])
@pytest.mark.parametrize("how", ["fold", "drop", "auto"])
def test_the_stated_loss_is_that_of_the_model_that_the_steps_make(name: str, how: Any) -> None:
    arch = CASES[name]
    model = trained(arch)
    source = {key: tensor.clone() for key, tensor in model.state_dict().items()}
    x = batch(arch)
    trail = search(model, [x], loss, depth=2, how=how)
    assert [move.depth for move in trail.moves] == [4, 3, 2]
    assert trail.moves[0].loss == pytest.approx(loss(model, x), rel=1e-12)
    new, weights = apply(arch, source, trail.steps)
    assert len(layer_list(new)) == 2
    assert loss(rebuilt(new, weights), x) == pytest.approx(trail.moves[-1].loss, rel=1e-9)
    kinds = {type(step) for step in trail.steps}
    assert kinds <= {"fold": {Fold}, "drop": {Drop}, "auto": {Fold, Drop}}[how]


def test_the_model_is_left_as_it_was() -> None:
    model = trained(LLAMA).train()
    blocks, before = model.blocks, loss(model.eval(), batch(LLAMA))
    model.train()
    search(model, [batch(LLAMA)], loss, depth=2)
    assert model.blocks is blocks
    assert model.training
    assert loss(model.eval(), batch(LLAMA)) == before


def test_a_layer_that_does_nothing_is_dropped_first() -> None:
    model = trained(VIT)
    with torch.no_grad():
        for branch in (model.blocks[2].attention, model.blocks[2].mlp):
            branch.op.out.weight.zero_()
            branch.op.out.bias.zero_()
    x = batch(VIT)

    def damage(net: nn.Module, images: Any) -> float:
        return float((net(*images) - wanted).abs().max())

    wanted = model(*x).detach()
    for how in ("drop", "auto"):
        trail = search(model, [x], damage, depth=3, how=how)
        assert trail.moves[-1].loss < 1e-12
        assert trail.steps == (Drop((2,)),) or 2 in trail.moves[-1].layers
    cheap = search(model, [x], None, depth=3, how="drop")
    assert cheap.steps == (Drop((2,)),)


def test_a_beam_costs_no_more_than_the_greedy_way() -> None:
    model = trained(GPT2, seed=3)
    x = batch(GPT2)
    greedy = search(model, [x], loss, depth=2).moves[-1].loss
    assert search(model, [x], loss, depth=2, beam=50).moves[-1].loss <= greedy


def test_a_shortlist_tries_fewer_candidates_and_progress_is_told() -> None:
    model = trained(GPT2)
    calls = {"all": 0, "short": 0}

    def counting(which: str) -> Any:
        def counted(net: nn.Module, x: Any) -> float:
            calls[which] += 1
            return loss(net, x)

        return counted

    told: list[Candidate] = []
    search(model, [batch(GPT2)], counting("all"), depth=2, told=told.append)
    search(model, [batch(GPT2)], counting("short"), depth=2, shortlist=2)
    assert [move.depth for move in told] == [3, 2]
    assert calls["short"] < calls["all"]


def test_without_a_loss_the_stream_decides() -> None:
    """Folding two layers of which the first writes nothing that the second sees turns nothing."""
    model = trained(GPT2)
    with torch.no_grad():
        for branch in (model.blocks[1].attention, model.blocks[1].mlp):
            branch.op.out.weight.mul_(1e-9)
            branch.op.out.bias.zero_()
    trail = search(model, [batch(GPT2)], None, depth=3, how="fold")
    assert 1 in trail.moves[-1].layers
    assert trail.moves[-1].loss < 1e-3


@pytest.mark.parametrize(
    ("name", "how", "depth", "words"),
    [
        ("bert", "fold", 2, "pre-norm"),
        ("qwen3", "fold", 2, "other gains"),
        ("nystromformer", "drop", 2, "by their numbers"),
        ("gpt2", "drop", 0, "from 1 to 3"),
        ("davit", "drop", 2, "changes its tokens"),
    ],
)
def test_what_cannot_be_searched_is_refused(name: str, how: Any, depth: int, words: str) -> None:
    arch = ORIGINALS[name]
    with pytest.raises(UserError, match=words):
        search(trained(arch), [batch(arch)], loss, depth=depth, how=how)


def test_layers_with_norms_behind_them_are_dropped() -> None:
    arch = ORIGINALS["bert"]
    trail = search(trained(arch), [batch(arch)], loss, depth=2, how="drop")
    assert isinstance(trail.steps[0], Drop)


def test_use_is_what_a_head_or_a_unit_adds_to_the_stream() -> None:
    """Measured by hand: the mean square of the branch's output when all other heads or units are masked."""
    arch = CASES["vit_scaled"]
    model = trained(arch)
    use = measure_use(model, [batch(arch)])
    block = model.blocks[1]
    for kind, branch, size, number in (("heads", block.attention, 16, 1), ("units", block.mlp, 1, 7)):
        inputs: list[torch.Tensor] = []
        hook = branch.op.out.register_forward_pre_hook(lambda _, args, kept=inputs: kept.append(args[0]))
        model(*batch(arch))
        hook.remove()
        columns = slice(number * size, number * size + size)
        added = (inputs[0][..., columns] @ branch.op.out.weight[:, columns].T) * branch.scale
        by_hand = added.detach().flatten(0, 1).square().sum(-1).mean()
        assert getattr(use[1], kind)[number] == pytest.approx(float(by_hand), rel=1e-4)


@pytest.mark.parametrize("name", ["vit", "llama"])
def test_the_least_used_go_first_until_the_budget_holds(name: str) -> None:
    arch = CASES[name]
    model = trained(arch)
    with torch.no_grad():
        model.blocks[3].mlp.op.out.weight[:, :8] = 0
    use = measure_use(model, [batch(arch)])
    total = params(arch).total
    cuts = least_used(arch, use, total - 1)
    assert [(one.layer, one.heads, one.units) for one in cuts] == [(3, (), tuple(range(8)))]
    few = least_used(arch, use, int(0.8 * total), multiple=4)
    lean, weights = apply(arch, model.state_dict(), few)
    assert 0.78 * total < params(lean).total <= 0.8 * total
    rebuilt(lean, weights)(*batch(arch))
    with pytest.raises(UserError, match="fold or drop more layers"):
        least_used(arch, use, 100)


def test_use_needs_a_batch_and_leaves_no_hook() -> None:
    model = trained(VIT)
    with pytest.raises(UserError, match="at least one"):
        measure_use(model, [])
    assert not model.blocks[0].mlp.op.out._forward_pre_hooks
    agree(model(*batch(VIT)), model(*batch(VIT)))
