"""On a GPU the probe says what it says on a CPU, and leaves the GPU's random numbers and precision alone."""

from __future__ import annotations

import pytest
import torch

from manyheads.conditioning.probe import probe
from manyheads.models.build import build
from manyheads.nn.rates import Rates
from tests.models.tiny import ORIGINALS, inputs

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("name", ["vit", "xcit", "volo", "llama", "nystromformer"])
def test_the_numbers_are_the_cpus(name: str) -> None:
    arch = ORIGINALS[name]
    model = build(arch, seed=0)
    expected = probe(model, inputs(arch))
    for site, known in zip(probe(model.cuda(), inputs(arch)), expected, strict=True):
        assert (site.name, site.kind, site.tokens, site.inner) == (known.name, known.kind, known.tokens, known.inner)
        assert site.log_kappa == pytest.approx(known.log_kappa, abs=0.02)
        assert site.head_correlation == pytest.approx(known.head_correlation, abs=1e-3)


def test_random_numbers_and_precision_stay() -> None:
    arch = ORIGINALS["vit"]
    model = build(arch, Rates(dropout=0.1), seed=0).cuda().train()
    torch.set_float32_matmul_precision("high")
    try:
        cuda, cpu = torch.cuda.get_rng_state(), torch.get_rng_state()
        with torch.autocast("cuda", torch.bfloat16):
            sites = probe(model, inputs(arch), detail=True, jacobian=True)
        assert torch.equal(cuda, torch.cuda.get_rng_state())
        assert torch.equal(cpu, torch.get_rng_state())
        assert torch.get_float32_matmul_precision() == "high"
        assert {site.dtype for site in sites} == {"float32"}
    finally:
        torch.set_float32_matmul_precision("highest")
