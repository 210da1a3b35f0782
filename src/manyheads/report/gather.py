"""Run folders sorted into sections: an experiment at a scale on a basis, its arms, their runs; and what cannot be
read."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from manyheads.runs import RunFolder, find
from manyheads.spec.arch import Arch
from manyheads.spec.errors import UserError
from manyheads.spec.experiment import SCALES, Experiment

from .measured import HEADLINE, Measured, measured

SEED = re.compile(r"-s\d+$")
LAST = 1_000_000  # the order of an arm that has none


@dataclass(frozen=True)
class Trained:
    """One sound run: where it is, what it is, and what was measured."""

    path: Path
    state: str
    seed: int
    measured: Measured
    found: RunFolder


@dataclass(frozen=True)
class ArmRuns:
    """One arm and its runs, in the order of their seeds."""

    name: str
    note: str
    arch: Arch
    order: int
    runs: list[Trained] = field(default_factory=list)

    @property
    def done(self) -> list[Trained]:
        """Those that are finished."""
        return [run for run in self.runs if run.state == "done"]

    @property
    def seeds(self) -> int:
        """How many seeds are finished; the same run in two folders counts once."""
        return len({run.seed for run in self.done})

    def values(self, metric: str) -> dict[int, float]:
        """The final value of a metric by seed, finished runs alone; see `Measured.final` for what a metric may be."""
        found = {run.seed: run.measured.final(metric) for run in self.done}
        return {seed: value for seed, value in found.items() if value is not None}


@dataclass(frozen=True)
class Section:
    """What belongs in one comparison: the arms of an experiment at a scale on a basis, or runs that belong to none."""

    name: str
    scale: str
    basis: str
    experiment: Experiment | None
    arms: list[ArmRuns]

    @property
    def title(self) -> str:
        """What it is called on the page."""
        return " ".join(filter(None, [self.name or "single runs", self.basis and f"on equal {self.basis}"]))

    @property
    def full(self) -> str:
        """Its name with basis and scale, as files are named."""
        return " ".join(filter(None, [self.name or "single runs", self.basis, self.scale]))

    @property
    def held(self) -> str:
        """What is held equal between the arms: steps, samples, flops, seconds."""
        recipes = [run.found.spec.recipe for run in self.runs if run.found.spec is not None]
        kinds = [recipe["basis"].get("kind", "") for recipe in recipes if isinstance(recipe.get("basis"), dict)]
        return self.basis or " or ".join(dict.fromkeys(map(str, kinds)))

    @property
    def runs(self) -> list[Trained]:
        """All runs, arm by arm."""
        return [run for arm in self.arms for run in arm.runs]

    @property
    def headline(self) -> tuple[str, str]:
        """The metric that decides, and whether up or down is better; where arms have different ones, their
        `headline`."""
        known = [run for run in self.runs if run.state == "done"] or self.runs  # one that is not done has not said
        found = list(dict.fromkeys(run.measured.better for run in known if run.measured.better[0]))
        return found[0] if len(found) == 1 else (HEADLINE, found[0][1]) if found else ("", "up")


@dataclass(frozen=True)
class Gathered:
    """Everything below a root."""

    root: Path
    sections: list[Section]
    problems: list[RunFolder]


def gather(root: Path, experiments: Mapping[str, Experiment]) -> Gathered:
    """All runs below `root` in their sections; damaged and foreign folders in `problems`."""
    sections: dict[tuple[str, str, str], dict[tuple[str, str], ArmRuns]] = {}
    problems: list[RunFolder] = []
    for found in find(root):
        if found.problem is not None or found.spec is None:
            problems.append(found)
            continue
        try:
            run = Trained(found.path, found.state, found.spec.seed, measured(found), found)
        except UserError as error:
            problems.append(RunFolder(found.path, "damaged", found.spec, found.status, found.result, str(error)))
            continue
        label = found.spec.label
        key = str(label.get("experiment", "")), str(label.get("scale", "")), str(label.get("basis", ""))
        arms = sections.setdefault(key, {})
        one = (
            str(label.get("arm", "")),
            replace(found.spec, seed=0).id,
        )  # runs that differ in their seed alone are one arm
        if one not in arms:
            name, order = one[0] or SEED.sub("", found.path.name), label.get("order")
            if any(arm.name == name for arm in arms.values()):
                name = f"{name} ({found.path.relative_to(root)})"
            order = order if isinstance(order, int) else LAST
            arms[one] = ArmRuns(name, str(label.get("note", "")), found.spec.arch, order)
        arms[one].runs.append(run)
    names = list(experiments)

    def place(key: tuple[str, str, str]) -> tuple[bool, int, str, int, str]:
        """Known experiments in their own order, others behind, runs of none last; the largest scale first."""
        name, scale, basis = key
        known = names.index(name) if name in experiments else len(names)
        return not name, known, name, -SCALES.index(scale) if scale in SCALES else 1, basis

    ordered = [
        Section(*key, experiments.get(key[0]), sorted(sections[key].values(), key=lambda arm: (arm.order, arm.name)))
        for key in sorted(sections, key=place)
    ]
    for section in ordered:
        for arm in section.arms:
            arm.runs.sort(key=lambda run: run.seed)
    return Gathered(root, ordered, problems)
