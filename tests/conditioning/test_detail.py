"""What `detail` and `jacobian` add, against the same computed by hand."""

from __future__ import annotations

import math
from dataclasses import astuple

import pytest
import torch
from torch import Tensor

from manyheads.conditioning.attention_calls import fused_entropy
from manyheads.conditioning.jacobian import extremes
from manyheads.conditioning.probe import probe
from manyheads.models.build import build
from tests.conditioning.others import CASES, make
from tests.models.tiny import ORIGINALS, inputs


def kappa(matrices: Tensor) -> float:
    """Geometric mean over matrices."""
    values = torch.linalg.svdvals(matrices.double())
    return (values[..., 0] / values[..., -1]).log().mean().exp().item()


def test_detail_of_a_vit_is_that_of_its_own_tensors() -> None:
    arch = ORIGINALS["vit"]
    model, batch = build(arch, seed=0).eval(), inputs(arch)
    op, mlp = model.blocks[0].attention.op, model.blocks[0].mlp.op
    seen: dict[str, Tensor] = {}
    op.register_forward_pre_hook(lambda module, args: seen.update(tokens=args[0]))
    mlp.out.register_forward_pre_hook(lambda module, args: seen.update(hidden=args[0]))
    plain, site = probe(model, batch), probe(model, batch, detail=True)[0]
    with torch.no_grad():
        model.blocks = model.blocks[:1]
        model(*batch)
        q, k, v = op.qkv(seen["tokens"]).unflatten(-1, (3, 2, 16)).permute(2, 0, 3, 1, 4)
        maps = (q @ k.mT / 4).softmax(-1)
    detail = site.detail
    assert plain[0].detail is None
    assert detail.entropy == pytest.approx(-(maps * maps.log()).sum(-1).mean().item(), rel=1e-5)
    assert detail.tokens_kappa == pytest.approx(kappa(seen["tokens"]), rel=1e-3)
    assert detail.values_kappa == pytest.approx(kappa(v.transpose(1, 2).flatten(2)), rel=1e-3)
    assert detail.mlp_in_kappa == pytest.approx(kappa(mlp.inp.weight.data[None]), rel=1e-3)
    assert detail.mlp_out_kappa == pytest.approx(kappa(mlp.out.weight.data[None]), rel=1e-3)
    assert detail.mlp_hidden_kappa == pytest.approx(kappa(seen["hidden"]), rel=1e-3)
    tokens = seen["tokens"].double()
    spectra = torch.linalg.svdvals(tokens - tokens.mean(1, keepdim=True)) ** 2
    assert detail.coverage == pytest.approx(((spectra**2)[:, :16].sum(1) / (spectra**2).sum(1)).mean().item(), rel=1e-6)


@pytest.mark.parametrize("name", CASES)
def test_detail_is_found_in_every_library(name: str) -> None:
    model, batch, _ = make(name)
    for site in probe(model, batch, detail=True):
        missing = {"entropy"} if site.kind == "nystrom" else set()
        if name.startswith("x-transformers"):  # its MLPs are no class of the table
            missing = {"mlp_in_kappa", "mlp_hidden_kappa", "mlp_out_kappa"}
        assert {field for field, value in vars(site.detail).items() if value is None} == missing, site.name
        assert all(value is None or value >= 0 for value in astuple(site.detail))


@pytest.mark.parametrize("name", ORIGINALS)
def test_detail_is_found_in_every_family(name: str) -> None:
    arch = ORIGINALS[name]
    for site in probe(build(arch, seed=0), inputs(arch), detail=True):
        missing = {"entropy"} if site.kind == "nystrom" else set()
        assert {field for field, value in vars(site.detail).items() if value is None} == missing, site.name


@pytest.mark.parametrize("causal", [False, True])
def test_entropy_of_fused_attention_in_parts(causal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    q, k = torch.randn(2, 4, 9, 8), torch.randn(2, 2, 9, 8)
    whole = fused_entropy(q, k, k, is_causal=causal, enable_gqa=True)
    monkeypatch.setattr("manyheads.conditioning.attention_calls.MAP", 2 * 4 * 9 * 2)
    torch.testing.assert_close(fused_entropy(q, k, k, is_causal=causal, enable_gqa=True), whole)
    if causal:
        assert whole[..., 0].abs().max() == 0  # the first token sees itself alone
    uniform = fused_entropy(torch.zeros_like(q), k, k, enable_gqa=True)
    torch.testing.assert_close(uniform, torch.full_like(uniform, math.log(9)))


@pytest.mark.parametrize("shape", [(12, 12), (20, 12), (12, 20)])
def test_extreme_singular_values_of_a_linear_map(shape: tuple[int, int]) -> None:
    matrix = torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    found = extremes(lambda x: matrix @ x, torch.randn(shape[1], dtype=torch.float64))
    values = torch.linalg.svdvals(matrix)
    assert found.converged
    assert found.sigma_max == pytest.approx(values[0].item(), rel=1e-3)
    assert found.sigma_min == pytest.approx(values[-1].item(), rel=1e-3)


def test_few_steps_bound_the_extremes_and_say_so() -> None:
    matrix = torch.diag(torch.logspace(0, -3, 200, dtype=torch.float64))
    found = extremes(lambda x: matrix @ x, torch.randn(200, dtype=torch.float64), steps=20)
    assert not found.converged
    assert found.steps == 20
    assert found.sigma_min >= 1e-3
    assert found.sigma_max == pytest.approx(1, rel=1e-2)


@pytest.mark.parametrize("name", ["vit", "gpt2", "xcit"])
def test_the_jacobian_of_an_attention(name: str) -> None:
    arch = ORIGINALS[name]
    model, batch = build(arch, seed=0).eval().double(), inputs(arch)
    batch = tuple(t.double() if t.is_floating_point() else t for t in batch)
    ops: list[tuple[torch.nn.Module, Tensor]] = []
    for module in model.modules():
        if type(module).__name__.endswith("Attention"):
            module.register_forward_pre_hook(lambda module, args: ops.append((module, args[0])))
    with torch.no_grad():
        model(*(t[:1] for t in batch))
    sites = probe(model, batch, jacobian=True)
    seen = dict(reversed(ops[: len(sites)]))
    op, tokens = next((m, t) for m, t in seen.items() if t.numel() <= 600)
    place = next(name for name, module in model.named_modules() if module is op)
    full = torch.autograd.functional.jacobian(lambda x: op(x), tokens).reshape(tokens.numel(), tokens.numel())
    values = torch.linalg.svdvals(full)
    found = next(site for site in sites if site.name == place).jacobian
    assert found.sigma_max == pytest.approx(values[0].item(), rel=1e-3)
    assert found.sigma_min >= values[-1].item() * (1 - 1e-3)


@pytest.mark.parametrize(
    "name", ["timm ViT", "timm XCiT", "transformers BERT", "transformers Llama", "torchvision ViT"]
)
def test_the_jacobian_is_found_in_other_libraries(name: str) -> None:
    model, batch, _ = make(name)
    for site in probe(model, batch, jacobian=True):
        assert site.jacobian.sigma_max > 0
        assert site.jacobian.kappa >= 1
