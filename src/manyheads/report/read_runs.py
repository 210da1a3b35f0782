"""Runs, in folders and in packs, sorted into sections: one for each experiment, scale and basis, with its arms and their
runs. Folders and packs that cannot be read are listed apart."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from manyheads.runs import RunFolder, find
from manyheads.spec.arch import Arch
from manyheads.spec.errors import UserError
from manyheads.spec.experiment import SCALES, Expect, Experiment, Setting
from manyheads.spec.experiment_file import EXPERIMENT, experiment_from_dict, load
from manyheads.spec.run import RunSpec
from manyheads.spec.task import SCRATCH
from manyheads.spec.text import Glue

from .run_measurements import HEADLINE, Measurements, measurements

SEED = re.compile(r"-s\d+$")
NO_TEXT = re.compile("[\ud800-\udfff]")  # how Python writes the bytes of a name that is not UTF-8
ANY = "0" * 64  # stands for whatever trained weights a run starts from
LAST = 1_000_000  # order of an arm whose label has none


@dataclass(frozen=True)
class ReportedRun:
    """One sound run: its folder or its place in a pack, its state and what it measured."""

    path: Path
    state: str
    seed: int
    measured: Measurements
    folder: RunFolder

    @property
    def diverged(self) -> bool:
        """Whether training ended because the loss was no number to train on any more."""
        return self.state == "failed" and bool((self.folder.status or {}).get("diverged"))


@dataclass(frozen=True)
class ArmRuns:
    """One arm, that is one model in a comparison, and its runs in the order of their seeds."""

    name: str
    note: str
    arch: Arch
    order: int
    runs: list[ReportedRun] = field(default_factory=list)

    @property
    def done(self) -> list[ReportedRun]:
        """The finished runs."""
        return [run for run in self.runs if run.state == "done"]

    @property
    def seeds(self) -> int:
        """How many seeds are finished; the same run in two folders counts once."""
        return len({run.seed for run in self.done})

    def values(self, metric: str) -> dict[int, float]:
        """The final value of a metric by seed, of finished runs; `Measurements.final` says what a metric may be."""
        values = {run.seed: run.measured.final(metric) for run in self.done}
        return {seed: value for seed, value in values.items() if value is not None}


@dataclass(frozen=True)
class Asked:
    """What somebody asks of runs that belong to no experiment: how every arm compares with the arm `against`. Empty:
    with the one called original, or else with the one that has most parameters. `metric` is a score, empty for the
    headline."""

    against: str = ""
    expect: Expect = "open"
    margin: float = 0.0
    metric: str = ""


@dataclass(frozen=True)
class Section:
    """What is compared together: the arms of an experiment at a scale on a basis, or runs that belong to none."""

    name: str
    scale: str
    basis: str
    experiment: Experiment | None
    arms: list[ArmRuns]
    asked: Asked = field(default_factory=lambda: Asked())

    @property
    def title(self) -> str:
        """Its heading on the page."""
        return " ".join(filter(None, [self.name or "single runs", self.basis and f"on equal {self.basis}"]))

    @property
    def full(self) -> str:
        """Its name with basis and scale, as files are named."""
        return " ".join(filter(None, [self.name or "single runs", self.basis, self.scale]))

    @property
    def runs(self) -> list[ReportedRun]:
        """All runs, arm by arm."""
        return [run for arm in self.arms for run in arm.runs]

    @property
    def planned(self) -> list[ArmRuns]:
        """The arms that its experiment has at this scale, without others that were found; all where it is not known."""
        settings = self.experiment.settings if self.experiment is not None else {}
        names = {arm.name for arm in settings[self.scale].arms} if self.scale in settings else None
        return [arm for arm in self.arms if names is None or arm.name in names]

    @property
    def headline(self) -> tuple[str, str]:
        """The metric that decides, and whether up or down is better. Where arms have different ones, each run's own
        `headline` is compared."""
        runs = [run for run in self.runs if run.state == "done"] or self.runs  # an unfinished run does not name it
        metrics = list(dict.fromkeys(run.measured.better for run in runs if run.measured.better[0]))
        if len(metrics) == 1:
            return metrics[0]
        return (HEADLINE, metrics[0][1]) if metrics else ("", "up")


@dataclass(frozen=True)
class ReportedRuns:
    """Everything below a folder or in a pack: sections, and the folders and packs that cannot be read."""

    root: Path
    sections: list[Section]
    problems: list[RunFolder]

    @property
    def unreadable(self) -> str:
        """What `problems` are: folders, or packs among them."""
        return "folders and packs" if any(problem.path.is_file() for problem in self.problems) else "folders"

    @property
    def repeated(self) -> list[RunFolder]:
        """The runs that lie in several places, a pack among them; they are counted once."""
        return [run.folder for section in self.sections for run in section.runs if run.folder.also]


def _prefer_planned(arms: dict[tuple[str, str], ArmRuns], setting: Setting, basis: str, root: Path) -> None:
    """Where runs of several specifications say that they are the same arm of an experiment, give its name to those that
    the experiment plans today, whichever was found first."""
    found = [label for label, _ in arms]
    recipe = setting.recipes.get(basis) or next(iter(setting.recipes.values()))
    for arm in setting.arms:
        if found.count(arm.name) < 2:
            continue
        key = _arm(RunSpec(arm.arch, arm.own_task(setting), arm.own_recipe(recipe), 0, {"arm": arm.name}), Path())
        holder = next(at for at in arms if arms[at].name == arm.name)
        if key in arms and key != holder:
            other = f"{arm.name} ({arms[holder].runs[0].path.relative_to(root)})"
            arms[key], arms[holder] = replace(arms[key], name=arm.name), replace(arms[holder], name=other)


def _arm(spec: RunSpec, path: Path) -> tuple[str, str]:
    """What the runs of an arm have in common: everything but the seed, and the trained weights that they start from.
    Each seed may have weights of its own; without an experiment, the folder's name tells such arms apart."""
    name, spec = str(spec.label.get("arm", "")), replace(spec, seed=0)
    if spec.starts_from not in (None, SCRATCH):
        name = name or SEED.sub("", path.name)
        if isinstance(spec.task, Glue):
            spec = replace(spec, task=replace(spec.task, weights=ANY))
        elif spec.task.starts_from is None:
            spec = replace(spec, weights=ANY)
    return name, spec.id


def read_runs(root: Path, experiments: Mapping[str, Experiment], asked: Asked | None = None) -> ReportedRuns:
    """All runs below `root` in their sections; damaged and foreign folders in `problems`. An experiment that is written
    beside its runs (`spec.experiment_file`) takes the place of the one in `experiments`. With `asked`, every section
    answers that, also where its experiment expects something else."""
    sections: dict[tuple[str, str, str], dict[tuple[str, str], ArmRuns]] = {}
    folders = find(root)
    stated, problems = _stated(folders)
    for folder in folders:
        if NO_TEXT.search(str(folder.path)):  # no page can hold the name
            name = ascii(str(folder.path)).strip("'")
            problems.append(RunFolder(Path(name), "damaged", problem=f"{name} is a name that is not UTF-8; rename it"))
            continue
        if folder.problem is not None or folder.spec is None:
            problems.append(folder)
            continue
        try:
            run = ReportedRun(folder.path, folder.state, folder.spec.seed, measurements(folder), folder)
        except UserError as error:
            problems.append(replace(folder, state="damaged", problem=str(error)))
            continue
        label = folder.spec.label
        key = str(label.get("experiment", "")), str(label.get("scale", "")), str(label.get("basis", ""))
        arms = sections.setdefault(key, {})
        arm = _arm(folder.spec, folder.path)
        if arm not in arms:
            name, order = str(label.get("arm", "")) or SEED.sub("", folder.path.name), label.get("order")
            if any(other.name == name for other in arms.values()):
                name = f"{name} ({folder.path.relative_to(root)})"
            order = order if isinstance(order, int) else LAST
            arms[arm] = ArmRuns(name, str(label.get("note", "")), folder.spec.arch, order)
        arms[arm].runs.append(run)
    known = {(name, scale): one for name, one in experiments.items() for scale in SCALES} | stated
    for (name, scale, basis), arms in sections.items():
        if (name, scale) in known and scale in known[name, scale].settings:
            _prefer_planned(arms, known[name, scale].settings[scale], basis, root)
    names = list(experiments)

    def place(key: tuple[str, str, str]) -> tuple[bool, int, str, int, str]:
        """Known experiments in their own order, then others, then runs of none; the largest scale first."""
        name, scale, basis = key
        order = names.index(name) if name in experiments else len(names)
        return not name, order, name, -SCALES.index(scale) if scale in SCALES else 1, basis

    ordered = [
        Section(
            *key,
            known.get(key[:2]) if asked is None else None,
            sorted(sections[key].values(), key=lambda arm: (arm.order, arm.name)),
            asked or Asked(),
        )
        for key in sorted(sections, key=place)
    ]
    for section in ordered:
        for arm_runs in section.arms:
            arm_runs.runs.sort(key=lambda run: run.seed)
    return ReportedRuns(root, ordered, problems)


def _stated(folders: Sequence[RunFolder]) -> tuple[dict[tuple[str, str], Experiment], list[RunFolder]]:
    """The experiments that are written beside these runs or packed with them, by name and scale, and the places of those
    that cannot be read. What lies beside runs of a scale decides for it. Where two of one name there expect different
    things at that scale, the second cannot be read together with the first."""
    stated: dict[tuple[str, str], Experiment] = {}
    problems, sound = [], []
    scales: dict[Path, set[str]] = {}
    for folder in folders:
        if folder.spec is not None:
            scales.setdefault(folder.path.parent, set()).add(str(folder.spec.label.get("scale", "")))
    for place, make in _records(folders).items():
        try:
            one = make()
            for scale in one.settings.keys() & scales.get(place, set()):
                if _expected(stated.setdefault((one.name, scale), one), scale) != _expected(one, scale):
                    raise UserError(
                        f"{place} states another experiment {one.name} than a place beside it; write two pages"
                    )
            sound.append(one)
        except UserError as error:
            problems.append(RunFolder(place, "damaged", problem=str(error)))
    return {(one.name, scale): one for one in reversed(sound) for scale in one.settings} | stated, problems


def _expected(experiment: Experiment, scale: str) -> dict[str, object]:
    """What an experiment says about one of its scales: its fields, with the setting of this scale alone."""
    return {**vars(experiment), "settings": experiment.settings[scale]}


def _records(folders: Sequence[RunFolder]) -> dict[Path, Callable[[], Experiment]]:
    """The places where an experiment is stated, each once, with the function that reads it."""
    places: dict[Path, Callable[[], Experiment]] = {}
    for folder in folders:
        parent = folder.path.parent
        if folder.packed is not None and (data := folder.packed.content.get("experiment")) is not None:
            places.setdefault(parent, partial(experiment_from_dict, data))
        elif folder.packed is None and (parent / EXPERIMENT).is_file():
            places.setdefault(parent, partial(load, parent / EXPERIMENT))
    return places
