"""What runs would take, before anything is allocated: steps, operations, time, memory.

A run's time is that of a finished run that differs in its seed alone. Where there is none it is estimated: operations
at a machine's speed, and for every step and layer a fixed overhead, which dominates where models are small. It is the
time of a run that has its device to itself.

Runs side by side share their device's throughput (`Sharing`), so that many workers on one device take hardly less time
than one. Cores are shared evenly. On one GPU, several runs through CUDA MPS trained 1.17 times as many images a second
as one alone (8 runs 1.165, 14 runs 1.176, a ViT of width 192 on an H200, `evidence/bench_train_h200.json`). By this
model the 48 runs of `rank_fig1` at scale small take 396 s with 16 workers; an H200 took 478
(`evidence/rank_small_h200.json`)."""

from __future__ import annotations

import heapq
import json
import math
import os
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
GPU_GAIN = 1.17  # what several runs on one GPU train together, one alone being 1


@dataclass(frozen=True)
class Sharing:
    """What runs side by side get of their devices: together at most `capacity` times what one run alone would get of
    one that is free. `words` say what was assumed."""

    capacity: float
    words: str

    def speed(self, runs: int) -> float:
        """The share of its own speed that each of so many runs has."""
        return min(1.0, self.capacity / runs)


def sharing(workers: int, device: str | None = None, threads: int = 1, *, own: bool = False, gpus: int = 1) -> Sharing:
    """How `workers` runs of `threads` threads share this machine's cores, or its `gpus`. With `own` each run has a
    device to itself, as where a scheduler gives it one."""
    if own:
        return Sharing(float(workers), "each run has a device of its own")
    if _kind(device) == "cpu":
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        plural = "s" * (threads > 1)
        return Sharing(cores / threads, f"{workers} runs of {threads} thread{plural} share {cores} cores")
    devices = "one GPU" if gpus == 1 else f"{gpus} GPUs"
    return Sharing(
        gpus * GPU_GAIN,
        f"{workers} runs share {devices}, and several train at most {GPU_GAIN} times as fast together as one alone (an "
        "H200 through CUDA MPS; without MPS they take turns)",
    )


@dataclass(frozen=True)
class Forecast:
    """What one run would take that has its device to itself. None means unknown: a measurement has no steps, and the
    steps of an epoch are unknown where its data is missing. `memory` is bytes of tensors, without PyTorch itself."""

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
    kind = _kind(device)
    speed = 1e12 * (tflops or SPEED.get(kind, SPEED["cuda"]) * (threads if kind == "cpu" else 1))
    opened = [(job, Run.open(job.path)) for job in jobs if (job.path / "spec.json").is_file()]
    results = {job.path: run.result for job, run in opened if run.id == job.spec.id}
    results |= {job.path: job.packed.result for job in jobs if job.packed is not None}
    shared, durations = sharing(1, device, threads), dict[str, float]()
    for job in jobs:
        result = results.get(job.path)
        if result is not None and "seconds" in result.get("timing", {}):
            beside = result["timing"].get("on_device") or 1  # unknown: no faster than it was
            durations[_but_seed(job.spec)] = float(result["timing"]["seconds"]) * shared.speed(beside)
    return [
        _one(job, results.get(job.path) is not None, durations.get(_but_seed(job.spec)), kind, speed, root)
        for job in jobs
    ]


def wall(forecasts: Iterable[Forecast], workers: int, shared: Sharing) -> float:
    """Seconds until so many workers, which take the runs in their order and share their devices, have done all; then
    the runs that are alone follow one after another."""
    left = [(each.job, each.seconds) for each in forecasts if not each.done and each.seconds is not None]
    waiting = [seconds for job, seconds in left if not job.alone][::-1]
    running: list[float] = []  # when each will be done, on a clock that runs at the speed that all of them have
    clock = total = 0.0
    while waiting or running:
        while waiting and len(running) < workers:
            heapq.heappush(running, clock + waiting.pop())
        speed = shared.speed(len(running))
        done = heapq.heappop(running)
        total += (done - clock) / speed
        clock = done
    fixed = (job.spec.recipe.basis.kind == "seconds" for job, _ in left if job.alone)
    alone = (seconds for job, seconds in left if job.alone)
    return total + sum(seconds / (1 if given else shared.speed(1)) for seconds, given in zip(alone, fixed, strict=True))


def _kind(device: str | None) -> str:
    return named_device(device).type if device else "cuda" if torch.cuda.is_available() else "cpu"


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
