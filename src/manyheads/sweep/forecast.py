"""What runs would take, before anything is allocated: steps, operations, time, memory.

A run's time is that of a finished run that differs in its seed alone. Where there is none it is estimated: operations
at a machine's speed, and for every step and layer a fixed overhead, which dominates where models are small."""

from __future__ import annotations

import heapq
import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import torch

from manyheads import tasks
from manyheads.arch.count import params, training_flops
from manyheads.nn.device import named_device
from manyheads.runs import Run, RunSpec
from manyheads.spec.errors import UserError
from manyheads.spec.measurements import Measurement
from manyheads.spec.parts import Token
from manyheads.spec.task import Task
from manyheads.train.budget import budget
from manyheads.train.estimate import part_bytes
from manyheads.train.numerics import uses_half

from .jobs import Job

SPEED = {"cpu": 0.025, "cuda": 60.0}  # TFLOPS that training reaches: a core, and 0.4 of an A100 in TF32
LAYER = {"cpu": 1e-3, "cuda": 1e-4}  # seconds of overhead for every layer of a step


@dataclass(frozen=True)
class Forecast:
    """What one run would take. None means unknown: a measurement has no steps, and the steps of an epoch are unknown
    where its data is missing. `memory` is bytes of tensors, without PyTorch itself."""

    job: Job
    done: bool
    params: int
    steps: int | None = None
    flops: float | None = None
    seconds: float | None = None
    memory: float | None = None


def forecast(
    jobs: Sequence[Job],
    *,
    device: str | None = None,
    threads: int = 1,
    tflops: float | None = None,
    root: Path | None = None,
) -> list[Forecast]:
    """A forecast for each job, on `device` (by default a GPU if there is one) that trains at `tflops`."""
    if tflops is not None and not 0 < tflops < math.inf:
        raise UserError(f"--tflops {tflops}: nothing is trained at that speed; write a number above 0")
    if threads < 1:
        raise UserError(f"a run of {threads} threads; write 1 or more")
    kind = named_device(device).type if device else "cuda" if torch.cuda.is_available() else "cpu"
    speed = 1e12 * (tflops or SPEED.get(kind, SPEED["cuda"]) * (threads if kind == "cpu" else 1))
    opened = [(job, Run.open(job.path)) for job in jobs if (job.path / "spec.json").is_file()]
    results = {job.path: run.result for job, run in opened if run.id == job.spec.id}
    durations: dict[str, float] = {}
    for job in jobs:
        result = results.get(job.path)
        if result is not None and "seconds" in result.get("timing", {}):
            durations[_but_seed(job.spec)] = float(result["timing"]["seconds"])
    return [
        _one(job, results.get(job.path) is not None, durations.get(_but_seed(job.spec)), kind, speed, root)
        for job in jobs
    ]


def wall(forecasts: Iterable[Forecast], workers: int) -> float:
    """Seconds until so many workers, which take the runs in their order, have done all."""
    free = [0.0] * workers
    for each in forecasts:
        if not each.done and each.seconds is not None:
            heapq.heapreplace(free, free[0] + each.seconds)
    return max(free)


def _one(job: Job, done: bool, taken: float | None, kind: str, speed: float, root: Path | None) -> Forecast:
    arch, count = job.spec.arch, params(job.spec.arch).total
    task, recipe = job.spec.task, job.spec.recipe
    tasks.check(task, arch)
    if isinstance(task, Measurement):
        return Forecast(job, done, count, seconds=taken)
    device = torch.device(kind)
    memory = part_bytes(arch, recipe, recipe.batch // recipe.accumulate, half=uses_half(recipe, device), fused=True)
    text = isinstance(arch.embed, Token)
    unit, per_sample = ("tokens", arch.stages[0].tokens) if text else ("images", 1)
    samples = None
    if recipe.basis.kind == "epochs":
        samples = _samples(job.spec.task, recipe.batch, root)
        if samples is None:
            return Forecast(job, done, count, seconds=taken, memory=memory)
    spend = budget(recipe, arch, unit=unit, per_sample=per_sample, samples=samples)
    seen = spend.samples(recipe)
    if spend.steps is None or seen is None:
        return Forecast(job, done, count, seconds=spend.seconds, memory=memory)
    flops = float(seen * training_flops(arch))
    layers = sum(stage.depth * len(stage.unit) for stage in arch.stages)
    counted = flops / speed + spend.steps * layers * LAYER.get(kind, LAYER["cuda"])
    return Forecast(job, done, count, spend.steps, flops, counted if taken is None else taken, memory)


@lru_cache(maxsize=256)
def _samples(task: Task, batch: int, root: Path | None) -> int | None:
    """How many samples an epoch has; None where the data is missing."""
    try:
        return tasks.open_task(task, torch.device("cpu"), 0, batch, root=root).samples
    except UserError:
        return None


def _but_seed(spec: RunSpec) -> str:
    return json.dumps({**spec.to_dict(), "seed": 0, "label": {}}, sort_keys=True)
