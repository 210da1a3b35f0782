"""The experiment that is written beside its runs: what a person stated, changed, or narrowed to some of its arms.

What is expected of the arms is fixed before they are trained. Once a run is finished, the same folder takes further arms
and seeds, and refuses other expectations of the arms it has."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from manyheads.runs.folder import RESULT, SPEC
from manyheads.spec.errors import UserError
from manyheads.spec.experiment import Experiment, Setting, narrowed
from manyheads.spec.experiment_file import EXPERIMENT, load, save
from manyheads.spec.files import unwritten


def place(root: Path, experiment: Experiment, scale: str) -> Path:
    """The folder of the runs of an experiment at a scale."""
    return root / f"{experiment.name}-{scale}"


def begun(root: Path, experiment: Experiment, scale: str) -> list[str]:
    """The arms that have a run folder, in the experiment's order."""
    here = {file.parent.name.partition("-")[0] for file in place(root, experiment, scale).glob(f"*/{SPEC}")}
    return [arm.name for arm in experiment.setting(scale).arms if arm.name in here]


def chosen(root: Path, experiment: Experiment, scale: str, arms: list[str]) -> Experiment:
    """The experiment with `arms` and those that have runs already, and with what is expected of these alone."""
    some = {*arms, *begun(root, experiment, scale)}
    return narrowed(experiment, scale, [arm.name for arm in experiment.setting(scale).arms if arm.name in some])


def merged(root: Path, experiment: Experiment, scale: str) -> Experiment:
    """`experiment` with the arms and seeds that an earlier call has in the same folder. It is refused where finished
    runs were to be judged by other expectations, or where an arm was another model."""
    folder = place(root, experiment, scale)
    if not (folder / EXPERIMENT).is_file() or not any(folder.glob(f"*/{RESULT}")):
        return experiment
    before = load(folder / EXPERIMENT)
    there, here = before.setting(scale), experiment.setting(scale)
    _same_terms(folder, there, here)
    names = {arm.name for arm in there.arms}
    expected, now = ({pair for pair in one.compared(scale) if set(pair.arms) <= names} for one in (before, experiment))
    kept = {arm.name for arm in here.arms}
    if now != {pair for pair in expected if set(pair.arms) <= kept}:
        raise UserError(
            f"{folder} has finished runs that are judged by what {EXPERIMENT} there expects of them, and this expects "
            "something else. Expectations are fixed before the runs: write another --out, or ask these runs with "
            f"`manyheads report {root}` and --no-loss, --better or --equal"
        )
    arms = (*here.arms, *(arm for arm in there.arms if arm.name not in kept))
    seeds = tuple(sorted({*here.seeds, *there.seeds}))
    setting = replace(here, arms=arms, seeds=seeds)
    lost = tuple(pair for pair in before.compared(scale) if pair not in now and not set(pair.arms) <= kept)
    settings = {**experiment.settings, scale: setting}
    return replace(experiment, settings=settings, comparisons=(*experiment.comparisons, *lost))


def _same_terms(folder: Path, there: Setting, here: Setting) -> None:
    """Refuse other models, tasks or recipes than those of the runs in the folder."""
    before = {arm.name: arm for arm in there.arms}
    for arm in here.arms:
        if arm.name in before and arm.arch != before[arm.name].arch:
            raise UserError(f"{folder} has runs of another model {arm.name}; write another --out")
    for what, one, other in (("task", there.task, here.task), ("recipe", dict(there.recipes), dict(here.recipes))):
        if one != other:
            raise UserError(
                f"{folder} has runs of another {what} than this one; write another --out to keep them apart"
            )


def write(root: Path, experiment: Experiment, scale: str, *, catalogue: Experiment | None) -> None:
    """Write the experiment beside its runs. Where it is the one of the `catalogue`, no file is needed, and one that an
    earlier call left is removed."""
    folder = place(root, experiment, scale)
    if experiment == catalogue:
        (folder / EXPERIMENT).unlink(missing_ok=True)
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise unwritten(folder, error) from error
    save(experiment, folder / EXPERIMENT)
