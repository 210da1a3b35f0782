"""How speed is measured: the contestants of a case take turns, every turn is timed, and the median turn counts."""

from __future__ import annotations

import argparse
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

COMPILE_ONLY = False  # build and warm up the contestants without racing them


@dataclass
class Contestant:
    """One implementation in a race. `make` builds it and returns its step, a function without arguments."""

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
    """Build and warm up the contestants, then let them take turns of `steps` steps. The first contestant is ours.

    `work` is the number of images, tokens or calls in one step. The result holds each contestant's median rate and its
    spread, the peak memory that it added, and the ratio of our rate to each peer's."""
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
        for contestant in order.sample(ready, len(ready)):  # so that none always follows the same one
            assert contestant.step is not None
            synchronise()
            start = time.perf_counter()
            for _ in range(steps):
                contestant.step()
            synchronise()
            contestant.turns.append((time.perf_counter() - start) / steps)
    result: dict[str, Any] = {"case": case, "unit": unit, "steps": steps, "rounds": rounds, "contestants": {}}
    for contestant in ready:
        median = statistics.median(contestant.turns)
        result["contestants"][contestant.name] = {
            "rate": work / median,
            "seconds_per_step": median,
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
    """Print one line for each contestant."""
    for name, row in result["contestants"].items():
        ratio = result["ratios"].get(name)
        tail = "" if ratio is None else f"   ours is {ratio:.2f}x"
        rate, memory = f"{row['rate']:14,.1f} {result['unit']}", f"{row['peak_gib']:7.2f} GiB"
        print(f"{result['case']:28} {name:22} {rate}  {memory}{tail}", flush=True)


def machine() -> dict[str, Any]:
    """The machine and the versions that a record was measured with."""
    facts: dict[str, Any] = {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "cpu_threads": torch.get_num_threads(),
    }
    if torch.cuda.is_available():
        facts |= {
            "gpu": torch.cuda.get_device_name(),
            "cuda": torch.version.cuda,
            "cudnn": torch.backends.cudnn.version(),
        }
    for name in ("timm", "transformers"):
        try:
            facts[name] = __import__(name).__version__
        except ImportError:
            facts[name] = None
    return facts


def write(path: Path, results: list[dict[str, Any]]) -> None:
    """Write results with the machine and the versions."""
    write_record(path, {"machine": machine(), "results": results})


def write_record(path: Path, record: dict[str, Any]) -> None:
    """Write one JSON record, and print its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(record, indent=1) + "\n")
    print(f"wrote {path}", flush=True)


def arguments(description: str, out: str) -> argparse.ArgumentParser:
    """A parser with the options that every benchmark of models has."""
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path(f"evidence/{out}"), help="the record to write")
    return parser
