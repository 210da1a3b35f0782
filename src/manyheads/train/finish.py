"""The end of a run: its model as a folder, its result as a record."""

from __future__ import annotations

import math
import platform
from typing import Any

import torch
from safetensors import SafetensorError
from torch import nn

from manyheads.arch.count import params, training_flops
from manyheads.models.build import build
from manyheads.models.store import save
from manyheads.runs import Run
from manyheads.spec.errors import UserError
from manyheads.spec.recipe import Recipe
from manyheads.tasks import Work

from .average import Average
from .parallel import Ranks, whole
from .step import uses_compile, uses_half


def save_model(run: Run, model: nn.Module, average: Average | None, ranks: Ranks) -> None:
    """Write the model, with averaged weights where there are some, gathered from all processes; the first writes."""
    kept = {}
    for name, tensor in model.state_dict().items():
        chosen = tensor if average is None else average.weights.get(name, tensor)
        full = whole(chosen.detach())
        if ranks.first:
            kept[name] = full.cpu()
    if not ranks.first:
        return
    plain = build(run.spec.arch, device="meta")
    plain.load_state_dict(kept, assign=True)
    try:
        save(plain, run.model)
    except (OSError, SafetensorError) as error:
        raise UserError(
            f"{run.model} cannot be written: {error}; the last checkpoint is intact, make room and start again"
        ) from error


def result(
    run: Run, recipe: Recipe, work: Work, ranks: Ranks, *, steps: int, samples: int, seconds: float, waited: float = 0.0
) -> dict[str, Any]:
    """What came of a run. Everything but `timing` is the same whenever the run is repeated; there, `waited` is the
    share of the time since the last start that went by waiting for data."""
    arch, (metric, direction) = run.spec.arch, work.better
    records = [record for record in run.metrics.read() if record["kind"] == "eval"]
    scores = [{name: value for name, value in record.items() if name not in ("kind", "samples")} for record in records]
    sign = 1 if direction == "up" else -1
    best = max(scores, key=lambda found: _rank(found[metric], sign))  # the first of equals
    units = {work.unit: samples * work.per_sample}
    return {
        "score": {name: value for name, value in scores[-1].items() if name != "step"},
        "best": best,
        "better": [metric, direction],
        "trivial": work.trivial(),
        "steps": steps,
        "samples": samples,
        "held_out": work.held_out,
        **units,
        "flops": samples * training_flops(arch),
        "params": params(arch).total,
        "non_embedding": params(arch).non_embedding,
        "averaged": bool(recipe.ema),
        "machine": machine(recipe, ranks),
        "timing": {
            "seconds": seconds,
            "rate": samples * work.per_sample / max(seconds, 1e-9),
            "unit": f"{work.unit}/s",
            "waited": waited,
        },
    }


def _rank(value: float | None, sign: int) -> float:
    return -math.inf if value is None else sign * value


def machine(recipe: Recipe, ranks: Ranks) -> dict[str, Any]:
    """Where a run was trained, as far as its numbers may depend on it."""
    gpu = ranks.device.type == "cuda"
    full = "fp32" if recipe.precision == "auto" else recipe.precision
    return {
        "device": torch.cuda.get_device_name(ranks.device) if gpu else platform.machine(),
        "processes": ranks.world,
        "parallel": ranks.kind,
        "threads": torch.get_num_threads(),
        "precision": "bf16" if uses_half(recipe, ranks.device) else full,
        "compiled": uses_compile(recipe, ranks.device),
        "torch": torch.__version__,
        "python": platform.python_version(),
    }
