"""Runs on a Ray cluster, one task a run: a machine's own cluster, or the one that RAY_ADDRESS names.

    outcomes = run([Job(path, spec), ...], workers=8, device="cuda")

A task gets the path of a run folder and nothing else; it trains the folder in a worker process of its own. When a
task's process or its node dies, Ray starts the task again, which resumes from the last checkpoint. When this process
dies, the tasks save and stop, and the same call resumes them. All nodes have to see the folders."""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from manyheads.runs import Run
from manyheads.spec.errors import UserError, optional
from manyheads.train.early_end import listening

from .jobs import Job, Outcome, Viewer, carry_out, outcome, viewer
from .local import PAUSE, Interrupted, in_phases
from .remote import RemoteRun, check

RETRIES = 3  # of a task whose process or node died
OBJECTS = 100 * 2**20  # bytes of shared memory for a cluster of our own: paths travel, tensors do not


def run(
    jobs: Sequence[Job],
    *,
    workers: int | None = None,
    device: str | None = None,
    threads: int = 1,
    gpus: float | None = None,
    root: Path | None = None,
    look: Viewer | None = None,
) -> list[Outcome]:
    """Do every job and say what became of it, in the order of `jobs`.

    At most `workers` run at a time; None takes as many as fit. Each takes `threads` CPUs and `gpus` GPUs, which may be
    a fraction: by default none on the CPU, and on GPUs one, or an even share where the cluster is one machine with
    fewer GPUs than workers. Jobs that are alone run after the others, one at a time. When it is asked to stop, every
    run saves and `Interrupted` is raised."""
    check(workers, threads)
    if device is not None and ":" in device:
        raise UserError(f"--device {device}: Ray gives every run a GPU of its own and calls it 0; write --device cuda")
    look = look or viewer()

    def work(waiting: list[int]) -> dict[int, Outcome]:
        if not waiting:
            return {}
        where = None if root is None else os.path.realpath(root)
        with cluster(workers, threads) as ray:

            def part(numbers: list[int], alone: bool) -> dict[int, Outcome]:
                most = 1 if alone else workers
                share = _share(ray, device, most) if gpus is None or alone else gpus
                task = ray.remote(num_cpus=threads, num_gpus=share, max_retries=RETRIES)(train)
                orders = (device, where, threads, _on_device(ray, share, most, threads, len(numbers)))
                return _Flight(ray, task, orders, jobs, most or len(jobs)).work(numbers, look)

            return in_phases(jobs, waiting, part)

    return carry_out(jobs, look, work)


def train(folder: str, device: str | None, root: str | None, threads: int, on_device: int | None) -> dict[str, str]:
    """The task: train one run folder, wherever Ray put it."""
    # Ray cancels by SIGINT's handler, which is missing where the cluster was started in the background of a shell
    signal.signal(signal.SIGINT, signal.default_int_handler)
    return RemoteRun(folder, device, root, threads, on_device).train()


@contextmanager
def cluster(workers: int | None, threads: int) -> Iterator[Any]:
    """Ray, connected: as this process already is, or to the cluster at RAY_ADDRESS, or to a cluster of its own on this
    machine's cores, which ends with it."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is reported to anybody
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # no advice about a future version
    os.environ.setdefault("RAY_kill_child_processes_on_worker_exit", "0")  # they save and stop by themselves
    ray = optional("ray", "manyheads[sweep]")
    if ray.is_initialized():
        yield ray
        return
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR, "include_dashboard": False}
    address = os.environ.get("RAY_ADDRESS") or "local"
    if address == "local":
        side_by_side = workers or max(1, (os.cpu_count() or 1) // threads)
        quiet |= {"num_cpus": threads * side_by_side, "object_store_memory": OBJECTS}
    try:
        ray.init(address=address, **quiet)
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise UserError(
            f"no Ray cluster at {address}: {str(error).splitlines()[0]}; start one with `ray start --head`, or "
            "unset RAY_ADDRESS to use this machine alone"
        ) from error
    try:
        yield ray
    finally:
        ray.shutdown()


def _share(ray: Any, device: str | None, workers: int | None) -> float:
    """How many GPUs, or which part of one, a run takes."""
    total = ray.cluster_resources().get("GPU", 0.0)
    if device == "cpu" or (device is None and not total):
        return 0.0
    if not total:
        raise UserError(f"--device {device}: the Ray cluster has no GPU; write --device cpu")
    alone = len(ray.nodes()) == 1
    return min(1.0, total / workers) if alone and workers is not None else 1.0


def _on_device(ray: Any, share: float, most: int | None, threads: int, count: int) -> int | None:
    """How many of `count` runs Ray puts on one device at a time: on a GPU as many as their shares allow, on the CPU of
    a cluster of one machine as many as it has CPUs for; None on the CPUs of several machines."""
    if share:
        return min(count, int(1 / share + 1e-6), most or count)
    if len(ray.nodes()) > 1:
        return None
    return max(1, min(count, most or count, int(ray.cluster_resources().get("CPU", 1)) // threads))


class _Flight:
    """Tasks that are submitted, at most so many at a time."""

    def __init__(self, ray: Any, task: Any, orders: tuple[Any, ...], jobs: Sequence[Job], most: int) -> None:
        self.ray, self.task, self.orders, self.jobs, self.most = ray, task, orders, jobs, most
        self.running: dict[Any, int] = {}

    def work(self, waiting: list[int], look: Viewer) -> dict[int, Outcome]:
        """Run the jobs with these numbers, until all are done or somebody asks to stop."""
        outcomes: dict[int, Outcome] = {}
        cancelled = False
        with listening() as asked:
            while self.running or (waiting and not asked.number):
                while waiting and len(self.running) < self.most and not asked.number:
                    i = waiting.pop(0)
                    self.running[self.task.remote(os.path.realpath(self.jobs[i].path), *self.orders)] = i
                if asked.number and not cancelled:
                    cancelled = True
                    for reference in self.running:
                        self.ray.cancel(reference)
                look.look([self.jobs[i] for i in self.running.values()])
                for reference in self.ray.wait(list(self.running), timeout=PAUSE)[0]:
                    i = self.running.pop(reference)
                    outcomes[i] = self._outcome(i, reference)
                    look.ended(outcomes[i])
        if asked.number:
            raise Interrupted([*outcomes.values()], asked.number)
        return outcomes

    def _outcome(self, i: int, reference: Any) -> Outcome:
        job = self.jobs[i]
        try:
            return outcome(job, self.ray.get(reference))
        except self.ray.exceptions.TaskCancelledError:
            return Outcome(job, "stopped" if Run.open(job.path).result is None else "done")
        except self.ray.exceptions.RayError as error:  # its processes or nodes died every time, or a defect of ours
            return Outcome(job, "failed", f"{type(error).__name__}: {str(error).strip().splitlines()[-1]}")
