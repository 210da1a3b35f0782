"""What designs cost on this machine, original beside redesigns: batch-1 latency, training throughput, peak memory.

No other file of the planner imports torch, and this one only when it measures. The models take turns, so that a machine
that slows down slows all of them; medians are reported."""

from __future__ import annotations

import platform
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from manyheads.arch.count import params
from manyheads.spec.arch import Arch
from manyheads.spec.errors import UserError

ROUNDS, LEAST, SECONDS = 7, 3, 20.0  # rounds of turns; after SECONDS no further round begins, but LEAST are run


@dataclass(frozen=True)
class MachineCosts:
    """Seconds of one example alone, median and slowest; training examples a second at `batch`; peak bytes of a training
    step, allocated on a GPU or tracked on a CPU as `source` says."""

    latency: float
    slowest: float
    throughput: float
    batch: int
    memory: float
    source: str
    machine: str


def measure(
    archs: Sequence[Arch],
    *,
    batch: int | None = None,
    device: str | None = None,
    train: bool = True,
    tick: Callable[[str], None] = lambda _: None,
) -> tuple[MachineCosts, ...]:
    """Build every design and time it, eagerly: in float32 on a CPU (default batch 4), in bf16 autocast on a GPU (32).

    Without `train` only latency is measured. `tick` receives the name of each stage as it begins."""
    import torch

    from manyheads.nn.device import pick_device

    where = pick_device(device)
    size = batch or (32 if where.type == "cuda" else 4)
    _room(archs, where)
    machine = torch.cuda.get_device_name(where) if where.type == "cuda" else f"CPU, {torch.get_num_threads()} threads"
    costs = []
    tick("latency")
    alone = _race([_forward(arch, where) for arch in archs], where)
    for arch, turns in zip(archs, alone, strict=True):
        tick(f"training, {params(arch).total / 1e6:.0f} M")
        rate, memory, source = _training(arch, size, where) if train else (0.0, 0.0, "")
        costs.append(
            MachineCosts(
                latency=statistics.median(turns),
                slowest=max(turns),
                throughput=rate,
                batch=size,
                memory=memory,
                source=source,
                machine=f"{machine}, torch {torch.__version__}, Python {platform.python_version()}",
            )
        )
    return tuple(costs)


def _room(archs: Sequence[Arch], device: Any) -> None:
    """Refuse models whose weights do not fit in memory, before the machine starts to swap."""
    import os

    if device.type == "cuda":
        return
    free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    need = 4 * sum(params(arch).total for arch in archs)
    if need > free:
        raise UserError(
            f"measuring needs {need / 1e9:.1f} GB for the weights of {len(archs)} models, and {free / 1e9:.1f} "
            "GB are free; measure fewer of them, or a smaller model"
        )


def _forward(arch: Arch, device: Any) -> Callable[[], Any]:
    import torch

    from manyheads.models.build import build
    from manyheads.models.example_step import example

    model = build(arch, device=device, seed=0).eval()
    inputs = example(arch, 1, device)

    def step() -> Any:
        with torch.inference_mode(), torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
            return model(inputs)

    return step


def _race(steps: list[Callable[[], Any]], device: Any) -> list[list[float]]:
    """Seconds of every step in each round; in a round every step runs once."""
    for step in steps:
        _timed(step, device)
    turns: list[list[float]] = [[] for _ in steps]
    start = time.perf_counter()
    for done in range(ROUNDS):
        if done >= LEAST and time.perf_counter() - start > SECONDS:
            break
        for step, own in zip(steps, turns, strict=True):
            own.append(_timed(step, device))
    return turns


def _timed(step: Callable[[], Any], device: Any) -> float:
    import torch

    if device.type == "cuda":
        torch.cuda.synchronize(device)
    start = time.perf_counter()
    step()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter() - start


def _training(arch: Arch, batch: int, device: Any) -> tuple[float, float, str]:
    """Training examples a second, peak bytes, and whether these were allocated or tracked."""
    import torch

    from manyheads.models.build import build
    from manyheads.models.example_step import example, training_step

    model = build(arch, device=device, seed=0).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    inputs = example(arch, batch, device)

    def step() -> None:
        training_step(arch, model, optimizer, inputs, device.type == "cuda")

    if device.type == "cuda":
        before = torch.cuda.memory_allocated(device)
        _timed(step, device)
        torch.cuda.reset_peak_memory_stats(device)
        seconds = statistics.median(_timed(step, device) for _ in range(3))
        return batch / seconds, float(torch.cuda.max_memory_allocated(device) - before), "allocated"
    _timed(step, device)
    seconds = min(_timed(step, device) for _ in range(2))
    return batch / seconds, _tracked(model, optimizer, step), "tracked"


def _tracked(model: Any, optimizer: Any, step: Callable[[], Any]) -> float:
    """Peak bytes of a training step as PyTorch's tracker sees every tensor."""
    from torch.distributed._tools.mem_tracker import MemTracker

    from manyheads.models.example_step import tracked_bytes

    tracker = MemTracker()
    tracker.track_external(model, optimizer)
    with tracker:
        step()
    return tracked_bytes(tracker.get_tracker_snapshot("peak"))
