"""What each step promises, in float64: folded layers equal the parallel form, dropped ones are skipped, added heads
change nothing, cut ones equal masked ones, padded layers change nothing."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from manyheads.arch import families as f
from manyheads.arch.count import params
from manyheads.arch.layer_edits import layer_list
from manyheads.spec.arch import Arch, attentions, mlps, with_residuals
from manyheads.spec.errors import UserError
from manyheads.spec.parts import Norm
from manyheads.spec.transplant import AddHeads, Cut, Drop, Fold, Pad, Transplant, TransplantStep, step_from_dict
from manyheads.transplant import apply
from tests.models.tiny import ORIGINALS

from .cases import CASES, GPT2, LLAMA, VIT, agree, batch, rebuilt, trained


def made(arch: Arch, model: nn.Module, *steps: TransplantStep) -> tuple[Arch, nn.Module]:
    """The transplanted model; its parameters are as many as its record says."""
    new, weights = apply(arch, model.state_dict(), steps)
    built = rebuilt(new, weights)
    assert params(new).total == sum(p.numel() for p in built.parameters())
    return new, built


class ParallelForm(nn.Module):
    """x += sum_i A_i(n_i(x)); x += sum_i M_i(m_i(x)), by the source's own branches."""

    def __init__(self, blocks: list[nn.Module]) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(blocks)

    def forward(self, x: Tensor, *args: object) -> Tensor:
        x = x + sum(block.attention(x, *args) - x for block in self.blocks)
        return x + sum(block.mlp(x) - x for block in self.blocks)


class Nothing(nn.Module):
    def forward(self, x: Tensor, *_: object) -> Tensor:
        return x


@pytest.mark.parametrize("name", CASES)
def test_a_folded_layer_equals_the_parallel_form_of_its_group(name: str) -> None:
    arch = CASES[name]
    model = trained(arch)
    new, folded = made(arch, model, Fold(((1, 2),)))
    assert [len(layer) for layer in layer_list(new)] == [2, 2, 2]
    ops = [op for stage in new.stages for op in attentions(stage)]
    assert [op.heads for op in ops] == [attentions(arch.stages[0])[0].heads * n for n in (1, 2, 1)]
    assert {op.head_dim for op in ops} == {16}
    model.blocks[1] = ParallelForm([model.blocks[1], model.blocks[2]])
    model.blocks[2] = Nothing()
    agree(folded(*batch(arch)), model(*batch(arch)))


@pytest.mark.parametrize("name", ["vit_scaled", "gpt2", "llama"])
def test_all_layers_of_a_model_fold_into_one(name: str) -> None:
    arch = CASES[name]
    model = trained(arch)
    _, folded = made(arch, model, Fold(((0, 1, 2, 3),)))
    blocks = list(model.blocks)
    model.blocks[0] = ParallelForm(blocks)
    for number in (1, 2, 3):
        model.blocks[number] = Nothing()
    agree(folded(*batch(arch)), model(*batch(arch)))


@pytest.mark.parametrize("name", [*CASES, "bert", "crammed_bert", "nystromformer"])
def test_dropped_layers_are_skipped(name: str) -> None:
    arch = CASES.get(name) or ORIGINALS[name]
    model = trained(arch)
    _, short = made(arch, model, Drop((0, 2)))
    if arch.family == "nystromformer":  # it looks at its blocks, so that nothing can stand in their place
        model.blocks = nn.ModuleList(block for number, block in enumerate(model.blocks) if number not in (0, 2))
    else:
        for number in (0, 2):
            model.blocks[number] = Nothing()
    agree(short(*batch(arch)), model(*batch(arch)))


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("of", [None, 1, 3])
def test_added_heads_change_no_output_and_can_learn(name: str, of: int | None) -> None:
    arch = CASES[name]
    model = trained(arch)
    new, wide = made(arch, model, AddHeads(1, 6, of=of, seed=5))
    assert [op.heads for stage in new.stages for op in attentions(stage)][1] == attentions(arch.stages[0])[0].heads + 6
    agree(wide(*batch(arch)), model(*batch(arch)))
    wide(*batch(arch)).square().mean().backward()
    inner = attentions(arch.stages[0])[0].inner
    assert (wide.blocks[1].attention.op.out.weight.grad[:, inner:] != 0).all()


def test_heads_of_another_layer_read_the_stream_as_that_layer_did() -> None:
    model = trained(LLAMA)
    _, weights = apply(LLAMA, model.state_dict(), [AddHeads(1, 4, of=3)])
    source = model.state_dict()
    there = source["blocks.3.attention.op.qkv.weight"] * source["blocks.3.attention.norm.weight"]
    here = weights["blocks.1.attention.op.qkv.weight"] * weights["blocks.1.attention.norm.weight"]
    agree(here[64:128], there[:64])  # queries: four old heads of 16, then the four new ones


@pytest.mark.parametrize("name", CASES)
def test_a_cut_equals_a_mask(name: str) -> None:
    arch = CASES[name]
    model = trained(arch)
    op, hidden = attentions(arch.stages[0])[0], mlps(arch.stages[0])[0]
    heads = (2, 3) if op.kv_heads else (1,)
    units = (0, 5, 63)
    _, lean = made(arch, model, Cut(2, heads, units))
    block = model.blocks[2]
    with torch.no_grad():
        for head in heads:
            block.attention.op.out.weight[:, head * 16 : head * 16 + 16] = 0
        block.mlp.op.out.weight[:, list(units)] = 0
    assert lean.blocks[2].mlp.op.out.weight.shape[1] == hidden.mlp_dim - 3
    agree(lean(*batch(arch)), model(*batch(arch)))


@pytest.mark.parametrize("name", CASES)
def test_padding_makes_layers_alike_and_changes_no_output(name: str) -> None:
    arch = CASES[name]
    model = trained(arch)
    size = 2 if attentions(arch.stages[0])[0].kv_heads else 1
    steps = [Fold(((1, 2),)), Cut(0, tuple(range(size)), (1, 2))]
    uneven, ragged = made(arch, model, *steps)
    assert len(uneven.stages) == 3
    even, smooth = made(arch, model, *steps, Pad())
    assert len(even.stages) == 1
    agree(smooth(*batch(arch)), ragged(*batch(arch)))


def test_the_layers_beside_a_fold_keep_their_tensors() -> None:
    source = trained(GPT2).state_dict()
    before = {name: tensor.clone() for name, tensor in source.items()}
    _, weights = apply(GPT2, source, [Fold(((1, 2),))])
    assert weights["blocks.0.mlp.op.inp.weight"] is source["blocks.0.mlp.op.inp.weight"]
    assert all(torch.equal(source[name], before[name]) for name in source)


def test_half_precision_weights_are_folded_in_float32() -> None:
    source = {name: tensor.bfloat16() for name, tensor in trained(GPT2).state_dict().items()}
    _, weights = apply(GPT2, source, [Fold(((1, 2),))])
    assert {tensor.dtype for tensor in weights.values()} == {torch.float32}


def test_gains_of_qk_norms_decide_whether_layers_fold() -> None:
    arch = ORIGINALS["qwen3"]
    model = trained(arch)
    with pytest.raises(UserError, match="norms of queries and keys"):
        apply(arch, model.state_dict(), [Fold(((0, 1),))])
    with torch.no_grad():
        for block in model.blocks:
            block.attention.op.q_norm.weight.fill_(1.5)
            block.attention.op.k_norm.weight.fill_(0.5)
    _, folded = made(arch, model, Fold(((0, 1),)))
    model.blocks[0] = ParallelForm([model.blocks[0], model.blocks[1]])
    model.blocks[1] = Nothing()
    agree(folded(*batch(arch)), model(*batch(arch)))


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("bert", "pre-norm"),
        ("nystromformer", "dropped, not folded"),
        ("tnt", "transformer inside"),
        ("davit", "changes its tokens"),
        ("xcit", "changes its tokens|no single list|dropped, not folded"),
    ],
)
def test_what_does_not_fold_is_refused_with_what_can_be_done(name: str, words: str) -> None:
    arch = ORIGINALS[name]
    model = trained(arch)
    with pytest.raises(UserError, match=words):
        apply(arch, model.state_dict(), [Fold(((0, 1),))])


def test_layers_of_another_norm_do_not_fold() -> None:
    other = with_residuals(VIT, lambda r: replace(r, norm=Norm(eps=1e-3)))
    mixed = replace(VIT, stages=(replace(VIT.stages[0], depth=2), replace(other.stages[0], depth=2)))
    with pytest.raises(UserError, match="norms of these layers differ"):
        apply(mixed, trained(mixed).state_dict(), [Fold(((1, 2),))])


@pytest.mark.parametrize(
    ("step", "words"),
    [
        (Drop((4,)), "no layer 4: the model has 4"),
        (Drop((0, 1, 2, 3)), "no layer is left"),
        (Cut(0, (0, 1), ()), "all 2 heads"),
        (Cut(0, (), (64,)), "a layer of 64"),
    ],
)
def test_steps_that_cannot_be_are_refused(step: TransplantStep, words: str) -> None:
    with pytest.raises(UserError, match=words):
        apply(VIT, trained(VIT).state_dict(), [step])


def test_grouped_heads_are_cut_and_added_in_groups() -> None:
    source = trained(LLAMA).state_dict()
    with pytest.raises(UserError, match="cut together, 2 at a time"):
        apply(LLAMA, source, [Cut(0, (1,), ())])
    with pytest.raises(UserError, match="multiple of 2"):
        apply(LLAMA, source, [AddHeads(0, 3)])


def test_weights_of_another_model_are_refused() -> None:
    source = trained(VIT).state_dict()
    del source["head.out.bias"]
    with pytest.raises(UserError, match=r"1 tensors are missing.*head.out.bias"):
        apply(VIT, source, [Drop((0,))])


@pytest.mark.parametrize(
    "step", [Fold(((0, 1), (2, 3))), Drop((1, 3)), AddHeads(1, 4, of=2), Cut(0, (1,), (3, 4)), Pad()]
)
def test_a_transplant_is_written_and_read(step: TransplantStep) -> None:
    record = Transplant(GPT2, "ab" * 32, (step,))
    assert Transplant.from_dict(json.loads(json.dumps(record.to_dict()))) == record


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"is": "Fold", "groups": [[1, 3]]}, "consecutive"),
        ({"is": "Drop", "layers": [2, 1]}, "in order"),
        ({"is": "Cut", "layer": 0}, "removes nothing"),
        ({"is": "Folds", "groups": []}, "Fold"),
        ({"is": "AddHeads", "layer": 0, "heads": 0}, "from 1 up"),
    ],
)
def test_wrong_steps_are_refused_in_words(data: dict[str, object], words: str) -> None:
    with pytest.raises(UserError, match=words):
        step_from_dict(data)


def test_the_head_count_of_a_rank_paper_model_keeps_its_scale() -> None:
    """`out_scale` moves into the output projection."""
    arch = f.stack(16, 3, 4, 8, 64, tokens=6, kv_heads=2, gated=True)
    scaled = with_residuals(
        arch, lambda r: replace(r, op=replace(r.op, out_scale=0.25)) if hasattr(r.op, "out_scale") else r
    )
    model = trained(scaled)
    _, folded = made(scaled, model, Fold(((0, 1),)))
    model.blocks[0] = ParallelForm([model.blocks[0], model.blocks[1]])
    model.blocks[1] = Nothing()
    agree(folded(*batch(scaled)), model(*batch(scaled)))
