"""Runs as Slurm jobs, through submitit: one job a run, in job arrays.

    outcomes = run([Job(path, spec), ...], Path("runs/.slurm"), device="cuda", options={"partition": "gpu"})

A job gets the path of a run folder and nothing else; it trains the folder in a worker process of its own. When its time
is up, the run is saved and the job queued again; when a node dies, Slurm queues the job again. This process may end at
any time: the jobs stay, and the same call finds them. All nodes have to see the folders.

submitit hands each job its order as a pickle, and each job leaves one. Jobs read theirs from a new folder that only this
user may enter. This process reads none: what became of a job is in its run folder, as JSON."""

from __future__ import annotations

import os
import re
import stat
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from manyheads.runs import Run
from manyheads.runs.folder import LOCK
from manyheads.spec import serialise
from manyheads.spec.errors import UserError, optional
from manyheads.spec.field_checks import check_types
from manyheads.spec.files import dump, read_object, replace, unwritten
from manyheads.spec.lock import held
from manyheads.train.early_end import listening

from .jobs import Job, Outcome, Viewer, carry_out, phases, viewer
from .local import Interrupted
from .remote import RemoteRun, check

NOTE = "job.json"  # in a run folder: which job trains it
ANSWER = "job_answer.json"  # in a run folder: what the job said when it ended
JOB_ID = re.compile(r"[0-9]{1,18}(_[0-9]{1,9})?")
SCHEMA = 1  # of the two files
LATE = 15.0  # seconds to wait until the files of a job that has ended can be seen from this machine
ARRAY = 1000  # jobs of an array; Slurm's own limit is 1001 unless a cluster changed it
MINUTES = 240  # of a job; one that needs more is queued again
TIMES_UP = 100  # how often a job may be queued again because its time was up
CLUSTERS = ("slurm", "local")
OTHERS = stat.S_IWGRP | stat.S_IWOTH  # who else may write
PAUSE = 1.0  # seconds between two looks at the jobs
LINGER = 60.0  # seconds to wait, after a run was stopped from outside, for Slurm's signal to this process
ENDED = ("COMPLETED", "FINISHED")  # states of a job that has ended by itself
GONE = ("UNKNOWN", "NO PROCESS AND NO RESULT")  # states of a job that is unknown by now
# options that submitit names alike on every cluster; all others are Slurm's own
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


@dataclass(frozen=True)
class JobNote:
    """Which job trains a run, and the folder of submitit's files about it."""

    schema: int
    cluster: str
    folder: str
    job: str

    def __post_init__(self) -> None:
        check_types(self, NOTE)
        if self.schema != SCHEMA or not JOB_ID.fullmatch(self.job):
            raise UserError(
                f"{NOTE} has schema {self.schema} and job {self.job[:80]!r}, which this version never wrote"
            )


@dataclass(frozen=True)
class JobAnswer:
    """What a job said when it ended: the run is done, failed or stopped, and why."""

    schema: int
    fate: Literal["done", "failed", "stopped"]
    message: str

    def __post_init__(self) -> None:
        check_types(self, ANSWER)


class Detached(Interrupted):
    """This process was asked to stop; its jobs continue."""

    def __init__(self, outcomes: list[Outcome], number: int, jobs: Sequence[str]) -> None:
        super().__init__(outcomes, number)
        self.args = (
            f"{len(jobs)} jobs stay with Slurm; the same command looks at them again, and scancel ends them: "
            f"{' '.join(jobs)}",
        )


class SlurmTask:
    """What a job calls. When the job's time is up, submitit calls `checkpoint` in the middle of `__call__`, and queues
    the job again with what that returns."""

    def __init__(self) -> None:
        self.run: RemoteRun | None = None

    def __call__(
        self, folder: str, device: str | None, root: str | None, threads: int, on_device: int | None = None
    ) -> dict[str, str]:
        """Train one run folder, wherever Slurm put it."""
        self.run = RemoteRun(folder, device, root, threads, on_device)
        answer = self.run.train()
        with suppress(UserError):  # nobody can be told on a full disk
            replace(Path(folder) / ANSWER, dump({"schema": SCHEMA, **answer}))
        if answer["fate"] == "stopped":
            time.sleep(LINGER)  # Slurm signals every process of a job; the worker was the first to hear
        return answer

    def checkpoint(self, *orders: Any) -> Any:
        """Save, and have the job resume by the same call."""
        if self.run is not None:
            self.run.stop()
        return optional("submitit", "manyheads[slurm]").helpers.DelayedSubmission(SlurmTask(), *orders)


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

    submitit keeps its files in a new folder inside `folder`. At most `workers` jobs run at a time, if it is given.
    `options` are Slurm's, as submitit names them: partition, account, timeout_min, mem_gb, gpus_per_node, ... `cluster`
    "local" is this machine instead. A run that is alone gets a node of its own (`exclusive`); on this machine it runs
    after the others. When it is asked to stop, it leaves the jobs to Slurm and raises `Detached`."""
    check(workers, threads)
    if cluster not in CLUSTERS:
        raise UserError(f"cluster {cluster}: write slurm, or local to try it on this machine without Slurm")
    given = dict(options or {})
    where = (device, None if root is None else os.path.realpath(root), threads)
    most = (workers or 2) if cluster == "local" else ARRAY
    look = look or viewer()
    new = _new_folder(folder)
    try:
        ways = {}
        for alone in {False} | {job.alone for job in jobs}:
            own = {"exclusive": True} | given if alone else given
            executor = _executor(new, cluster, workers, device, threads, own)
            ways[alone] = executor, (*where, _on_device(cluster, alone, most, device, own))
        return carry_out(jobs, look, lambda waiting: _Queue(ways, new, cluster, jobs, most).work(waiting, look))
    finally:
        with suppress(OSError):  # not empty: it holds the files of jobs
            new.rmdir()


def _new_folder(folder: Path) -> Path:
    """A new folder inside `folder` that only this user may enter, for the pickles that jobs read. A `folder` in which
    others could put a file of theirs in its place is refused."""
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        state = os.lstat(folder)
    except OSError as error:
        raise unwritten(folder, error) from error
    if not stat.S_ISDIR(state.st_mode) or state.st_uid != os.geteuid() or state.st_mode & OTHERS:
        raise UserError(
            f"{folder} is a link, belongs to another user or can be written by others, and jobs run what lies in it; "
            "delete it, or write another --out"
        )
    try:
        return Path(tempfile.mkdtemp(prefix="jobs-", dir=folder.resolve()))  # mkdtemp gives it the mode 0700
    except OSError as error:
        raise unwritten(folder, error) from error


def _on_device(cluster: str, alone: bool, most: int, device: str | None, options: Mapping[str, Any]) -> int | None:
    """How many runs share a device: one where it has a node or a GPU of its own, which Slurm gives to one job at a
    time; None for cores of a node on which anybody's jobs may run."""
    if cluster == "local":
        return 1 if alone else most
    own_gpu = device is not None and device.startswith("cuda")
    return 1 if own_gpu or options.get("exclusive") is True else None


def _executor(folder: Path, cluster: str, workers: int | None, device: str | None, threads: int, options: Any) -> Any:
    """submitit's executor with all options."""
    submitit = optional("submitit", "manyheads[slurm]")
    parameters: dict[str, Any] = {"name": "manyheads", "timeout_min": MINUTES, "cpus_per_task": threads}
    if device is not None and device.startswith("cuda"):
        parameters["gpus_per_node"] = 1
    if workers is not None:
        parameters["slurm_array_parallelism"] = workers
    parameters |= {name if name in SHARED else f"slurm_{name}": value for name, value in options.items()}
    try:
        executor = submitit.AutoExecutor(folder, cluster=cluster, **{f"{cluster}_max_num_timeout": TIMES_UP})
        executor.update_parameters(**parameters)
    except RuntimeError as error:
        raise UserError(
            f"there is no Slurm on this machine ({error}); call this where sbatch works, or write --executor processes"
        ) from error
    except (AssertionError, NameError, TypeError, ValueError) as error:
        raise UserError(f"Slurm's options {parameters} are not submitit's: {str(error).splitlines()[0]}") from error
    return executor


class _Queue:
    """Jobs that are queued or running."""

    def __init__(
        self,
        ways: Mapping[bool, tuple[Any, tuple[Any, ...]]],
        folder: Path,
        cluster: str,
        jobs: Sequence[Job],
        most: int,
    ) -> None:
        """`ways` has the executor and the orders for runs that may share a device, and for those that are alone."""
        self.ways, self.folder, self.cluster, self.jobs, self.most = ways, folder, cluster, jobs, most
        self.known = {str(folder.parent), *map(str, folder.parent.iterdir())}  # folders of this sweep's jobs
        self.queued: dict[int, Any] = {}

    def work(self, waiting: list[int], look: Viewer) -> dict[int, Outcome]:
        """Run the jobs with these numbers, until all are done or somebody asks to stop."""
        outcomes: dict[int, Outcome] = {}
        for i in list(waiting):
            job = self._submitted(self.jobs[i])
            if job is not None:
                self.queued[i] = job
                waiting.remove(i)
        waiting = [i for numbers, _ in phases(self.jobs, waiting) for i in numbers]
        with listening() as asked:
            while (waiting or self.queued) and not asked.number:
                self._submit([waiting.pop(0) for _ in range(self._room(waiting))])
                look.look([job for i in self.queued if held((job := self.jobs[i]).path / LOCK)])
                for i in [i for i, job in self.queued.items() if job.done()]:
                    outcomes[i] = _outcome(self.jobs[i], self.queued.pop(i))
                    look.ended(outcomes[i])
                if self.queued:
                    time.sleep(PAUSE)
        if asked.number:
            raise Detached([*outcomes.values()], asked.number, [job.job_id for job in self.queued.values()])
        return outcomes

    def _room(self, waiting: Sequence[int]) -> int:
        """How many of the `waiting` runs, in their order, may be queued now. On this machine a run that is alone waits
        until nothing runs, and the others wait for it."""
        room = min(len(waiting), self.most - len(self.queued))
        if self.cluster != "local" or room <= 0:
            return max(0, room)
        if self.jobs[waiting[0]].alone:
            return 0 if self.queued else 1
        if any(self.jobs[i].alone for i in self.queued):
            return 0
        return min(room, sum(not self.jobs[i].alone for i in waiting))

    def _submit(self, numbers: list[int]) -> None:
        """Queue these runs, and note in each folder which job trains it."""
        for i in numbers:
            (self.jobs[i].path / ANSWER).unlink(missing_ok=True)  # an earlier job's
        for group, alone in phases(self.jobs, numbers):
            executor, orders = self.ways[alone]
            with executor.batch():
                submitted = [executor.submit(SlurmTask(), os.path.realpath(self.jobs[i].path), *orders) for i in group]
            for i, job in zip(group, submitted, strict=True):
                note = JobNote(SCHEMA, self.cluster, str(self.folder), job.job_id)
                replace(self.jobs[i].path / NOTE, dump(serialise.to_dict(note)))
                self.queued[i] = job

    def _submitted(self, job: Job) -> Any:
        """The job that an earlier call submitted for this run, if it has not ended. A note that names another folder than
        this sweep's, or that cannot be read, names no job: the run is submitted again, and waits while another job
        trains it."""
        try:
            data = read_object(job.path / NOTE)
            note = None if data is None else serialise.from_dict(JobNote, data, NOTE)
        except UserError:
            return None
        if note is None or note.cluster != self.cluster or note.folder not in self.known:
            return None
        submitit = optional("submitit", "manyheads[slurm]")
        kind = submitit.LocalJob if self.cluster == "local" else submitit.SlurmJob
        submitted = kind(folder=note.folder, job_id=note.job)
        return None if submitted.state in GONE or submitted.done() else submitted


def _outcome(job: Job, submitted: Any) -> Outcome:
    """What became of a job that has ended, by its run folder alone. submitit would unpickle the answer."""
    deadline = time.monotonic() + LATE
    while True:
        try:
            run, answer = Run.open(job.path), _answer(job.path)
        except UserError as error:  # the folder was damaged meanwhile
            return Outcome(job, "failed", str(error))
        if run.result is not None:
            return Outcome(job, "done")
        if answer is not None and answer.fate != "done":
            return Outcome(job, answer.fate, answer.message)
        by_itself = submitted.state in ENDED or submitted.paths.result_pickle.exists()
        if not by_itself or time.monotonic() > deadline:
            break
        time.sleep(PAUSE)  # another machine wrote the files, and this one may see them later
    where = f"job {submitted.job_id} ended without an answer ({submitted.state}); see {submitted.paths.stderr}"
    return Outcome(job, "stopped" if run.state == "stopped" else "failed", where)


def _answer(path: Path) -> JobAnswer | None:
    """What the job of a run said when it ended; None where it said nothing that can be read."""
    try:
        data = read_object(path / ANSWER)
        return None if data is None else serialise.from_dict(JobAnswer, data, ANSWER)
    except UserError:
        return None
