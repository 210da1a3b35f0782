"""What is to be run: experiments by name, their runs, each once, and the commands for any other scheduler."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from manyheads.experiments import registry
from manyheads.experiments.adopt import adopt
from manyheads.runs import Run, RunSpec
from manyheads.spec.errors import UserError, nearest
from manyheads.spec.experiment import SCALES, Experiment, folder, specs

from .child import settings
from .job import Job

ALL = "all"
FINE_TUNED, PRETRAINED = "table1_glue", "table1"  # the one starts from the weights that the other comes to


@dataclass(frozen=True)
class Plan:
    """The runs that were asked for, below `root`. Those of `later` start from weights that other runs come to."""

    root: Path
    now: tuple[RunSpec, ...]
    later: tuple[RunSpec, ...] = ()

    def jobs(self) -> list[Job]:
        """What is to be run now: of runs that are the same under several names, one. `share`, before and after, has the
        others get what it comes to."""
        return [Job(folder(self.root, spec), spec) for spec in _each_once(self.root, self.now)]

    def share(self) -> int:
        """Give what is finished to the runs that are the same under another name; how many got it."""
        return len(adopt(self.root, self.now))

    def later_jobs(self) -> list[Job]:
        """What can be run when the others are finished; refused, naming the first that is not."""
        if not self.later:
            return []
        from manyheads.experiments.table1_glue import prepare

        wanted = {(spec.label["arm"], spec.seed) for spec in self.later}
        ready = {(spec.label["arm"], spec.seed): spec for spec in prepare(self.root, self.later[0].label["scale"])}
        if not wanted <= ready.keys():
            arm, seed = min(wanted - ready.keys())
            raise UserError(f"{FINE_TUNED} has no seed {seed} for {arm}; write seeds that {PRETRAINED} was run with")
        return [Job(folder(self.root, spec), spec) for name, spec in ready.items() if name in wanted]


def plan(
    name: str, scale: str, root: Path, *, arms: Sequence[str] | None = None, seeds: Sequence[int] | None = None
) -> Plan:
    """The runs of an experiment, or of all of them, at a scale. `arms` are some of its own; `seeds` may be others than
    the record's. `all` leaves out what has a command of its own, the demonstration, and what has no such scale."""
    if scale not in SCALES:
        raise UserError(f"--scale {scale}: write one of {', '.join(SCALES)}")
    if name == ALL and arms is not None:
        raise UserError(f"--arms {','.join(arms)} belong to one experiment; write its name instead of all")
    chosen = _all(scale) if name == ALL else [registry.get(name)]
    now: list[RunSpec] = []
    later: list[RunSpec] = []
    for experiment in chosen:
        found = _runs(experiment, scale, arms, seeds)
        (later if experiment.name == FINE_TUNED else now).extend(found)
    return Plan(root, tuple(now), tuple(later))


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
