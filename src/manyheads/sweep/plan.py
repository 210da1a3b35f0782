"""What is to be run: experiments by name, their runs, each once, and the commands for any other scheduler."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path

from manyheads.experiments import registry
from manyheads.runs import Run, RunSpec
from manyheads.spec.errors import UserError, nearest
from manyheads.spec.experiment import SCALES, Experiment, folder, specs

from .child import settings
from .job import Job
from .reuse import adopt, with_weights

ALL = "all"


@dataclass(frozen=True)
class Sweep:
    """The runs that were asked for, below `root`. Those of `later` start from the weights of other runs."""

    root: Path
    now: tuple[RunSpec, ...]
    later: tuple[RunSpec, ...] = ()

    def jobs(self) -> list[Job]:
        """What can be run now. Of runs that are the same under several names it has one; `share`, before and after,
        gives the others its result."""
        return [self.job(spec) for spec in _each_once(self.root, self.now)]

    def share(self) -> int:
        """Copy finished runs to the runs that are the same under another name; how many copies were made."""
        return len(adopt(self.root, self.now))

    def later_jobs(self) -> list[Job]:
        """What can be run when the runs whose weights it starts from are finished; if one is not, it is refused."""
        jobs = []
        for name, runs in groupby(self.later, key=lambda spec: str(spec.label["experiment"])):
            tuning = registry.get(name)
            assert tuning.after is not None
            pretraining = registry.get(tuning.after.experiment)
            jobs += [self.job(spec) for spec in with_weights(self.root, [*runs], tuning, pretraining)]
        return jobs

    def job(self, spec: RunSpec) -> Job:
        """The job of one of its runs."""
        return Job(folder(self.root, spec), spec, registry.get(spec.label["experiment"]).alone)


def plan(
    name: str, scale: str, root: Path, *, arms: Sequence[str] | None = None, seeds: Sequence[int] | None = None
) -> Sweep:
    """The runs of an experiment, or of all of them, at a scale. `arms` are some of its own; `seeds` may be others than
    the record's. `all` leaves out what has a command of its own, the demonstration, and what has no such scale."""
    if scale not in SCALES:
        raise UserError(f"--scale {scale}: write one of {', '.join(SCALES)}")
    if name == ALL and arms is not None:
        raise UserError(f"--arms {','.join(arms)} belong to one experiment; write its name instead of all")
    now: list[RunSpec] = []
    later: list[RunSpec] = []
    for experiment in _all(scale) if name == ALL else [registry.get(name)]:
        (later if experiment.after else now).extend(_runs(experiment, scale, arms, seeds))
    return Sweep(root, tuple(now), tuple(later))


def commands(
    jobs: Iterable[Job], device: str | None = None, root: Path | None = None, threads: int | None = None
) -> list[str]:
    """A shell command for every run that is not finished: it trains the run's folder, and called again goes on.
    `threads` are those of each on the CPU; None leaves that to whoever runs it."""
    first = [] if threads is None else ["env", *(f"{name}={value}" for name, value in settings(threads).items())]
    options = ["--quiet"]
    if device is not None:
        options += ["--device", device]
    if root is not None:
        options += ["--data-root", str(root.resolve())]
    return [
        shlex.join([*first, "manyheads", "train", "--resume", str(job.path.resolve()), *options])
        for job in jobs
        if Run.create(job.path, job.spec).result is None
    ]


def _all(scale: str) -> list[Experiment]:
    known = registry.EXPERIMENTS.values()
    return [experiment for experiment in known if not experiment.run and scale in experiment.settings]


def _runs(experiment: Experiment, scale: str, arms: Sequence[str] | None, seeds: Sequence[int] | None) -> list[RunSpec]:
    setting = experiment.setting(scale)
    known = [arm.name for arm in setting.arms]
    for arm in arms or ():
        if arm not in known:
            raise UserError(
                f"experiment {experiment.name} has no arm {arm!r} at scale {scale}{nearest(arm, known)}; it "
                f"has {', '.join(known)}"
            )
    if seeds is not None:
        experiment = replace(experiment, settings={scale: replace(setting, seeds=tuple(seeds))})
    return [spec for spec in specs(experiment, scale) if arms is None or spec.label["arm"] in arms]


def _each_once(root: Path, runs: Iterable[RunSpec]) -> list[RunSpec]:
    """Of runs that are the same, the one that is finished or begun, or the first. A finished one of every name is kept:
    it is skipped, and told of."""
    same: dict[str, list[tuple[RunSpec, str]]] = {}
    for spec in runs:
        same.setdefault(spec.id, []).append((spec, _state(folder(root, spec))))
    out = []
    for group in same.values():
        done = [spec for spec, state in group if state == "done"]
        begun = [spec for spec, state in group if state in ("running", "stopped", "failed")]
        out += done or (begun or [spec for spec, _ in group])[:1]
    return out


def _state(path: Path) -> str:
    """How the run in a folder stands; a damaged one is refused, since nothing can be trained over it."""
    try:
        return Run.open(path).state if (path / "spec.json").is_file() else "new"
    except UserError as error:
        raise UserError(f"{error}; once {path} is moved away, its run starts anew") from None
