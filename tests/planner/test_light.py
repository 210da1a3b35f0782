"""Planning needs numpy alone, and costs a million designs in well under a second."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

from manyheads.arch import zoo
from manyheads.arch.redesign import redesign
from manyheads.planner import Budget, Limits, plan
from manyheads.planner.machine_costs import measure
from tests.models.tiny import ORIGINALS

RUN = """
import sys
from manyheads.arch import zoo
from manyheads.planner import Budget, plan
from manyheads.planner.presentation import as_record
as_record(plan(zoo.get("vit_b"), Budget(params=0.5)))
print([name for name in ("torch", "timm", "transformers", "matplotlib") if name in sys.modules])
"""


def test_planning_imports_no_torch() -> None:
    done = subprocess.run([sys.executable, "-c", RUN], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stderr


def test_more_than_a_million_designs_a_second() -> None:
    """Costs, predicted kappa, warnings, front and list; the benchmark measures it properly, this holds the floor."""
    limits = Limits(mlp_multiple=8, heads=(12, 200), head_dims=(32, 48, 64, 80, 96, 112, 128))
    start = time.process_time()
    found = plan(zoo.get("vit_b"), Budget(params=0.5, flops=0.5), limits)
    assert found.considered > 4_000_000
    assert found.considered / (time.process_time() - start) > 1e6


@pytest.mark.parametrize("name", ["vit", "gpt2", "nystromformer_pair"])
def test_measuring_builds_and_times_original_and_redesign(name: str) -> None:
    original = ORIGINALS[name]
    timed = measure([original, redesign(original, depth=1, heads=4)], batch=2, device="cpu")
    for one in timed:
        assert 0 < one.latency <= one.slowest
        assert one.throughput > 0
        assert one.source == "tracked"
        assert "torch" in one.machine
    assert timed[1].memory < timed[0].memory


def test_an_absolute_latency_needs_the_originals(monkeypatch: pytest.MonkeyPatch) -> None:
    found = plan(zoo.get("vit_b"), Budget(latency="5ms"), latency=0.01)
    assert found.designs
    for design in found.designs:
        share = max(design.dims["depth"][0] / 12, design.ratios["flops"])
        assert design.costs["latency"] == pytest.approx(0.01 * share)
        assert design.costs["latency"] <= 0.005
    assert plan(zoo.get("vit_b"), Budget(latency=0.5)).designs[0].ratios["latency"] <= 0.5
