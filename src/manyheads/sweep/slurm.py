"""Runs as Slurm jobs, through submitit: one job a run, in job arrays.

    outcomes = run([Job(path, spec), ...], Path("runs/.slurm"), device="cuda", options={"partition": "gpu"})

A job is given the path of a run folder and nothing else; it trains the folder in a worker process of its own. When
Slurm says that its time is up, the run is saved and the job queued again; when a node dies, Slurm queues it again. This
process may end at any time: the jobs stay, and the same call finds them. Folders have to be where all nodes see them.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from manyheads.runs import Run
from manyheads.runs.folder import LOCK
from manyheads.spec.errors import UserError, optional
from manyheads.spec.files import dump, read_object, replace
from manyheads.spec.lock import held
from manyheads.train.early_end import listening

from .job import Fate, Job, Outcome, Viewer, carry_out
from .local import Interrupted
from .one import One
from .view import viewer

NOTE = "job.json"  # in a run folder: which job trains it
ARRAY = 1000  # jobs of an array; Slurm's own limit is 1001 unless a cluster changed it
MINUTES = 240  # of a job; one that needs more is queued again
TIMES_UP = 100  # how often a job may be queued again because its time was up
CLUSTERS = ("slurm", "local")
PAUSE = 1.0  # seconds between two looks at the jobs
LINGER = 60.0  # seconds after a run was stopped from outside, in which Slurm says what is to come
GONE = ("UNKNOWN", "NO PROCESS AND NO RESULT")  # states of a job that nobody knows any more
# what submitit calls the same on every cluster; anything else is Slurm's own
SHARED = (
    "name",
    "timeout_min",
    "mem_gb",
    "nodes",
    "cpus_per_task",
    "gpus_per_node",
    "tasks_per_node",
    "stderr_to_stdout",
)


class Detached(Interrupted):
    """This process was asked to stop; its jobs were not."""

    def __init__(self, outcomes: list[Outcome], number: int, jobs: Sequence[str]) -> None:
        super().__init__(outcomes, number)
        self.args = (
            f"{len(jobs)} jobs stay with Slurm; the same command looks at them again, and scancel ends them: "
            f"{' '.join(jobs)}",
        )


class Train:
    """What a job calls. submitit calls `checkpoint` when it is told that the job's time is up, amidst `__call__`, and
    queues the job again with what that returns."""

    def __init__(self) -> None:
        self.one: One | None = None

    def __call__(self, folder: str, device: str | None, root: str | None, threads: int) -> dict[str, str]:
        """Train one run folder, wherever Slurm put it."""
        self.one = One(folder, device, root, threads)
        answer = self.one.train()
        if answer["fate"] == "stopped":
            time.sleep(LINGER)  # Slurm signals every process of a job, and the worker was faster
        return answer

    def checkpoint(self, *orders: Any) -> Any:
        """Save, and say how to go on: by the same call."""
        if self.one is not None:
            self.one.stop()
        return optional("submitit", "manyheads[slurm]").helpers.DelayedSubmission(Train(), *orders)


def run(
    jobs: Sequence[Job],
    folder: Path,
    *,
    cluster: str = "slurm",
    workers: int | None = None,
    device: str | None = None,
    threads: int = 1,
    root: Path | None = None,
    options: Mapping[str, Any] | None = None,
    look: Viewer | None = None,
) -> list[Outcome]:
    """Do every job and say what became of it, in the order of `jobs`.

    submitit keeps its files in `folder`. At most `workers` jobs run at a time, if it is given. `options` are Slurm's,
    as submitit names them: partition, account, timeout_min, mem_gb, gpus_per_node, ... `cluster` "local" is this
    machine instead. Asked to stop, it leaves the jobs where they are and raises `Detached`."""
    if threads < 1 or (workers is not None and workers < 1):
        raise UserError(f"{workers} workers of {threads} threads; write 1 or more of each")
    if cluster not in CLUSTERS:
        raise UserError(f"cluster {cluster}: write slurm, or local to try it on this machine without Slurm")
    executor = _executor(folder, cluster, workers, device, threads, dict(options or {}))
    orders = (device, None if root is None else str(root.resolve()), threads)
    most = (workers or 2) if cluster == "local" else ARRAY
    look = look or viewer()
    return carry_out(
        jobs, look, lambda waiting: _Queue(executor, folder, cluster, jobs, orders, most).work(waiting, look)
    )


def _executor(folder: Path, cluster: str, workers: int | None, device: str | None, threads: int, options: Any) -> Any:
    """submitit's, with everything told to it."""
    submitit = optional("submitit", "manyheads[slurm]")
    given: dict[str, Any] = {"name": "manyheads", "timeout_min": MINUTES, "cpus_per_task": threads}
    if device is not None and device.startswith("cuda"):
        given["gpus_per_node"] = 1
    if workers is not None:
        given["slurm_array_parallelism"] = workers
    given |= {name if name in SHARED else f"slurm_{name}": value for name, value in options.items()}
    try:
        executor = submitit.AutoExecutor(folder, cluster=cluster, **{f"{cluster}_max_num_timeout": TIMES_UP})
        executor.update_parameters(**given)
    except RuntimeError as error:
        raise UserError(
            f"there is no Slurm on this machine ({error}); call this where sbatch works, or write --executor processes"
        ) from error
    except (AssertionError, NameError, TypeError, ValueError) as error:
        raise UserError(f"Slurm's options {given} are not submitit's: {str(error).splitlines()[0]}") from error
    return executor


class _Queue:
    """Jobs that are queued or running."""

    def __init__(
        self, executor: Any, folder: Path, cluster: str, jobs: Sequence[Job], orders: tuple[Any, ...], most: int
    ) -> None:
        self.executor, self.folder, self.cluster, self.jobs, self.orders = executor, folder, cluster, jobs, orders
        self.most = most
        self.queued: dict[int, Any] = {}

    def work(self, waiting: list[int], look: Viewer) -> dict[int, Outcome]:
        """Everything, until it is done or somebody asks to stop."""
        found: dict[int, Outcome] = {}
        for i in list(waiting):
            job = self._known(self.jobs[i])
            if job is not None:
                self.queued[i] = job
                waiting.remove(i)
        with listening() as asked:
            while (waiting or self.queued) and not asked.number:
                if waiting and len(self.queued) < self.most:
                    self._submit([waiting.pop(0) for _ in range(min(len(waiting), self.most - len(self.queued)))])
                look.look([job for i in self.queued if held((job := self.jobs[i]).path / LOCK)])
                for i in [i for i, job in self.queued.items() if job.done()]:
                    found[i] = _outcome(self.jobs[i], self.queued.pop(i))
                    look.ended(found[i])
                if self.queued:
                    time.sleep(PAUSE)
        if asked.number:
            raise Detached([*found.values()], asked.number, [job.job_id for job in self.queued.values()])
        return found

    def _submit(self, numbers: list[int]) -> None:
        """Queue these, and note in each folder by which job."""
        with self.executor.batch():
            submitted = [self.executor.submit(Train(), str(self.jobs[i].path.resolve()), *self.orders) for i in numbers]
        for i, job in zip(numbers, submitted, strict=True):
            note = {"schema": 1, "cluster": self.cluster, "folder": str(self.folder.resolve()), "job": job.job_id}
            replace(self.jobs[i].path / NOTE, dump(note))
            self.queued[i] = job

    def _known(self, job: Job) -> Any:
        """The job that an earlier call submitted for this run and that has still to end, if there is one."""
        note = read_object(job.path / NOTE)
        if note is None or note.get("cluster") != self.cluster:
            return None
        submitit = optional("submitit", "manyheads[slurm]")
        kind = submitit.LocalJob if self.cluster == "local" else submitit.SlurmJob
        known = kind(folder=note["folder"], job_id=note["job"])
        return None if known.state in GONE or known.done() else known


def _outcome(job: Job, submitted: Any) -> Outcome:
    """What became of a job that is over: what it answered, or, where it ended without a word, what its folder says."""
    if Run.open(job.path).result is not None:
        return Outcome(job, "done")
    wrong = submitted.exception()
    if wrong is None:
        answer = submitted.result()
        return Outcome(job, cast(Fate, answer["fate"]), answer["message"])
    where = f"job {submitted.job_id} ended without an answer ({submitted.state}); see {submitted.paths.stderr}"
    return Outcome(job, "stopped" if Run.open(job.path).state == "stopped" else "failed", where)
