"""On a GPU the probe says what it says on a CPU, and leaves the GPU's random numbers and precision alone."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from manyheads.conditioning.probe import probe
from manyheads.models.build import build
from manyheads.spec.recipe import Rates
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


def losses(probed: bool, steps: int = 6) -> list[float]:
    """Of a few deterministic training steps, with the probe every second one or without."""
    torch.use_deterministic_algorithms(True)
    arch = ORIGINALS["vit"]
    model = build(arch, Rates(path=0.1), seed=0).cuda().train()
    torch.manual_seed(1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    images, labels = inputs(arch, batch=16)[0].cuda(), torch.arange(16).cuda() % 7
    compiled, found = torch.compile(model), []
    for step in range(steps):
        if probed and step % 2 == 0:
            probe(compiled, images[:4])
        with torch.autocast("cuda", torch.bfloat16):
            loss = torch.nn.functional.cross_entropy(compiled(images), labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        found.append(loss.item())
    return found


def test_deterministic_training_is_the_same_to_the_bit_with_and_without_the_probe() -> None:
    """cuBLAS takes its workspace from the environment, hence a process of its own."""
    root = Path(__file__).resolve().parents[2]
    env = os.environ | {"CUBLAS_WORKSPACE_CONFIG": ":4096:8", "PYTHONPATH": f"{root}/src:{root}"}
    code = "from tests.conditioning.test_probe_gpu import losses; print(losses(False)); print(losses(True))"
    done = subprocess.run([sys.executable, "-c", code], env=env, check=True, capture_output=True, text=True)
    without, with_probe = done.stdout.splitlines()
    assert without == with_probe
    assert len(set(without.split(","))) == 6  # it learns: the losses differ from step to step
