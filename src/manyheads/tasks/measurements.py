"""Measurements of a model without training: `measure`, and here those of memory and speed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache, singledispatch
from typing import Any

import torch
from torch import Tensor, nn

from manyheads.arch.count import training_bytes
from manyheads.models.build import build, model_class
from manyheads.models.example_step import example, tracked_bytes, training_step
from manyheads.nn.attention import QkvAttention
from manyheads.nn.attention_variants import ClassAttentionBlock
from manyheads.spec.arch import Arch
from manyheads.spec.measurements import Footprint, Measurement, Speed
from manyheads.spec.recipe import Rates

STEPS = 2  # the optimizer has its state from the second step on


@dataclass(frozen=True)
class Findings:
    """Scores by name; the headline score, and whether it should go "up" or "down"; records in the form of a probe's;
    what a constant guess would score, where there is such a guess."""

    score: dict[str, float]
    better: tuple[str, str]
    spectra: list[dict[str, Any]] = field(default_factory=list)
    trivial: dict[str, float] = field(default_factory=dict)


@singledispatch
def measure(task: Measurement, arch: Arch, seed: int, device: torch.device) -> Findings:
    """The scores of a measurement. Another seed draws other inputs, or times again."""
    raise NotImplementedError


# ----------------------------------------------------------------------------------------------------- memory
@measure.register(Footprint)
def _(task: Footprint, arch: Arch, seed: int, device: torch.device) -> Findings:
    """Tracked and counted bytes; on a GPU also the allocated ones."""
    counted = training_bytes(arch, task.rows, task.precision, task.fused)
    score = {"memory": (tracked(arch, task) if task.track else counted) / 1e9, "counted": counted / 1e9}
    if device.type == "cuda":
        try:
            score["allocated"] = _allocated(task, arch, device) / 1e9
        except torch.OutOfMemoryError:
            torch.cuda.empty_cache()  # the model does not fit: the score is left out
    return Findings(score, ("memory", "down"))


def _allocated(task: Footprint, arch: Arch, device: torch.device) -> float:
    before = torch.cuda.memory_allocated(device)
    parts = _training_parts(task, arch, device)
    for _ in range(STEPS):
        torch.cuda.reset_peak_memory_stats(device)
        training_step(arch, *parts, task.precision == "amp")
    return float(torch.cuda.max_memory_allocated(device) - before)


def _training_parts(
    task: Footprint, arch: Arch, device: torch.device
) -> tuple[nn.Module, torch.optim.Optimizer, Tensor]:
    """Model, optimizer and inputs; the weights are not initialised."""
    with device:
        model = model_class(arch)(arch, Rates())
    for part in model.modules():
        if isinstance(part, QkvAttention | ClassAttentionBlock):
            part.fused = task.fused
    return model, torch.optim.AdamW(model.parameters(), lr=1e-4, foreach=False), example(arch, task.rows, device)


@lru_cache(maxsize=64)  # every seed gives the same bytes
def tracked(arch: Arch, footprint: Footprint) -> float:
    """Peak bytes of a training step, as PyTorch's tracker sees them under fake tensors. A first step on zero gradients
    gives the optimizer its state."""
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.distributed._tools.mem_tracker import MemTracker

    with FakeTensorMode():
        model, optimizer, inputs = _training_parts(footprint, arch, torch.device("cpu"))
        for parameter in model.parameters():
            parameter.grad = torch.zeros_like(parameter)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        tracker = MemTracker()
        tracker.track_external(model, optimizer)
        with tracker:
            training_step(arch, model, optimizer, inputs, footprint.precision == "amp")
        return tracked_bytes(tracker.get_tracker_snapshot("peak"))


# ------------------------------------------------------------------------------------------------------ speed
@measure.register(Speed)
def _(task: Speed, arch: Arch, seed: int, device: torch.device) -> Findings:
    """Milliseconds on the CPU and, if there is one, on the GPU."""
    score = _milliseconds(task, arch, seed, torch.device("cpu"), task.batch)
    if torch.cuda.is_available():
        where = device if device.type == "cuda" else torch.device("cuda")
        score |= _milliseconds(task, arch, seed, where, task.gpu_batch)
    return Findings(score, ("cpu_1", "down"))


def _milliseconds(task: Speed, arch: Arch, seed: int, device: torch.device, batch: int) -> dict[str, float]:
    from torch.utils.benchmark import Timer  # this import warns where CUDA is installed without a GPU

    half = device.type == "cuda"
    model = build(arch, device="cpu", seed=seed).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    alone, many = example(arch, 1, device), example(arch, batch, device)

    def forward(inputs: Tensor) -> None:
        model.eval()
        with torch.inference_mode(), torch.autocast(device.type, torch.bfloat16, enabled=half):
            model(inputs)

    def train(inputs: Tensor) -> None:
        model.train()
        training_step(arch, model, optimizer, inputs, half)

    def seconds(step: Callable[[Tensor], None], inputs: Tensor) -> float:
        step(inputs)
        timer = Timer("step(inputs)", globals={"step": step, "inputs": inputs}, num_threads=torch.get_num_threads())
        return float(timer.blocked_autorange(min_run_time=task.seconds).median) / len(inputs)

    times = {"1": seconds(forward, alone), "many": seconds(forward, many), "train": seconds(train, many)}
    return {f"{'gpu' if half else 'cpu'}_{name}": 1e3 * value for name, value in times.items()}
