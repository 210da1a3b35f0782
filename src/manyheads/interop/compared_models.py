"""The experiment that `manyheads compare` states: the models that are named, one task, one recipe, what is expected."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from manyheads.spec.comparison import Comparison, Expect, Loses
from manyheads.spec.errors import UserError, nearest
from manyheads.spec.experiment import OWN, Arm, Best, Experiment, Setting
from manyheads.spec.images import Images
from manyheads.spec.long_range import LraTask

from .new_run import fitted
from .resolve import resolve
from .stated_run import Stated, planned

if TYPE_CHECKING:
    from manyheads.spec.arch import Arch
    from manyheads.spec.recipe import Recipe
    from manyheads.spec.task import Task

CHOOSING_SEED = 1000  # chooses the learning rates, and is no seed that is reported
VALIDATION = 0.1  # share of the training samples that rates are chosen by, where nobody states another
LEAST_POINTS = 0.1  # a margin of accuracy from here on was probably meant in points of percent


@dataclass(frozen=True)
class Expected:
    """What is expected of every other model beside `against` (empty: the first model), fixed before the runs."""

    expect: Expect = "open"
    margin: float = 0.0
    against: str = ""


def comparison(
    models: Mapping[str, str | Arch],
    stated: Stated,
    expected: Expected,
    *,
    seeds: Sequence[int],
    name: str = "",
    controls: bool = False,
    validation: bool = False,
    command: str = "",
) -> Experiment:
    """The experiment: every model of `models`, by the name of its arm, trained as `stated` says. With `controls`, the
    arms that take a redesign's heads and layers apart are added. With `validation`, a share of the training samples is
    kept to choose by, unless the task states one.

    All models have the task of the one they are compared with, and are built for its data."""
    against = expected.against or next(iter(models))
    if against not in models:
        raise UserError(f"--against {against}: no arm has this name{nearest(against, models)}; write {_or(models)}")
    if len(models) < 2:
        raise UserError(f"{against} alone is compared with nothing; name two models or more")
    arch, task, recipe = planned(models[against], stated)
    metric = ""
    if validation:
        task, metric = kept_apart(task)
    _check_margin(expected, task)
    others = {name: fitted(_record(model), task) for name, model in models.items() if name != against}
    _check_different({against: arch, **others})
    arms = [Arm(against, arch, "what the others are compared with"), *(Arm(name, one) for name, one in others.items())]
    pairs = [
        Comparison(name, against, expected.expect, expected.margin, metric=metric, primary=True) for name in others
    ]
    if controls:
        pairs = [_with_controls(pair, arch, others[pair.arm], arms, alone=len(others) == 1) for pair in pairs]
        rest = [arm.name for arm in arms if arm.name not in models]
        pairs += [Comparison(_lean(name, others), name, "open", metric=metric) for name in rest]
    order = {name: place for place, name in enumerate(models)}
    arms.sort(key=lambda arm: order.get(arm.name, len(order)))
    return Experiment(
        name=name or usual_name(models),
        title=f"{_and(list(others))} beside {against}",
        question=_question(expected, list(others), against),
        settings={OWN: Setting(tuple(arms), tuple(seeds), task, {recipe.basis.kind: recipe})},
        comparisons=tuple(pairs),
        run=command,
    )


def kept_apart(task: Task) -> tuple[Task, str]:
    """The task with validation samples, which are neither trained nor reported on, and the score that is compared then:
    the headline (empty), or, where that is of the validation samples themselves, the test score."""
    if isinstance(task, LraTask) and task.test:
        return task, "test_top1"
    share = getattr(task, "validation", None)
    if share is None:
        raise UserError(
            f"{type(task).__name__} keeps no validation samples apart from training, by which a learning rate could be "
            "chosen; leave --rates out, and state one with --lr"
        )
    return (task if share else replace(task, validation=VALIDATION)), ""  # type: ignore[call-arg]  # it has the field


def _record(model: str | Arch) -> Arch:
    """The architecture of a model; an arm of an experiment has one too."""
    from .stated_run import is_arm

    if not isinstance(model, str):
        return model
    return planned(model, Stated())[0] if is_arm(model) else resolve(model)


def _with_controls(pair: Comparison, original: Arch, lean: Arch, arms: list[Arm], *, alone: bool) -> Comparison:
    """Add the controls of a redesign to `arms`, and give its comparison the one that has to lose."""
    from manyheads.arch.controls import makers

    known = {arm.arch: arm.name for arm in arms}
    for name, make in makers(original, lean).items():
        try:
            control = make(original, lean)
        except (UserError, ValueError) as error:
            print(f"without the control {name} of {pair.arm}: {error}", file=sys.stderr)
            continue
        if control.arch in known:  # another arm is the same model
            continue
        arm = Arm(name if alone else f"{pair.arm}.{name}", control.arch, f"{control.matches}, {control.residual:+.2%}")
        arms.append(arm)
        known[control.arch] = arm.name
        if name == "depth_only" and pair.expect in ("no_loss", "equal"):
            pair = replace(pair, controls=(Loses(arm.name, pair.against),))
    return pair


def _lean(control: str, others: Mapping[str, Arch]) -> str:
    """The redesign that a control belongs to."""
    return control.rpartition(".")[0] if len(others) > 1 else next(iter(others))


def _check_different(models: Mapping[str, Arch]) -> None:
    """Refuse two names of one model, whose runs would be the same."""
    seen: dict[Arch, str] = {}
    for name, arch in models.items():
        if arch in seen:
            raise UserError(f"{seen[arch]} and {name} are the same model on this data; name two that differ")
        seen[arch] = name


def _check_margin(expected: Expected, task: Task) -> None:
    """Refuse half of all images as a margin: accuracy is a share, and whoever writes 0.5 means half a point."""
    if isinstance(task, Images) and expected.margin >= LEAST_POINTS:
        option = f"--{expected.expect.replace('_', '-')}"
        raise UserError(
            f"{option} {expected.margin:g} is {100 * expected.margin:g} points of accuracy, which is a share from 0 to "
            f"1; write {option} {expected.margin:g}%, or {expected.margin / 100:g}, for {expected.margin:g} points"
        )


def margin(text: str, option: str) -> float:
    """A margin as it is written: 0.005, or 0.5%."""
    number, percent = text.removesuffix("%"), text.endswith("%")
    try:
        return float(number) / (100 if percent else 1)
    except ValueError:
        raise UserError(f"{option} {text}: write a number such as 0.005, or 0.5% for half a point") from None


def _question(expected: Expected, names: list[str], against: str) -> str:
    who = f"{'Is' if len(names) == 1 else 'Are'} {_and(names)}"
    by = f" by more than {expected.margin:g}" if expected.margin else ""
    match expected.expect:
        case "no_loss":
            return f"{who} worse than {against}{by}, or not?"
        case "better":
            return f"{who} better than {against}{by}?"
        case "equal":
            return f"{who} within {expected.margin:g} of {against}?"
    return f"{who} better or worse than {against}?"


def arm_names(models: Sequence[str]) -> dict[str, str]:
    """The models by the names of their arms: that of the file or folder, of the model in a library, of the arm of an
    experiment. Of equal names the second is NAME_2."""
    named: dict[str, str] = {}
    for model in models:
        prefix, _, rest = model.partition(":")
        path = Path(rest or prefix)
        stem = path.stem if path.suffix == ".json" else path.name
        if stem in ("arch", "config") and path.suffix == ".json":
            stem = path.resolve().parent.name
        base = re.sub(r"[^A-Za-z0-9_.+]+", "_", stem).lstrip("_.+") or "model"
        name, number = base, 2
        while name in named:
            name, number = f"{base}_{number}", number + 1
        named[name] = model
    return named


def usual_name(models: Mapping[str, str | Arch]) -> str:
    """What a comparison of these models is called."""
    return "_vs_".join(models)[:80]


def at_rates(experiment: Experiment, factors: Sequence[float]) -> Experiment:
    """The experiment that chooses a learning rate for each arm: every arm at every factor of its rate, with a seed of
    its own. Its validation samples decide."""
    setting = experiment.setting(OWN)
    (basis, recipe), *_ = setting.recipes.items()
    if len(factors) < 2 or min(factors) <= 0 or len(set(factors)) < len(factors):
        raise UserError(
            f"--rates {','.join(f'{one:g}' for one in factors)}: write two factors or more, such as 0.5,1,2"
        )
    if CHOOSING_SEED in setting.seeds:
        raise UserError(f"seed {CHOOSING_SEED} chooses the learning rates; leave it out of --seeds")
    arms, bests = [], []
    for arm in setting.arms:
        rates = {f"{arm.name}_x{factor:g}": factor * recipe.lr for factor in sorted(factors)}
        arms += [Arm(name, arm.arch, f"learning rate {rate:g}", recipe={"lr": rate}) for name, rate in rates.items()]
        bests.append(Best(arm.name, tuple(rates)))
    return Experiment(
        name=f"{experiment.name}_rates",
        title=f"Learning rates of {experiment.title}",
        question="Which learning rate is best for each model, on samples that are neither trained nor reported on?",
        settings={OWN: Setting(tuple(arms), (CHOOSING_SEED,), setting.task, {basis: recipe}, tuple(bests))},
        run=experiment.run,
    )


@dataclass(frozen=True)
class Rate:
    """The learning rate that was chosen for an arm; `edge` says that it is the lowest or highest that was tried."""

    value: float
    edge: bool


def with_rates(experiment: Experiment, rates: Mapping[str, Rate], tried: Sequence[float]) -> Experiment:
    """The experiment with each arm at the rate that was chosen for it, and a remark where a choice is at the edge."""
    setting = experiment.setting(OWN)
    arms = [
        replace(
            arm, recipe={"lr": rates[arm.name].value}, note="; ".join(filter(None, [arm.note, _chosen(rates, arm)]))
        )
        for arm in setting.arms
    ]
    edge = [name for name, rate in rates.items() if rate.edge]
    listed = ", ".join(f"{rate:g}" for rate in tried)
    remarks = [f"Each arm has its own learning rate, chosen among {listed} on validation samples with another seed."]
    if edge:
        remarks.append(
            f"The rate of {_and(edge)} is at the edge of what was tried: a better one may lie outside. Try a wider range."
        )
    settings = {OWN: replace(setting, arms=tuple(arms))}
    return replace(experiment, settings=settings, remarks=(*experiment.remarks, *remarks))


def _chosen(rates: Mapping[str, Rate], arm: Arm) -> str:
    rate = rates[arm.name]
    return f"learning rate {rate.value:g}" + (", the edge of what was tried" if rate.edge else "")


def base_rate(experiment: Experiment) -> Recipe:
    """The recipe that all arms start from."""
    return next(iter(experiment.setting(OWN).recipes.values()))


def _and(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _or(names: Mapping[str, object]) -> str:
    return " or ".join(names)
