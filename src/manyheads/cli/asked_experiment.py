"""Which experiment `manyheads run` was asked for: one of the catalogue, a changed copy of it, or one in a user's file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from manyheads.spec.errors import UserError

if TYPE_CHECKING:
    from manyheads.interop.changed_experiment import Change
    from manyheads.spec.experiment import Experiment
    from manyheads.sweep.plan import Selection


def asked(name: str, scale: str | None, change: Change, tokenizer: str | None) -> tuple[str | Experiment, str]:
    """The experiment, by name where the catalogue has it as it is, and its scale: an experiment of one's own has its
    only one, any other smoke where nothing is written."""
    from manyheads.experiments import registry
    from manyheads.interop.own_experiment import is_file, own_experiment
    from manyheads.sweep.plan import ALL

    if name in registry.EXPERIMENTS or name == ALL or not is_file(name):
        experiment: str | Experiment = name
        scale = scale or "smoke"
    else:
        experiment = own_experiment(name)
        scale = scale or _only_scale(experiment)
    if not change.words:
        return experiment, scale
    if name == ALL:
        raise UserError(f"{change.options()} changes one experiment; write its name instead of all")
    from manyheads.interop.changed_experiment import changed
    from manyheads.interop.dataset_path import NamedDataset, named_dataset

    def named(data: str) -> NamedDataset:
        return named_dataset(data, change.root, tokenizer)

    whole = registry.get(experiment) if isinstance(experiment, str) else experiment
    return changed(whole, scale, change, named), scale


def _only_scale(experiment: Experiment) -> str:
    scales = list(experiment.settings)
    if len(scales) > 1 and "smoke" not in scales:
        raise UserError(f"experiment {experiment.name} has {len(scales)} scales; write --scale {' or '.join(scales)}")
    return "smoke" if "smoke" in scales else scales[0]


def split_basis(text: str | None) -> tuple[str | None, str | None]:
    """`steps` chooses one basis of the experiment, and `epochs=5` is another budget: the choice and the budget."""
    return (None, text) if text is not None and "=" in text else (text, None)


def check_data(selection: Selection, root: Path | None) -> None:
    """Refuse to start where the data of a run that is not finished is not here; the error says where to get it."""
    from manyheads import tasks
    from manyheads.runs.folder import RESULT
    from manyheads.spec.experiment import folder

    left = [run for run in (*selection.now, *selection.later) if not (folder(selection.root, run) / RESULT).is_file()]
    for task in dict.fromkeys(run.task for run in left):
        tasks.check_data(task, root=root)
