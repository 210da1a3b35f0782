"""`Experiment`: a question, the arms that answer it, and what would count as an answer. Nothing is run here.

An arm is one model in a comparison. A basis is what is held equal between arms: steps, tokens, FLOPs or seconds.
Whatever is special about an experiment is a field of its record, so that no other room has to know its name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from .arch import Arch
from .comparison import EXPECTED, Comparison, Expect, Growth, Loses, Slope, Trend
from .errors import UserError, nearest
from .recipe import Recipe
from .run import RunSpec
from .task import Task

Scale = Literal["smoke", "laptop", "small", "paper", "own"]
SCALES = ("smoke", "laptop", "small", "paper", "own")
OWN = "own"  # the size of an experiment that a user states: no size of the catalogue
__all__ = [
    "EXPECTED",
    "OWN",
    "SCALES",
    "Arm",
    "Best",
    "Comparison",
    "Expect",
    "Experiment",
    "Growth",
    "Loses",
    "Pretraining",
    "Scale",
    "Setting",
    "Slope",
    "Trend",
    "folder",
    "narrowed",
    "specs",
]
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+]*")  # part of a folder's name; the minus sign separates the parts


@dataclass(frozen=True)
class Arm:
    """One model in a comparison. `task` and `recipe` are its own, or the fields in which they differ from its
    setting's.

    `start` is the arm of the earlier experiment (`Experiment.after`) whose weights this arm starts from."""

    name: str
    arch: Arch
    note: str = ""
    task: Task | Mapping[str, Any] = field(default_factory=dict)
    recipe: Recipe | Mapping[str, Any] = field(default_factory=dict)
    start: str = ""

    def __post_init__(self) -> None:
        _named("arm", self.name)

    def own_task(self, setting: Setting) -> Task:
        """What this arm trains in a setting."""
        if isinstance(self.task, Task):
            return self.task
        if setting.task is None:
            raise UserError(f"arm {self.name} has no task, and its setting has none; state one of them")
        return replace(setting.task, **self.task)

    def own_recipe(self, recipe: Recipe) -> Recipe:
        """How this arm is trained where its setting has `recipe`."""
        return self.recipe if isinstance(self.recipe, Recipe) else replace(recipe, **self.recipe)


@dataclass(frozen=True)
class Best:
    """One design under several training settings, judged at its best one: `name` is whichever of `arms` does best at
    the seed that chooses."""

    name: str
    arms: tuple[str, ...]


@dataclass(frozen=True)
class Setting:
    """What one scale runs: every arm with every seed, once for each basis, which `recipes` maps to its recipe. `bests`
    are the designs that have several arms, `growths` what is expected over sizes. `task` is None where every arm has its
    own."""

    arms: tuple[Arm, ...]
    seeds: tuple[int, ...]
    task: Task | None
    recipes: Mapping[str, Recipe]
    bests: tuple[Best, ...] = ()
    growths: tuple[Growth, ...] = ()

    def __post_init__(self) -> None:
        for what, values in (
            ("arms", [arm.name for arm in self.arms]),
            ("seeds", self.seeds),
            ("recipes", self.recipes),
        ):
            if not values or len(set(values)) < len(values):
                raise UserError(f"a setting has {what} {list(values)}; write at least one, and none twice")


@dataclass(frozen=True)
class Pretraining:
    """The experiment whose finished runs give an experiment's runs their first weights: those of the same scale and
    seed on one of its bases, arm by arm (`Arm.start`)."""

    experiment: str
    basis: str


@dataclass(frozen=True)
class Experiment:
    """One question.

    `settings` has the scales at which it can be run, `printed` what the paper printed for an arm, `run` the command
    that runs it, where that is not `manyheads run`. `shows` names the tables and figures of the paper that are in it,
    where its title does not. Runs that are `alone` measure time: nothing else may run beside them. `pooled` declares
    that seeds scatter alike in all arms, so that all of them together say how much.

    A changed copy of an experiment says which one it is a copy `of`, and its `changes` in words. `remarks` are sentences
    that a reader of its verdicts has to know. Its report begins with both."""

    name: str
    title: str
    question: str
    settings: Mapping[str, Setting]
    comparisons: tuple[Comparison, ...] = ()
    printed: Mapping[str, float] = field(default_factory=dict)
    run: str = ""
    shows: str = ""
    trends: tuple[Trend, ...] = ()
    slopes: tuple[Slope, ...] = ()
    after: Pretraining | None = None
    alone: bool = False
    pooled: bool = False
    of: str = ""
    changes: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _named("experiment", self.name)
        for scale, setting in self.settings.items():
            if scale not in SCALES:
                raise UserError(f"experiment {self.name} has scale {scale!r}; write one of {', '.join(SCALES)}")
            arms = {arm.name for arm in setting.arms}
            compared = [name for pair in self.comparisons if scale in (pair.scales or SCALES) for name in pair.arms]
            for name in (*compared, *(name for slope in self.slopes for name in slope.arms)):
                if name not in arms:
                    raise UserError(
                        f"experiment {self.name} compares {name!r}, which is no arm at scale {scale}"
                        f"{nearest(name, arms)}"
                    )
            for pair in self.comparisons:
                for basis in pair.bases:
                    if basis not in setting.recipes:
                        raise UserError(
                            f"experiment {self.name} compares {pair.name} on equal {basis}, which is no basis at scale "
                            f"{scale}{nearest(basis, setting.recipes)}"
                        )

    def compared(self, scale: str, basis: str = "") -> tuple[Comparison, ...]:
        """The comparisons that are made at a scale, on a basis. An experiment with one basis does not name it."""
        return tuple(
            pair
            for pair in self.comparisons
            if scale in (pair.scales or SCALES) and (not basis or basis in (pair.bases or (basis,)))
        )

    @property
    def claims(self) -> tuple[str, ...]:
        """The claims that the experiment decides, each once."""
        growths = [growth for setting in self.settings.values() for growth in setting.growths]
        claims = [one.claim for one in self.comparisons]
        claims += [one.claim for one in self.trends] + [one.claim for one in self.slopes]
        claims += [one.claim for one in growths]
        return tuple(dict.fromkeys(filter(None, claims)))

    def command(self, scale: str) -> str:
        """The command that runs it."""
        return self.run or f"manyheads run {self.name} --scale {scale}"

    def setting(self, scale: str) -> Setting:
        """The setting at `scale`; an unknown scale is refused."""
        if scale not in self.settings:
            raise UserError(f"experiment {self.name} has no scale {scale!r}; write one of {', '.join(self.settings)}")
        return self.settings[scale]


def specs(experiment: Experiment, scale: str) -> list[RunSpec]:
    """Every run of an experiment at a scale, seed by seed, so that an interrupted sweep has whole comparisons first."""
    setting = experiment.setting(scale)
    several = len(setting.recipes) > 1
    out = []
    for seed in setting.seeds:
        for basis, recipe in setting.recipes.items():
            for order, arm in enumerate(setting.arms):
                label = {
                    "experiment": experiment.name,
                    "scale": scale,
                    "arm": arm.name,
                    "order": order,
                    "note": arm.note,
                }
                if several:
                    label["basis"] = basis
                out.append(RunSpec(arm.arch, arm.own_task(setting), arm.own_recipe(recipe), seed, label))
    return out


def folder(root: Path, spec: RunSpec) -> Path:
    """Where a run of an experiment lives: ROOT/<experiment>-<scale>/<arm>-s<seed>, with its basis where it has one."""
    label = spec.label
    parts = [label["arm"], *filter(None, [label.get("basis")]), f"s{spec.seed}"]
    return root / f"{label['experiment']}-{label['scale']}" / "-".join(parts)


def narrowed(experiment: Experiment, scale: str, arms: Sequence[str]) -> Experiment:
    """The experiment at one scale with some of its arms, and with what is expected of these alone.

    A comparison stays where both of its arms do. If one of the arms that have to lose first (`Loses`) is gone, it no
    longer decides its claim, and a remark says so. Trends and growths are about all arms, and are left out."""
    setting = experiment.setting(scale)
    names = [arm.name for arm in setting.arms]
    for name in arms:
        if name not in names:
            raise UserError(
                f"experiment {experiment.name} has no arm {name!r} at scale {scale}{nearest(name, names)}; it has "
                f"{', '.join(names)}"
            )
    if set(arms) == set(names):
        return experiment
    pairs, remarks = [], list(experiment.remarks)
    for pair in experiment.compared(scale):
        if not {pair.arm, pair.against, *(pair.beyond or ())} <= set(arms):
            continue
        kept = tuple(one for one in pair.controls if {one.arm, one.against} <= set(arms))
        if kept != pair.controls:
            lost = ", ".join(f"{one.arm} beside {one.against}" for one in pair.controls if one not in kept)
            remarks.append(
                f"{pair.name} was to be judged only where {lost} loses. Not all of these arms were chosen, so nothing "
                "shows whether this setting could have shown a loss, and no claim is decided."
            )
            pair = replace(pair, controls=kept, claim="", primary=False)
        pairs.append(pair)
    bests = [replace(best, arms=tuple(name for name in best.arms if name in arms)) for best in setting.bests]
    some = replace(
        setting,
        arms=tuple(arm for arm in setting.arms if arm.name in arms),
        bests=tuple(best for best in bests if best.arms),
        growths=(),
    )
    return replace(
        experiment, settings={scale: some}, comparisons=tuple(pairs), trends=(), remarks=tuple(dict.fromkeys(remarks))
    )


def _named(what: str, name: str) -> None:
    if not NAME.fullmatch(name):
        raise UserError(f"{what} {name!r}: write letters, digits and underscores, since folders are named after it")
