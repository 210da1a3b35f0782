"""A dry run: what training would take, before anything is allocated."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from manyheads.arch.count import params, training_flops
from manyheads.models.build import build
from manyheads.spec.arch import Arch
from manyheads.spec.errors import UserError
from manyheads.spec.parts import Token
from manyheads.spec.recipe import Recipe

from .budget import budget
from .memory import part_bytes
from .parallel import Parallel, Ranks
from .step import uses_half


@dataclass(frozen=True)
class Estimate:
    """What a run would take. `memory` is bytes in each GPU by the formula of `arch.count`, temporary buffers left out:
    with fused attention, and in `memory_unfused` with attention maps kept. `seconds` is `flops` over what the GPUs
    do."""

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
    """What `recipe` would take for `arch` on `gpus` GPUs that can do `device_tflops` and reach `utilisation` of it: the
    default is an A100 in TF32; `samples` is the size of an epoch, for a basis that needs it.

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
        return Estimate(count, None, None, None, rows, memory, unfused, spend.seconds)
    total = spend.samples(recipe)
    assert total is not None
    flops = float(total * training_flops(arch))
    return Estimate(count, spend.steps, total, flops, rows, memory, unfused, flops / speed)
