"""What a plan says a design costs is what the built module has: parameters and FLOPs exactly, memory within its
bounds."""

from __future__ import annotations

import pytest
from torch.utils.flop_counter import FlopCounterMode

from manyheads.arch import zoo
from manyheads.models.build import build
from manyheads.planner import Budget, Limits, plan
from tests.models.test_memory import CASES, tracked
from tests.models.tiny import ORIGINALS, empty

FULL = (
    "vit_b",
    "xcit_m24",
    "tnt_s",
    "volo_d1",
    "davit_t",
    "crammed_bert",
    "gpt2",
    "qwen3_0.6b",
    "nystromformer_listops",
)


@pytest.mark.parametrize("name", [*FULL, *ORIGINALS])
def test_parameters_and_flops_are_the_built_modules(name: str) -> None:
    original = zoo.get(name) if name in FULL else ORIGINALS[name]
    limits = Limits() if name in FULL else Limits(mlp_multiple=8, head_dim_multiple=2)
    found = plan(original, Budget(params=0.95), limits, top=30)
    assert found.designs
    for design in (found.designs[0], found.designs[-1]):
        module = build(design.arch, device="meta")
        assert sum(p.numel() for p in module.parameters()) == design.costs["params"]
        with FlopCounterMode(display=False) as counter:
            module.eval()(*empty(design.arch))
        assert counter.get_total_flops() == design.costs["flops"]


@pytest.mark.parametrize(("name", "bound"), [("vit", 0.05), ("gpt2", 0.10), ("volo", 0.10)])
def test_memory_is_within_its_bounds(name: str, bound: float) -> None:
    make, batch = CASES[name]
    found = plan(make(), Budget(params=0.4 if name == "vit" else 0.9), batch=batch, precision="fp32", fused=True)
    design = found.designs[0]
    _, peak = tracked(design.arch, batch, "fp32", True)
    # one process that drops its gradients after each step holds 12 bytes a parameter at the peak, not 16
    assert design.costs["memory"] - 4 * design.costs["params"] == pytest.approx(peak, rel=bound)


def test_the_kv_cache_is_of_the_whole_context() -> None:
    found = plan(zoo.get("gpt2"), Budget(kv_cache="0.5x"), tokens=512)
    dims = found.designs[0].dims
    assert found.designs[0].costs["kv_cache"] == 2 * 2 * dims["depth"][0] * dims["inner"][0] * 512
    assert found.original.costs["kv_cache"] == 2 * 2 * 12 * 768 * 512
    assert all(design.ratios["kv_cache"] <= 0.5 for design in found.designs)


def test_costs_are_counted_as_the_user_will_run_it() -> None:
    """Image size and context length move FLOPs, and a larger batch moves memory."""
    small, large = (plan(zoo.get("vit_b"), Budget(flops=0.5), image=size) for size in (224, 384))
    assert large.original.costs["flops"] > 3 * small.original.costs["flops"]
    assert large.designs[0].arch.stages[0].tokens == 577
    one, many = (plan(zoo.get("vit_b"), Budget(memory=0.5), batch=size) for size in (1, 64))
    assert many.original.costs["memory"] > 3 * one.original.costs["memory"]
