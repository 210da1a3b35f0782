"""What runs would take, before anything is allocated: steps, operations, time, memory.

A run's time is learnt from finished runs (`learnt`). Where none is like it, it is counted: operations at a machine's
speed, and for every step and layer a fixed overhead, which dominates where models are small. It is the time of a run
that has its device to itself.

Runs side by side share their device's throughput (`Sharing`), so that many workers on one device take hardly less time
than one. Cores are shared evenly. On one GPU, several runs through CUDA MPS trained 1.17 times as many images a second
as one alone (8 runs 1.165, 14 runs 1.176, a ViT of width 192 on an H200, `evidence/bench_train_h200.json`). By this
model the 48 runs of `rank_fig1` at scale small take 396 s with 16 workers; an H200 took 478
(`evidence/rank_small_h200.json`)."""

from __future__ import annotations

import heapq
import math
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import torch

from manyheads import tasks
from manyheads.arch.count import params, training_flops
from manyheads.nn.device import named_device
from manyheads.runs import Run, RunFolder
from manyheads.spec.errors import UserError
from manyheads.spec.measurements import Measurement
from manyheads.spec.parts import Token
from manyheads.spec.task import Task
from manyheads.train.budget import budget
from manyheads.train.estimate import part_bytes
from manyheads.train.numerics import uses_half

from .jobs import Job
from .learnt import LAYER, SPEED, Guess, Learnt, Size, layers

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
    steps of an epoch are unknown where its data is missing. `memory` is bytes of tensors, without PyTorch itself
    and without `held`, the bytes of images that it keeps on its device where they fit.
    `overhead` are the seconds beside training, where finished runs say them, and `source` where the time is known
    from."""

    job: Job
    done: bool
    params: int
    steps: int | None = None
    flops: float | None = None
    seconds: float | None = None
    memory: float | None = None
    overhead: float | None = None
    source: str = ""
    held: int = 0


def forecast(
    jobs: Sequence[Job],
    *,
    device: str | None = None,
    threads: int = 1,
    tflops: float | None = None,
    root: Path | None = None,
    known: Iterable[RunFolder] = (),
    gpu: str | None = None,
) -> list[Forecast]:
    """A forecast for each job, on `device` (by default a GPU if there is one; `gpu` is its name, where that is known).
    Times are learnt from the finished ones among the jobs and the `known` runs; with `tflops`, runs of which no other
    seed is finished are counted at that speed."""
    if tflops is not None and not 0 < tflops < math.inf:
        raise UserError(f"--tflops {tflops}: nothing is trained at that speed; write a number above 0")
    if threads < 1:
        raise UserError(f"a run of {threads} threads; write 1 or more")
    kind = _kind(device)
    speed = 1e12 * (tflops or SPEED.get(kind, SPEED["cuda"]) * (threads if kind == "cpu" else 1))
    learnt, done = learn(jobs, device=device, threads=threads, known=known, gpu=gpu)
    given = speed if tflops else None
    return [
        replace(_one(job, job.path in done, learnt, kind, given, threads, root), held=_held(job.spec.task, root))
        for job in jobs
    ]


def learn(
    jobs: Sequence[Job],
    *,
    device: str | None = None,
    threads: int = 1,
    known: Iterable[RunFolder] = (),
    gpu: str | None = None,
) -> tuple[Learnt, set[Path]]:
    """What the finished ones among the jobs and the `known` runs say about times, and the folders of the former."""
    finished = {job.path: job.packed for job in jobs if job.packed is not None}
    for job in jobs:
        if job.path not in finished and (job.path / "spec.json").is_file():
            run = Run.open(job.path)
            if run.id == job.spec.id and run.result is not None:
                finished[job.path] = RunFolder(job.path, "done", run.spec, None, run.result)
    places = {(run.place, run.path): run for run in [*known, *finished.values()]}
    alone = sharing(1, device, threads).speed
    return Learnt(places.values(), _kind(device), alone, name=gpu, threads=threads), set(finished)


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


def _one(
    job: Job, done: bool, learnt: Learnt, kind: str, speed: float | None, threads: int, root: Path | None
) -> Forecast:
    arch, count = job.spec.arch, params(job.spec.arch).total
    task, recipe = job.spec.task, job.spec.recipe
    tasks.check(task, arch)
    if isinstance(task, Measurement):
        return _told(Forecast(job, done, count), learnt.guess(job.spec, None))
    device = torch.device(kind)
    memory = part_bytes(arch, recipe, recipe.batch // recipe.accumulate, half=uses_half(recipe, device), fused=True)
    text = isinstance(arch.embed, Token)
    unit, per_sample = ("tokens", arch.stages[0].tokens) if text else ("images", 1)
    samples = None
    if recipe.basis.kind == "epochs":
        samples = _samples(job.spec.task, recipe.batch, root)
        if samples is None:
            return _told(Forecast(job, done, count, memory=memory), learnt.guess(job.spec, None))
    spend = budget(recipe, arch, unit=unit, per_sample=per_sample, samples=samples)
    seen = spend.samples(recipe)
    if spend.steps is None or seen is None:
        return Forecast(job, done, count, seconds=spend.seconds, memory=memory, source="their budget")
    size = Size(float(seen * training_flops(arch)), spend.steps, layers(job.spec))
    told = Forecast(job, done, count, spend.steps, size.flops, memory=memory)
    if speed is not None:
        counted = size.flops / speed + spend.steps * size.layers * LAYER.get(kind, LAYER["cuda"])
        return _told(replace(told, seconds=counted, source="their operations at --tflops"), learnt.same(job.spec, size))
    counted = size.counted(kind, threads)
    return _told(
        replace(told, seconds=counted, source="their operations and layers alone"), learnt.guess(job.spec, size)
    )


def _told(forecast: Forecast, guess: Guess | None) -> Forecast:
    """A forecast with what is learnt from finished runs, if anything is."""
    if guess is None:
        return forecast
    return replace(forecast, seconds=guess.seconds, overhead=guess.overhead, source=guess.source)


@lru_cache(maxsize=256)
def _samples(task: Task, batch: int, root: Path | None) -> int | None:
    """How many samples an epoch has; None where the data is missing."""
    try:
        return tasks.sample_count(task, batch, root=root)
    except UserError:
        return None


@lru_cache(maxsize=256)
def _held(task: Task, root: Path | None) -> int:
    """Bytes of images that a run keeps on its device where they fit; 0 where the data is missing."""
    try:
        return tasks.held_bytes(task, root=root)
    except UserError:
        return 0
