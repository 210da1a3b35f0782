"""`python -m benchmarks.plan`: designs that the planner considers per second on one core.

The time includes all of a plan: the costs in every budget, predicted kappa, warnings, the front, the ranked list. The
peer costs one record at a time. numpy's element-wise arithmetic, which the planner uses, runs on one core.
"""

from __future__ import annotations

import argparse
import platform
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from manyheads.arch import zoo
from manyheads.arch.count import forward_flops, params, training_bytes
from manyheads.arch.redesign import redesign
from manyheads.conditioning.theory import gaussian_log_kappa
from manyheads.planner import Budget, Limits, Plan, plan

from .measure import write_record

WIDE = Limits(mlp_multiple=8, heads=(12, 200), head_dims=(32, 48, 64, 80, 96, 112, 128))
CASES: dict[str, tuple[str, Budget, Limits]] = {
    "vit_b, parameters": ("vit_b", Budget(params=0.5), WIDE),
    "vit_b, parameters, FLOPs and memory": ("vit_b", Budget(params=0.5, flops=0.5, memory=0.5), WIDE),
    "gpt2, four budgets": ("gpt2", Budget(params=0.6, flops=0.6, memory=0.8, kv_cache=0.6), WIDE),
    "vit_b as a user types it": ("vit_b", Budget(params=0.5), Limits()),
    "volo_d3 as a user types it": ("volo_d3", Budget(params=0.5), Limits()),
    "llama_1b, grouped queries": ("llama_1b", Budget(params=0.7), Limits(kv_heads="any")),
}


def timed(call: Callable[[], Any], rounds: int) -> tuple[float, Any]:
    """Median seconds of a call over some rounds, and its last result."""
    seconds, result = [], None
    for _ in range(rounds):
        start = time.perf_counter()
        result = call()
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds), result


def one_by_one(name: str, count: int) -> float:
    """Designs per second when each is a record of its own, whose parameters, FLOPs, memory and kappa come from the same
    formulas."""
    original = zoo.get(name)
    start = time.perf_counter()
    for i in range(count):
        design = redesign(original, depth=1 + i % 11, heads=13 + i % 30, mlp_dim=1024 + 64 * (i % 20))
        params(design), forward_flops(design), training_bytes(design)
        gaussian_log_kappa(197, 64 * (13 + i % 30))
    return count / (time.perf_counter() - start)


def main() -> None:
    """Run every case and write the record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    slow = one_by_one("vit_b", 2000)
    results = []
    for case, (name, budget, limits) in CASES.items():
        original = zoo.get(name)
        seconds, result = timed(lambda o=original, b=budget, x=limits: plan(o, b, x), args.rounds)
        assert isinstance(result, Plan)
        rate = result.considered / seconds
        results.append(
            {
                "case": case,
                "designs": result.considered,
                "fitting": result.fitting,
                "front": len(result.front),
                "seconds": seconds,
                "designs_per_second": rate,
                "ratio_to_one_by_one": rate / slow,
            }
        )
        print(
            f"{case:38} {result.considered:>10,} designs  {seconds:8.3f} s  {rate / 1e6:7.2f} M/s  {rate / slow:9,.0f}x"
        )
    print(f"one record at a time: {slow:,.0f} designs/s")
    if args.out is not None:
        machine = {"python": platform.python_version(), "numpy": np.__version__, "processor": platform.machine()}
        record = {"machine": machine, "rounds": args.rounds, "one_by_one": slow, "results": results}
        write_record(args.out, record)


if __name__ == "__main__":
    main()
