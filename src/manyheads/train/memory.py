"""Out of memory: which batch would fit, by the memory formula of `arch`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from manyheads.arch.count import training_bytes
from manyheads.arch.quantities import Precision
from manyheads.spec.arch import Arch
from manyheads.spec.errors import UserError
from manyheads.spec.recipe import Recipe

from .parallel import Ranks
from .step import uses_half

ROOM = 0.85  # of the device; the rest is for temporary buffers, the allocator's slack and the CUDA context


def part_bytes(
    arch: Arch, recipe: Recipe, rows: int, *, half: bool, fused: bool, world: int = 1, sharded: bool = False
) -> float:
    """Bytes of training memory in one process that takes `rows` rows at a time; averaged weights included."""
    precision: Precision = "amp" if half else "fp32"
    empty = training_bytes(arch, 0, precision, fused)
    if recipe.ema:
        empty += empty / (18 if half else 16) * 4
    kept: float = training_bytes(arch, rows, precision, fused) - training_bytes(arch, 0, precision, fused)
    return kept + empty / (world if sharded else 1)


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
def explained(arch: Arch, recipe: Recipe, ranks: Ranks) -> Iterator[None]:
    """Turns running out of memory into a sentence with the batch that fits."""
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
    told = f"{rows} rows at a time (batch {recipe.batch} in {pieces} parts) do not fit into {room / 2**30:.1f} GiB"
    if fits < 1:
        return f"{told}, and neither do the weights, gradients and moments; write parallel=fsdp on more GPUs"
    fits = min(fits, rows // 2)  # the formula may be too hopeful, and what was tried did not fit
    fits = max(2, fits - fits % 2)  # rows come in pairs, which mixing mixes
    ways = [n for n in range(1, recipe.batch + 1) if recipe.batch % (2 * n * ranks.world) == 0]
    parts = next((n for n in ways if recipe.batch // (n * ranks.world) <= fits), None)
    same = "" if parts is None else f"accumulate={parts}, which gives the same training but for batch norms, or "
    if recipe.ramp and parts is not None:
        same = f"accumulate={parts}, with which the batch also begins at {recipe.batch // parts}, or "
    return f"{told}; by the memory formula {fits} do: write {same}batch={fits * pieces}"


def _host_memory() -> float:
    import os

    return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
