"""The probe measures what it says it measures, and nothing of the model or of its training moves."""

from __future__ import annotations

import json
import math
from copy import deepcopy
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from manyheads.conditioning.attention_calls import recorded_calls
from manyheads.conditioning.probe import as_record, probe, summary
from manyheads.conditioning.taps import find
from manyheads.models.build import build
from manyheads.spec.errors import UserError
from manyheads.spec.recipe import Rates
from tests.conditioning.others import make
from tests.models.tiny import ORIGINALS, inputs


def heads_of(model: nn.Module, batch: Any) -> list[Tensor]:
    """What an output projection is given, by hooks of this test's own."""
    found: list[Tensor] = []
    places = find(model)
    handles = [
        place.output.register_forward_pre_hook(lambda module, args: found.append(args[0].detach()))
        for place in places
        if place.tap.kind != "class"
    ]
    with torch.no_grad():
        _ = model(**batch) if isinstance(batch, dict) else model(*batch)
    for handle in handles:
        handle.remove()
    return found


def state(model: nn.Module) -> dict[str, Any]:
    """Everything about a model that the probe could move."""
    return {
        "parameters": {
            name: (id(p), p.dtype, p.requires_grad, p.detach().clone()) for name, p in model.named_parameters()
        },
        "gradients": {name: None if p.grad is None else p.grad.clone() for name, p in model.named_parameters()},
        "buffers": {name: (id(b), b.dtype, b.clone()) for name, b in model.named_buffers()},
        "modes": [module.training for module in model.modules()],
        "hooks": [
            len(module._forward_hooks) + len(module._forward_pre_hooks) + len(module._forward_pre_hooks_with_kwargs)
            for module in model.modules()
        ],
        "attributes": [sorted(vars(module)) for module in model.modules()],
        "random": torch.get_rng_state(),
        "settings": (
            torch.is_grad_enabled(),
            torch.backends.mha.get_fastpath_enabled(),
            torch.get_float32_matmul_precision(),
            torch.backends.cudnn.allow_tf32,
        ),
    }


def same(a: Any, b: Any) -> bool:
    """Bit by bit."""
    if isinstance(a, Tensor):
        return isinstance(b, Tensor) and a.dtype == b.dtype and torch.equal(a.nan_to_num(), b.nan_to_num())
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[name], b[name]) for name in a)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    return bool(a == b)


@pytest.mark.parametrize("name", ["vit", "xcit", "volo", "llama", "nystromformer"])
def test_kappa_is_that_of_a_hooked_tensor(name: str) -> None:
    arch = ORIGINALS[name]
    model, batch = build(arch, seed=0).eval(), inputs(arch, 3)
    for site, heads in zip(probe(model, batch), heads_of(model, batch), strict=True):
        matrices = heads.flatten(1, -2).double()
        values = torch.linalg.svdvals(matrices)
        kappas = values[:, 0] / values[:, -1]
        assert site.log_kappa == pytest.approx(kappas.log().mean().item(), rel=1e-4)
        assert site.kappa == pytest.approx(math.exp(site.log_kappa))
        assert site.mean_kappa == pytest.approx(kappas.mean().item(), rel=1e-3)
        assert site.log_kappa_spread == pytest.approx(kappas.log().std(correction=0).item(), abs=1e-3)
        centred = torch.linalg.svdvals(matrices - matrices.mean(1, keepdim=True))
        last = min(matrices.shape[1] - 1, matrices.shape[2]) - 1
        assert site.centred_log_kappa == pytest.approx((centred[:, 0] / centred[:, last]).log().mean().item(), rel=1e-4)
        assert site.stable_rank == pytest.approx((values**2).sum(1).div(values[:, 0] ** 2).mean().item(), rel=1e-4)
        assert (site.matrices, site.tokens, site.inner) == matrices.shape
        assert site.reliable == 1


def test_padding_rows_are_dropped() -> None:
    model, batch, _ = make("transformers BERT")
    site = probe(model, batch)[0]
    heads = heads_of(model.eval(), batch)[0].double()
    logs = []
    for matrix, mask in zip(heads, batch["attention_mask"].bool(), strict=True):
        values = torch.linalg.svdvals(matrix[mask])
        logs.append((values[0] / values[-1]).log().item())
    assert site.log_kappa == pytest.approx(sum(logs) / 3, rel=1e-4)
    assert (site.tokens, site.real_tokens) == (12, pytest.approx((12 + 12 + 8) / 3))
    given = probe(model, dict(batch), mask=batch["attention_mask"].bool())[0]
    assert given == site
    short = {"input_ids": batch["input_ids"][2:, :8]}
    alone = probe(model, short)[0]
    assert alone.log_kappa == pytest.approx(logs[2], rel=1e-3)


def test_a_mask_of_another_shape_is_refused() -> None:
    arch = ORIGINALS["vit"]
    with pytest.raises(UserError, match="mask covers"):
        probe(build(arch), inputs(arch), mask=torch.ones(2, 5, dtype=torch.bool))


def test_heads_that_say_the_same_are_fully_correlated() -> None:
    arch = ORIGINALS["vit"]
    model = build(arch, seed=0)
    independent = probe(model, inputs(arch))[0].head_correlation
    for block in model.blocks:
        weight, bias = block.attention.op.qkv.weight.data, block.attention.op.qkv.bias.data
        for part in (weight, bias):
            part.unflatten(0, (3, 2, 16))[:, 1] = part.unflatten(0, (3, 2, 16))[:, 0]
    assert independent is not None
    assert independent < 0.9
    assert probe(model, inputs(arch))[0].head_correlation == pytest.approx(1, abs=1e-4)


@pytest.mark.parametrize("name", ["vit", "xcit", "nystromformer"])
@pytest.mark.parametrize("options", [{}, {"detail": True}])
def test_the_model_is_left_bit_for_bit(name: str, options: dict[str, bool]) -> None:
    arch = ORIGINALS[name]
    model = build(arch, Rates(dropout=0.1, attention=0.1), seed=0).train()
    model.blocks[0].eval()  # a mode of its own stays
    model(*inputs(arch)).sum().backward()
    before = state(model)
    probe(model, inputs(arch), **options)
    assert same(before, state(model))


@pytest.mark.parametrize("name", ["timm ViT", "timm XCiT", "transformers Llama", "nn.TransformerEncoder", "timm VOLO"])
def test_models_of_other_libraries_are_left_bit_for_bit(name: str) -> None:
    model, batch, _ = make(name)
    model.train()
    before = state(model)
    probe(model, batch, detail=True)
    assert same(before, state(model))


class Counting(nn.Module):
    """A model that writes to a buffer in every forward, draws numbers, and fails when told to."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.register_buffer("calls", torch.zeros(()))
        self.fail = False

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        x = self.attention(x, x, x)[0] + torch.rand_like(x)
        if self.fail:
            raise RuntimeError("no")
        return x


def test_buffers_and_random_numbers_are_restored_also_after_an_error() -> None:
    model, x = Counting(), torch.randn(1, 5, 8)
    before = state(model)
    probe(model, x)
    assert same(before, state(model))
    model.fail = True
    with pytest.raises(RuntimeError, match="no"):
        probe(model, x)
    assert same(before, state(model))


def train(model: nn.Module, batch: tuple[Tensor, ...], every: int = 0) -> list[float]:
    """Losses of a few steps with dropout, the probe in between."""
    torch.manual_seed(1)
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-3)
    losses = []
    for step in range(6):
        loss = F.cross_entropy(model(*batch), torch.arange(len(batch[0])))
        loss.backward()
        if every and step % every == 0:
            probe(model, batch, detail=step == 2)
        optimiser.step()
        optimiser.zero_grad()
        losses.append(loss.item())
    return losses


@pytest.mark.parametrize("name", ["vit", "xcit"])
def test_losses_are_bit_identical_with_and_without_the_probe(name: str) -> None:
    arch = ORIGINALS[name]
    model = build(arch, Rates(dropout=0.1, path=0.1), seed=0).train()
    assert train(deepcopy(model), inputs(arch)) == train(model, inputs(arch), every=1)


def test_half_models_are_measured_in_float32_and_stay_half() -> None:
    arch = ORIGINALS["gpt2"]
    model = build(arch, seed=0).bfloat16()
    expected = probe(deepcopy(model).float(), inputs(arch))
    before = state(model)
    with torch.autocast("cpu", torch.bfloat16):
        sites = probe(model, inputs(arch))
    assert same(before, state(model))
    assert {site.dtype for site in sites} == {"float32"}
    assert sites == expected


@pytest.mark.unchecked
def test_a_compiled_model_is_seen_and_not_compiled_again() -> None:
    from torch._dynamo.testing import CompileCounter

    arch = ORIGINALS["vit"]
    model, batch = build(arch, seed=0).train(), inputs(arch)
    expected = probe(model, batch)
    torch._dynamo.reset()
    counter = CompileCounter()
    compiled = torch.compile(model, backend=counter)
    for _ in range(2):
        compiled(*batch).sum().backward()
        assert probe(compiled, batch) == expected
    assert counter.frame_count == 1
    inside = build(arch, seed=0).train()
    for block in inside.blocks:
        block.compile(backend=counter)
    inside.blocks[1] = torch.compile(inside.blocks[1], backend=counter)
    inside(*batch)
    assert probe(inside, batch) == expected


def test_a_ddp_model_is_seen(tmp_path: Any) -> None:
    arch = ORIGINALS["vit"]
    model, batch = build(arch, seed=0), inputs(arch)
    expected = probe(model, batch)
    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    try:
        wrapped = nn.parallel.DistributedDataParallel(model)
        wrapped(*batch).sum().backward()
        before = state(wrapped)
        assert probe(wrapped, batch) == expected
        assert same(before, state(wrapped))
        wrapped(*batch).sum().backward()

        from torch.distributed.fsdp import fully_shard

        sharded = build(arch, seed=0)
        for block in sharded.blocks:
            fully_shard(block)
        fully_shard(sharded)
        assert probe(sharded, batch) == expected
        assert probe(sharded, batch, detail=True)[0].detail == probe(model, batch, detail=True)[0].detail
        sharded(*batch).sum().backward()
        assert probe(sharded, batch) == expected
    finally:
        torch.distributed.destroy_process_group()


def test_the_fast_path_of_an_encoder_gives_the_same_heads() -> None:
    model, batch, _ = make("nn.TransformerEncoder")
    model.eval()
    padding = torch.arange(12).expand(3, 12) >= torch.tensor([12, 12, 8])[:, None]
    sites = probe(model, {"src": batch, "src_key_padding_mask": padding}, mask=~padding)
    layer = model.layers[0].self_attn
    expected = layer(batch, batch, batch, key_padding_mask=padding, need_weights=False)[0]
    with torch.no_grad(), recorded_calls(model, find(model)) as heard:
        torch.backends.mha.set_fastpath_enabled(False)
        model(batch, src_key_padding_mask=padding)
        torch.backends.mha.set_fastpath_enabled(True)
    heads = heard[0].heads
    torch.testing.assert_close(heads @ layer.out_proj.weight.T + layer.out_proj.bias, expected, atol=1e-5, rtol=1e-4)
    assert [site.real_tokens for site in sites] == [pytest.approx(32 / 3)] * 2


def test_a_module_called_twice_is_two_sites() -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a = nn.MultiheadAttention(8, 2, batch_first=True)

        def forward(self, x: Tensor) -> Tensor:
            return self.a(*[self.a(x, x, x)[0]] * 3)[0]

    assert [(site.name, site.layer) for site in probe(Twice(), torch.randn(2, 5, 8))] == [("a", 0), ("a#2", 1)]


def test_a_summary_keeps_kinds_apart_and_both_statistics() -> None:
    arch = ORIGINALS["davit"]
    sites = probe(build(arch, seed=0), inputs(arch))
    found = summary(sites)
    assert set(found) == {"window", "channel"}
    window = [site for site in sites if site.kind == "window"]
    assert found["window"].layers == len(window) == 8
    assert found["window"].mean_kappa == pytest.approx(sum(site.mean_kappa for site in window) / 8)
    assert found["window"].mean_log_kappa == pytest.approx(sum(site.log_kappa for site in window) / 8)
    assert found["window"].first_log_kappa == window[0].log_kappa


def test_records_are_json_also_where_kappa_is_infinite() -> None:
    arch = ORIGINALS["vit"]
    model = build(arch, seed=0)
    for block in model.blocks:
        block.attention.op.qkv.weight.data[:] = 0  # all heads are their biases: rank one
    sites = probe(model, inputs(arch), detail=True)
    assert sites[0].kappa == math.inf
    assert (sites[0].deficient, sites[0].reliable) == (1, 0)
    text = json.dumps([as_record(site) for site in sites], allow_nan=False)
    assert json.loads(text)[0]["kappa"] is None
    assert json.loads(json.dumps(as_record(summary(sites)["softmax"]), allow_nan=False))["mean_kappa"] is None


@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
def test_an_activation_that_is_no_number_reads_as_nan_and_not_as_singular(bad: float) -> None:
    arch = ORIGINALS["vit"]
    model, batch = build(arch, seed=0), inputs(arch, 3)[0].clone()
    batch[1] = bad
    sites = probe(model, batch, detail=True, jacobian=True)
    for site in sites:
        assert all(math.isnan(value) for value in (site.kappa, site.log_kappa, site.mean_kappa, site.centred_kappa))
        assert (site.not_finite, site.deficient) == (pytest.approx(1 / 3), 0)
        assert site.effective_rank is site.numerical_rank is None
        assert site.detail is not None
        assert math.isnan(site.detail.values_kappa or 0)
    assert math.isnan(summary(sites)["softmax"].mean_log_kappa)
    record = as_record(sites[0])
    assert (record["kappa"], record["not_finite"]) == (None, pytest.approx(1 / 3))
    alone = probe(model, batch[1:2], jacobian=True)
    assert math.isnan(alone[0].jacobian.kappa if alone[0].jacobian else 0)
