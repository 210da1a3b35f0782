"""How many runs this machine takes side by side: by cores and memory, and on a GPU by how busy one run keeps it."""

from __future__ import annotations

import json
import math
import os
import statistics
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from manyheads.data.decoded_once import SHARE

from .forecast import Forecast
from .learnt import SPEED

PROCESS = {"cpu": 0.5e9, "cuda": 1.5e9}  # bytes that a process takes beside its tensors; assumed
START = {"cpu": 5.0, "cuda": 20.0}  # seconds of a run beside its training where no finished run says them; assumed
USED = 0.9  # of the free memory that runs may take
MOST = 16  # processes on one GPU
ASK = """
import json, sys, torch
device = torch.device(sys.argv[1])
print(json.dumps([torch.cuda.get_device_name(device), torch.cuda.mem_get_info(device)[0]]))
"""


@dataclass(frozen=True)
class Machine:
    """A device that runs share: its kind (cpu or cuda), the name of a GPU, free bytes, and the cores of the machine."""

    kind: str
    name: str | None
    memory: float | None
    cores: int


@dataclass(frozen=True)
class WorkerCount:
    """How many runs execute side by side, and why."""

    workers: int
    words: str


def here(device: str | None) -> Machine:
    """The device that runs would share. A GPU is asked in another process, because whoever asks it keeps a part of its
    memory."""
    import torch

    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    kind = device.partition(":")[0] if device else "cuda" if torch.cuda.is_available() else "cpu"
    if kind != "cuda":
        return Machine("cpu", None, _free_memory(), cores)
    name, memory = None, None
    if torch.cuda.is_available():
        command = [sys.executable, "-c", ASK, device or "cuda"]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode == 0:
            name, memory = json.loads(done.stdout)
    return Machine("cuda", name, memory, cores)


def choose(forecasts: Sequence[Forecast], machine: Machine, threads: int) -> WorkerCount:
    """So many runs that the device is full, as far as cores and memory allow."""
    left = [each for each in forecasts if not each.done and not each.job.alone]
    limits = {"cores": max(1, machine.cores // threads), "runs": max(1, len(left))}
    fits = _fitting([(each.memory or 0.0) + _held(each, machine) for each in left], machine)
    if fits is not None:
        limits["memory"] = fits
    words = {
        "cores": f"this machine has {machine.cores} core{'s' * (machine.cores > 1)}",
        "runs": "there are no more runs",
        "memory": "more would not fit into the memory",
    }
    before = ""
    if machine.kind == "cuda":
        busy = [share for each in left if (share := _busy(each)) is not None]
        share = statistics.median(busy) if busy else 0.5
        limits["gpu"] = min(MOST, max(2, math.ceil(1 / share)))
        words["gpu"] = "more would hardly gain anything"
        before = f"one run keeps the GPU busy for about {100 * share:.0f} % of its time, and "
    workers = min(limits.values())
    reason = next(name for name, most in limits.items() if most == workers)
    return WorkerCount(workers, before + words[reason])


def expected_overhead(each: Forecast, kind: str) -> float:
    """Seconds of a run beside its training: what finished runs say, or what is assumed."""
    return START.get(kind, START["cuda"]) if each.overhead is None else each.overhead


def _busy(each: Forecast) -> float | None:
    """The share of a run's time, from its start to its end, in which a GPU is busy with it; None where it is unknown."""
    if not each.seconds or not each.flops:
        return None
    computing = min(each.seconds, each.flops / (1e12 * SPEED["cuda"]))
    return max(1e-3, computing / (each.seconds + expected_overhead(each, "cuda")))


def _held(each: Forecast, machine: Machine) -> float:
    """Bytes of images that a run keeps on the device, where the device is large enough for them."""
    return each.held if machine.memory is not None and each.held <= machine.memory / SHARE else 0.0


def _fitting(memory: list[float], machine: Machine) -> int | None:
    """How many of the largest runs fit beside each other, one at least; None where nobody knows."""
    if machine.memory is None:
        return None
    total, count = 0.0, 0
    for tensors in sorted(memory, reverse=True):
        total += tensors + PROCESS[machine.kind]
        if total > USED * machine.memory:
            return max(1, count)
        count += 1
    return max(1, count)


def _free_memory() -> float | None:
    """Bytes of memory that processes can have on this machine, where the system says it."""
    try:
        with open("/proc/meminfo") as file:
            return next(float(line.split()[1]) * 1024 for line in file if line.startswith("MemAvailable:"))
    except (OSError, StopIteration, ValueError, IndexError):
        return None
