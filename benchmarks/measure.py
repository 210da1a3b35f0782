"""How speed is measured: contestants of one case take turns, each turn is timed whole, the median turn counts."""

from __future__ import annotations

import gc
import json
import platform
import random
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

COMPILE_ONLY = False  # build and warm each contestant, race none


@dataclass
class Contestant:
    """One implementation: `make` builds it and returns its step, a function without arguments."""

    name: str
    make: Callable[[], Callable[[], Any]]
    step: Callable[[], Any] | None = None
    memory: int = 0
    turns: list[float] = field(default_factory=list)


def synchronise() -> None:
    """Wait for the device."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def race(
    case: str, contestants: list[Contestant], *, work: float, unit: str, steps: int = 10, rounds: int = 7, warm: int = 5
) -> dict[str, Any]:
    """Build and warm each contestant, then let them take turns of `steps` steps. The first is ours.

    `work` is what one step does (images, tokens, calls); the result holds the median rate of each, its spread, peak
    memory above what stood before it was built, and the ratio of ours to each peer."""
    ready = []
    for contestant in contestants:
        before = torch.cuda.memory_allocated() if torch.cuda.is_available() else 0
        start = time.perf_counter()
        try:
            contestant.step = contestant.make()
            if torch.cuda.is_available():
                torch.cuda.reset_peak_memory_stats()
            for _ in range(warm):
                contestant.step()
            synchronise()
        except Exception as error:  # a peer that cannot run is reported, not hidden
            print(f"  {case}: {contestant.name} failed: {type(error).__name__}: {str(error)[:300]}", flush=True)
            continue
        if torch.cuda.is_available():
            contestant.memory = torch.cuda.max_memory_allocated() - before
        print(f"  {case}: {contestant.name} ready in {time.perf_counter() - start:.0f} s", flush=True)
        if COMPILE_ONLY:
            contestant.step = None
        else:
            ready.append(contestant)
    order = random.Random(0)
    for _ in range(rounds):
        for contestant in order.sample(ready, len(ready)):  # nobody always comes after the same one
            assert contestant.step is not None
            synchronise()
            start = time.perf_counter()
            for _ in range(steps):
                contestant.step()
            synchronise()
            contestant.turns.append((time.perf_counter() - start) / steps)
    result: dict[str, Any] = {"case": case, "unit": unit, "steps": steps, "rounds": rounds, "contestants": {}}
    for contestant in ready:
        middle = statistics.median(contestant.turns)
        result["contestants"][contestant.name] = {
            "rate": work / middle,
            "seconds_per_step": middle,
            "fastest": min(contestant.turns),
            "slowest": max(contestant.turns),
            "peak_gib": round(contestant.memory / 2**30, 3),
        }
    if ready:
        ours = result["contestants"][ready[0].name]["rate"]
        result["ratios"] = {c.name: ours / result["contestants"][c.name]["rate"] for c in ready[1:]}
    show(result)
    for contestant in contestants:
        contestant.step = None
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    return result


def show(result: dict[str, Any]) -> None:
    """One line per contestant."""
    for name, one in result["contestants"].items():
        ratio = result["ratios"].get(name)
        tail = "" if ratio is None else f"   ours is {ratio:.2f}x"
        rate, memory = f"{one['rate']:14,.1f} {result['unit']}", f"{one['peak_gib']:7.2f} GiB"
        print(f"{result['case']:28} {name:22} {rate}  {memory}{tail}", flush=True)


def machine() -> dict[str, Any]:
    """Where and with what this was measured."""
    found = {"python": platform.python_version(), "torch": torch.__version__, "cpu_threads": torch.get_num_threads()}
    if torch.cuda.is_available():
        found |= {
            "gpu": torch.cuda.get_device_name(),
            "cuda": torch.version.cuda,
            "cudnn": torch.backends.cudnn.version(),
        }
    for name in ("timm", "transformers"):
        try:
            found[name] = __import__(name).__version__
        except ImportError:
            found[name] = None
    return found


def write(path: Path, results: list[dict[str, Any]]) -> None:
    """Results with machine and versions as one JSON record."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"machine": machine(), "results": results}, indent=1) + "\n")
    print(f"wrote {path}")
