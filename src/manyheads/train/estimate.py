"""What training will take, by the formulas of `arch`: a dry run's estimate, and the batch that fits after running out
of memory."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch

from manyheads.arch.count import params, training_bytes, training_flops
from manyheads.arch.quantities import Precision
from manyheads.models.build import build
from manyheads.spec.arch import Arch
from manyheads.spec.errors import UserError
from manyheads.spec.parts import Token
from manyheads.spec.recipe import Recipe

from .budget import budget
from .numerics import uses_half
from .parallel import Parallel, Ranks

ROOM = 0.85  # of the device; the rest is for temporary buffers, the allocator's slack and the CUDA context


@dataclass(frozen=True)
class Estimate:
    """What a run would take. `memory` is bytes in each GPU with fused attention, by the formula of `arch.count`, which
    leaves temporary buffers out; `memory_unfused` is the same with attention maps stored. `seconds` is `flops` over the
    speed that the GPUs reach."""

    params: int
    steps: int | None
    samples: int | None
    flops: float | None
    rows: int
    memory: float
    memory_unfused: float
    seconds: float


def estimate(
    arch: Arch,
    recipe: Recipe,
    *,
    samples: int | None = None,
    gpus: int = 8,
    device_tflops: float = 156.0,
    utilisation: float = 0.4,
    parallel: Parallel = "ddp",
) -> Estimate:
    """What `recipe` would take for `arch` on `gpus` GPUs whose peak is `device_tflops` (the default is an A100 in TF32)
    and which reach the share `utilisation` of it. `samples` is the size of an epoch, for a basis that needs it.

    The model is built on the meta device, so that a record that cannot be built is refused here and not in an hour."""
    if gpus < 1 or not 0 < utilisation <= 1 or not 0 < device_tflops < math.inf:
        raise UserError(
            f"{gpus} GPUs at {utilisation} of {device_tflops} TFLOPS train nothing; write at least one, a "
            "share from 0 to 1 and a number above 0"
        )
    ranks = Ranks(torch.device("cuda", 0), parallel if gpus > 1 else "none", 0, gpus)
    ranks.check(recipe.batch, recipe.accumulate)
    model = build(arch, recipe.rates, device="meta")
    count = sum(parameter.numel() for parameter in model.parameters())
    assert count == params(arch).total, "a count is proved"
    text = isinstance(arch.embed, Token)
    unit, per_sample = ("tokens", arch.stages[0].tokens) if text else ("images", 1)
    spend = budget(recipe, arch, unit=unit, per_sample=per_sample, samples=samples)
    rows = len(ranks.rows(recipe.batch, 0, recipe.accumulate))
    half = uses_half(recipe, ranks.device)
    memory, unfused = (
        part_bytes(arch, recipe, rows, half=half, fused=fused, world=gpus, sharded=parallel == "fsdp")
        for fused in (True, False)
    )
    speed = gpus * device_tflops * 1e12 * utilisation
    if spend.steps is None:
        assert spend.seconds is not None
        return Estimate(
            params=count,
            steps=None,
            samples=None,
            flops=None,
            rows=rows,
            memory=memory,
            memory_unfused=unfused,
            seconds=spend.seconds,
        )
    total = spend.samples(recipe)
    assert total is not None
    flops = float(total * training_flops(arch))
    return Estimate(
        params=count,
        steps=spend.steps,
        samples=total,
        flops=flops,
        rows=rows,
        memory=memory,
        memory_unfused=unfused,
        seconds=flops / speed,
    )


def part_bytes(
    arch: Arch, recipe: Recipe, rows: int, *, half: bool, fused: bool, world: int = 1, sharded: bool = False
) -> float:
    """Bytes of training memory in one process that takes `rows` rows at a time, averaged weights included."""
    precision: Precision = "amp" if half else "fp32"
    empty = training_bytes(arch, 0, precision, fused)
    if recipe.ema:
        empty += empty / (18 if half else 16) * 4
    activations: float = training_bytes(arch, rows, precision, fused) - training_bytes(arch, 0, precision, fused)
    return activations + empty / (world if sharded else 1)


def fitting(arch: Arch, recipe: Recipe, room: float, ranks: Ranks) -> int:
    """The most rows that one process can take at a time in `room` bytes; 0 where the weights alone do not fit."""

    def need(rows: int) -> float:
        return part_bytes(
            arch,
            recipe,
            rows,
            half=uses_half(recipe, ranks.device),
            fused=True,
            world=ranks.world,
            sharded=ranks.kind == "fsdp",
        )

    return max(0, int((room - need(0)) / (need(1) - need(0))))


@contextmanager
def explain_out_of_memory(arch: Arch, recipe: Recipe, ranks: Ranks) -> Iterator[None]:
    """Turn running out of memory into a sentence that names a batch that fits."""
    try:
        yield
    except torch.OutOfMemoryError as error:
        room = torch.cuda.get_device_properties(ranks.device).total_memory if ranks.device.type == "cuda" else 0
        raise UserError(advice(arch, recipe, room, ranks)) from error
    except RuntimeError as error:
        if "can't allocate memory" not in str(error):  # how the CPU's allocator says it
            raise
        raise UserError(advice(arch, recipe, _host_memory(), ranks)) from error


def advice(arch: Arch, recipe: Recipe, room: float, ranks: Ranks) -> str:
    """What to write when a batch does not fit into `room` bytes."""
    pieces = ranks.world * recipe.accumulate
    rows = recipe.batch // pieces
    fits = fitting(arch, recipe, ROOM * room, ranks)
    problem = f"{rows} rows at a time (batch {recipe.batch} in {pieces} parts) do not fit into {room / 2**30:.1f} GiB"
    if fits < 1:
        return f"{problem}, and neither do the weights, gradients and moments; write parallel=fsdp on more GPUs"
    fits = min(fits, rows // 2)  # the formula leaves buffers out, and `rows` did not fit
    fits = max(2, fits - fits % 2)  # rows come in pairs, for mixup and cutmix
    ways = [n for n in range(1, recipe.batch + 1) if recipe.batch % (2 * n * ranks.world) == 0]
    parts = next((n for n in ways if recipe.batch // (n * ranks.world) <= fits), None)
    same = "" if parts is None else f"accumulate={parts}, which gives the same training but for batch norms, or "
    if recipe.ramp and parts is not None:
        same = f"accumulate={parts}, with which the batch also begins at {recipe.batch // parts}, or "
    return f"{problem}; by the memory formula {fits} do: write {same}batch={fits * pieces}"


def _host_memory() -> float:
    return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
