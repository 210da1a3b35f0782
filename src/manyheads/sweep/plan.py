"""What is to be run: experiments by name, their runs, each once, and the commands for any other scheduler.

A run may take something from another run. It takes everything where both are the same run under two names: an id leaves
the label out, so that Figure 1 has the runs of Tables 4 and 5, Figure 2 shares arms with Figures 3 and 5, and what is
finished for one experiment is not trained again (`adopt`). It takes its first weights where one experiment comes after
another (`with_weights`)."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path

from manyheads.experiments import registry
from manyheads.runs import Busy, Run, RunFolder, RunSpec, find, identity
from manyheads.spec.errors import UserError, nearest
from manyheads.spec.experiment import SCALES, Experiment, folder, narrowed, specs
from manyheads.spec.experiment_file import EXPERIMENT
from manyheads.spec.text import Glue
from manyheads.spec.timed import timed

from .jobs import Job
from .stated import chosen, merged, place, write
from .worker import thread_settings

ALL = "all"


@dataclass(frozen=True)
class Selection:
    """The runs that were asked for, below `root`. Those of `later` start from the weights of other runs. `stated` are
    the experiments that are written beside their runs, by scale: those that are not the catalogue's as it is. `packed`
    are the runs that are finished in packs, which are not trained again."""

    root: Path
    now: tuple[RunSpec, ...]
    later: tuple[RunSpec, ...] = ()
    stated: tuple[tuple[Experiment, str], ...] = ()
    packed: Mapping[tuple[str, ...], RunFolder] = field(default_factory=dict)

    def experiment(self, name: str) -> Experiment:
        """The experiment called `name`: one of `stated`, or the catalogue's."""
        return next((one for one, _ in self.stated if one.name == name), None) or registry.get(name)

    def write_experiments(self) -> None:
        """Write the experiments that are not the catalogue's beside their runs."""
        for experiment, scale in self.stated:
            write(self.root, experiment, scale, catalogue=registry.EXPERIMENTS.get(experiment.name))

    def jobs(self) -> list[Job]:
        """What can be run now. Of runs that are the same under several names it has one; `share`, before and after,
        gives the others its result, and it runs alone if one of them does."""
        alone = {spec.id for spec in self.now if self.job(spec).alone}
        jobs = [self.job(spec) for spec in self._each_once()]
        return [replace(job, alone=job.spec.id in alone) for job in jobs]

    def share(self) -> int:
        """Copy finished runs to the runs that are the same under another name; how many copies were made."""
        return len(adopt(self.root, self.now))

    def later_jobs(self) -> list[Job]:
        """What can be run when the runs whose weights it starts from are finished; if one is not, it is refused."""
        jobs = []
        for name, runs in groupby(self.later, key=lambda spec: str(spec.label["experiment"])):
            tuning = self.experiment(name)
            assert tuning.after is not None
            pretraining = registry.get(tuning.after.experiment)
            jobs += [self.job(spec) for spec in with_weights(self.root, [*runs], tuning, pretraining)]
        return jobs

    def job(self, spec: RunSpec) -> Job:
        """The job of one of its runs."""
        alone = timed(spec, self.experiment(spec.label["experiment"]))
        return Job(folder(self.root, spec), spec, alone, self.packed.get(identity(spec)))

    def _each_once(self) -> list[RunSpec]:
        """Of runs that are the same, the one that is begun, or the first. All that are finished stay: they are skipped,
        and reported as such."""
        same: dict[str, list[tuple[RunSpec, str]]] = {}
        for spec in self.now:
            state = "done" if identity(spec) in self.packed else _state(folder(self.root, spec))
            same.setdefault(spec.id, []).append((spec, state))
        out = []
        for group in same.values():
            done = [spec for spec, state in group if state == "done"]
            begun = [spec for spec, state in group if state in ("running", "stopped", "failed")]
            out += done or (begun or [spec for spec, _ in group])[:1]
        return out


def plan(
    name: str | Experiment,
    scale: str,
    root: Path,
    *,
    arms: Sequence[str] | None = None,
    seeds: Sequence[int] | None = None,
    basis: str | None = None,
) -> Selection:
    """The runs of an experiment, by its name or by its record, or of `all`, at a scale. `arms` are some of its own, and
    what is expected of others is dropped; `seeds` may be others than the record's; `basis` is one of its own. `all`
    leaves out experiments without that scale, and the demonstration, which has a command of its own."""
    if scale not in SCALES:
        raise UserError(f"--scale {scale}: write one of {', '.join(SCALES)}")
    if name == ALL and arms is not None:
        raise UserError(f"--arms {','.join(arms)} belong to one experiment; write its name instead of all")
    now: list[RunSpec] = []
    later: list[RunSpec] = []
    stated: list[tuple[Experiment, str]] = []
    own = isinstance(name, Experiment)
    for experiment in _all(scale) if name == ALL else [name if isinstance(name, Experiment) else registry.get(name)]:
        asked = experiment
        if seeds is not None and own:
            setting = replace(experiment.setting(scale), seeds=tuple(seeds))
            experiment = asked = replace(experiment, settings={**experiment.settings, scale: setting})
        if arms is not None:
            narrowed(experiment, scale, arms)  # refuses unknown arms
            experiment = chosen(root, experiment, scale, list(arms))
        if own or arms is not None or (place(root, experiment, scale) / EXPERIMENT).is_file():
            stated.append((merged(root, experiment, scale) if own else experiment, scale))
        (later if experiment.after else now).extend(_runs(asked, scale, arms, seeds, basis))
    return Selection(root, tuple(now), tuple(later), tuple(stated), packed_runs(root))


def packed_runs(root: Path) -> dict[tuple[str, ...], RunFolder]:
    """The finished runs that only packs below `root` have. A damaged pack is refused, since its runs would be trained
    again."""
    if root.is_file():
        raise UserError(f"{root} is a file, and runs need a folder; write the folder that it is in")
    runs = find(root)
    for run in runs:
        if run.state == "damaged" and run.path.is_file():
            raise UserError(f"{run.problem}; once it is moved away, its runs are trained again")
    return {identity(run.spec): run for run in runs if run.packed is not None and run.spec and run.state == "done"}


def commands(
    jobs: Iterable[Job], device: str | None = None, root: Path | None = None, threads: int | None = None
) -> list[str]:
    """A shell command for every run that is not finished: it trains the run's folder, and resumes when called again.
    `threads` are those of each on the CPU; None leaves them to the scheduler."""
    first = [] if threads is None else ["env", *(f"{name}={value}" for name, value in thread_settings(threads).items())]
    options = ["--quiet"]
    if device is not None:
        options += ["--device", device]
    if root is not None:
        options += ["--data-root", os.path.realpath(root)]
    return [
        shlex.join([*first, "manyheads", "train", "--resume", os.path.realpath(job.path), *options])
        for job in jobs
        if job.packed is None and Run.create(job.path, job.spec).result is None
    ]


def _all(scale: str) -> list[Experiment]:
    experiments = registry.EXPERIMENTS.values()
    return [experiment for experiment in experiments if not experiment.run and scale in experiment.settings]


def _runs(
    experiment: Experiment, scale: str, arms: Sequence[str] | None, seeds: Sequence[int] | None, basis: str | None
) -> list[RunSpec]:
    setting = experiment.setting(scale)
    if basis is not None and basis not in setting.recipes:
        raise UserError(
            f"experiment {experiment.name} has no basis {basis!r}{nearest(basis, setting.recipes)}; it has "
            f"{', '.join(setting.recipes)}"
        )
    if seeds is not None:
        experiment = replace(experiment, settings={scale: replace(setting, seeds=tuple(seeds))})
    runs = [spec for spec in specs(experiment, scale) if arms is None or spec.label["arm"] in arms]
    return [spec for spec in runs if basis is None or spec.label.get("basis", basis) == basis]


def _state(path: Path) -> str:
    """The state of the run in a folder. A damaged folder is refused, since nothing can be trained over it."""
    try:
        return Run.open(path).state if (path / "spec.json").is_file() else "new"
    except UserError as error:
        raise UserError(f"{error}; once {path} is moved away, its run starts anew") from None


def adopt(root: Path, planned: Sequence[RunSpec]) -> list[Path]:
    """Copy finished runs below `root` to those of the `planned` runs that are the same under another name; the folders
    that were made. Each gets the records and the result, not the model, and its label says where the run was trained
    (`trained_in`). The copy of a packed run gets the records that the pack has."""
    done = [run for run in find(root) if run.state == "done" and run.spec is not None]
    done.sort(key=lambda run: run.packed is None)  # of several, a folder is copied
    finished = {run.spec.id: run for run in done if run.spec}
    packed = {identity(run.spec) for run in done if run.spec and run.packed}
    copies = []
    for spec in planned:
        source, target = finished.get(spec.id), folder(root, spec)
        if source is None or source.path == target or identity(spec) in packed or _begun(target):
            continue
        label = {**spec.label, "trained_in": source.path.relative_to(root).as_posix()}
        run = Run.create(target, replace(spec, label=label))
        assert source.result is not None
        with suppress(Busy), run.locked():  # whoever holds it copies or trains the same run
            if run.result is None:
                _copy_records(source, run)
                run.finish(source.result)
                copies.append(target)
    return copies


def _copy_records(source: RunFolder, run: Run) -> None:
    """Put the records of a finished run into the folder of another."""
    for lines in run.lines:
        if source.packed is None:
            with suppress(FileNotFoundError):
                shutil.copyfile(source.path / lines.path.name, lines.path)
            continue
        lines.cut(0)
        for record in source.packed.content[lines.path.stem]:
            lines.append(record)


def _begun(target: Path) -> bool:
    """Whether a run is or was trained there. What a killed `adopt` left does not count; a damaged folder does, since
    it must not be overwritten."""
    if not (target / "spec.json").is_file():
        return False
    try:
        run = Run.open(target)
    except UserError:
        return True
    return run.state in ("done", "running") or run.checkpoints.exists()


def with_weights(root: Path, runs: Sequence[RunSpec], tuning: Experiment, pretraining: Experiment) -> list[RunSpec]:
    """The `runs` of `tuning`, all of one scale, with the weights of their `pretraining` runs below `root`; their
    folders hold these weights and can be trained. Where a pretraining run is not finished, the first is named and
    refused.

    A fine-tuning run's identity depends on its first weights, and nobody knows these before they are trained: the
    experiment states none, and here the digest of the pretrained model takes their place."""
    from manyheads.train.finetune import begin, weights_digest

    assert tuning.after is not None
    basis, packed = tuning.after.basis, packed_runs(root)
    ready = []
    for spec in runs:
        scale, arm = spec.label["scale"], spec.label["arm"]
        starts = {arm.name: arm.start for arm in tuning.setting(scale).arms}
        before = _run_of(pretraining, scale, starts[arm], basis, spec.seed)
        source = folder(root, before)
        if (elsewhere := packed.get(identity(before))) is not None:
            raise UserError(
                f"{arm} starts from the weights of {before.label['arm']}, and {elsewhere.place} has that run without its "
                f"model; move the pack away and write `{pretraining.command(scale)}` to train it again"
            )
        if not (source / "spec.json").is_file() or Run.open(source).result is None:
            raise UserError(
                f"{source} is not finished, and {arm} starts from its weights; write `{pretraining.command(scale)}` "
                "first"
            )
        assert isinstance(spec.task, Glue)  # the one task that fine-tunes
        tuned = replace(spec, task=replace(spec.task, weights=weights_digest(source / "model")))
        if identity(tuned) in packed:
            ready.append(tuned)
            continue
        with suppress(Busy):  # another process trains it, and so it has begun
            begin(Run.create(folder(root, tuned), tuned), source / "model")
        ready.append(tuned)
    return ready


def _run_of(experiment: Experiment, scale: str, arm: str, basis: str, seed: int) -> RunSpec:
    """The run of an arm on a basis with a seed, which may be another than the experiment's own."""
    setting = replace(experiment.setting(scale), seeds=(seed,))
    one = replace(experiment, settings={scale: setting})
    return next(
        spec for spec in specs(one, scale) if (spec.label["arm"], spec.label.get("basis", basis)) == (arm, basis)
    )
