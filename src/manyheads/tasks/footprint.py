"""`Footprint`: what a training step holds in memory, tracked without computing anything, by formula, and on a GPU."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor, nn

from manyheads.arch.count import training_bytes
from manyheads.arch.quantities import Precision
from manyheads.models.build import model_class
from manyheads.models.example_step import example, tracked_bytes, training_step
from manyheads.nn.attention import QkvAttention
from manyheads.nn.attention_variants import ClassAttentionBlock
from manyheads.spec.arch import Arch
from manyheads.spec.errors import UserError
from manyheads.spec.rates import Rates
from manyheads.spec.validate import between

from .measurement import Findings, Measurement

STEPS = 2  # the optimizer's state is there from the second on


@dataclass(frozen=True)
class Footprint(Measurement):
    """Gigabytes (10^9 bytes) of training on `rows` examples at a time with AdamW: `memory`, the peak that PyTorch's
    tracker sees under fake tensors, so that nothing is computed and any model fits; `counted`, the formula of
    `arch.count`; and `allocated`, the peak of PyTorch's allocator where the run is on a GPU and the model fits.

    `precision` is fp32, or amp (bfloat16 autocast); `fused` attention keeps no tokens x tokens map. Tracking takes up
    to a minute for a deep model; without `track` the formula stands in its place."""

    rows: int = 8
    precision: Precision = "fp32"
    fused: bool = False
    track: bool = True

    def __post_init__(self) -> None:
        between("Footprint.rows", self.rows, 1, whole=True)
        if self.precision not in ("fp32", "amp"):
            raise UserError(f"Footprint.precision is {self.precision!r}; write fp32 or amp")
        for name in ("fused", "track"):
            if not isinstance(getattr(self, name), bool):
                raise UserError(f"Footprint.{name} is {getattr(self, name)!r}; write True or False")

    def measure(self, arch: Arch, seed: int, device: torch.device) -> Findings:
        """Tracked, counted, and allocated where that can be seen."""
        counted = training_bytes(arch, self.rows, self.precision, self.fused)
        score = {"memory": (tracked(arch, self) if self.track else counted) / 1e9, "counted": counted / 1e9}
        if device.type == "cuda":
            try:
                score["allocated"] = self._allocated(arch, device) / 1e9
            except torch.OutOfMemoryError:
                torch.cuda.empty_cache()  # a finding, too: there is no such number on this GPU
        return Findings(score, ("memory", "down"))

    def _allocated(self, arch: Arch, device: torch.device) -> float:
        before = torch.cuda.memory_allocated(device)
        made = self.made(arch, device)
        for _ in range(STEPS):
            torch.cuda.reset_peak_memory_stats(device)
            training_step(arch, *made, self.precision == "amp")
        return float(torch.cuda.max_memory_allocated(device) - before)

    def made(self, arch: Arch, device: torch.device) -> tuple[nn.Module, torch.optim.Optimizer, Tensor]:
        """Model, optimizer and inputs; weights are whatever memory holds."""
        with device:
            model = model_class(arch)(arch, Rates())
        for part in model.modules():
            if isinstance(part, QkvAttention | ClassAttentionBlock):
                part.fused = self.fused
        return model, torch.optim.AdamW(model.parameters(), lr=1e-4, foreach=False), example(arch, self.rows, device)


@lru_cache(maxsize=64)  # nothing of it is random: another seed, the same bytes
def tracked(arch: Arch, footprint: Footprint) -> float:
    """Peak bytes of a step that PyTorch's tracker sees under fake tensors. The optimizer has its state before: a step
    on gradients of nothing."""
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.distributed._tools.mem_tracker import MemTracker

    with FakeTensorMode():
        model, optimizer, inputs = footprint.made(arch, torch.device("cpu"))
        for parameter in model.parameters():
            parameter.grad = torch.zeros_like(parameter)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        tracker = MemTracker()
        tracker.track_external(model, optimizer)
        with tracker:
            training_step(arch, model, optimizer, inputs, footprint.precision == "amp")
        return tracked_bytes(tracker.get_tracker_snapshot("peak"))
