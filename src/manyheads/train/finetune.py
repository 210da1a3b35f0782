"""Fine-tuning: a run that starts from trained weights. They become its checkpoint of step 0, from which `train`
resumes, so that stopping, resuming and several processes work as in any run.

A task that fine-tunes (today `Glue`) names the weights in its field `weights`: their sha256, or `scratch` for random
ones. `train` gets their folder from its caller or finds it beside the run, and refuses other weights."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from manyheads.data.text.documents import digest
from manyheads.models.store import RECORD, WEIGHTS, read_weights
from manyheads.runs import Run
from manyheads.spec import serialise as record
from manyheads.spec.errors import UserError
from manyheads.spec.task import SCRATCH, Task

from . import checkpoint
from .optimizer import prepare
from .parallel import Ranks
from .sharding import initial_model
from .training_state import TrainingState


def weights_digest(model: Path | str) -> str:
    """The sha256 of the weights in a model's folder, for a task's field `weights`."""
    path = Path(model) / WEIGHTS
    if not path.is_file():
        raise UserError(f"{path} does not exist; give the folder of a saved model, such as a finished run's `model`")
    return digest(path)


def finetune(run: Run, model: Path | str, **how: Any) -> dict[str, Any]:
    """Train `run` from the weights in the folder `model`; `how` as in `train`. Called again, it resumes."""
    from .loop import train  # imported here, since `loop` imports this module

    return train(run, weights=model, **how)


def check_weights(task: Task, model: Path | str | None) -> None:
    """Refuse weights for a task that starts from random ones."""
    stated = task.starts_from
    if stated in (None, SCRATCH) and model is not None:
        why = "has no field `weights`" if stated is None else "says weights='scratch'"
        raise UserError(f"weights were given, {model}, and the task {type(task).__name__} {why}; leave them out")


def ensure_begun(run: Run, task: Task, ranks: Ranks, model: Path | str | None, say: Callable[[str], None]) -> None:
    """Begin a run whose task names weights: with those in the folder `model`, or else in a folder beside the run. A run
    that has begun is left as it is; a task that names no weights is refused, unless it says `scratch`. The caller holds
    the lock of the run. Of several processes the first one writes, and the others wait and fail with it."""
    stated = task.starts_from
    if stated in (None, SCRATCH):
        return
    refused: UserError | None = None
    if ranks.first:
        try:
            _begin_first(run, task, str(stated), model, say)
        except UserError as error:
            refused = error
    if ranks.agree(float(refused is not None))[0]:
        raise refused or UserError(f"{run.path} cannot start; the first process says why")


def _begin_first(run: Run, task: Task, stated: str, model: Path | str | None, say: Callable[[str], None]) -> None:
    """`ensure_begun` in the first process."""
    if model is not None:
        _begin(run, model, say)
    elif not _begun(run, say):
        check_named(task)
        source = beside(run, stated)
        if source is None:
            raise UserError(
                f"{run.path} starts from weights of sha256 {stated[:12]}, and no folder beside it has these; "
                "say where they are: --weights FOLDER (in Python `train(run, weights=FOLDER)`)"
            )
        _begin(run, source, say)


def check_named(task: Task) -> None:
    """Refuse a task that fine-tunes and does not say which weights."""
    if task.starts_from == "":
        raise UserError(
            f"{type(task).__name__} fine-tunes trained weights, and this task names none; write --weights "
            f"FOLDER (in Python weights=weights_digest(FOLDER)), or weights={SCRATCH!r} for random ones"
        )


def beside(run: Run, stated: str) -> Path | None:
    """The folder of a saved model beside `run`, or inside a run beside it, whose weights have the sha256 `stated`."""
    for folder in sorted(run.path.parent.iterdir()):
        for model in (folder / "model", folder):
            if (model / RECORD).is_file() and (model / WEIGHTS).is_file() and digest(model / WEIGHTS) == stated:
                return model
    return None


def begin(run: Run, model: Path | str) -> None:
    """Give a run that has not begun the weights in the folder `model`; a run that has begun is left as it is.

    The run's task states their sha256 as `weights`, so that runs from other weights are other runs. The head, which has
    other shapes or names in the saved model, is drawn from the seed. One process calls this, before several train."""
    with run.locked():
        if run.result is None:
            _begin(run, model, lambda _: None)


def _begin(run: Run, model: Path | str, say: Callable[[str], None]) -> None:
    stated, actual = run.spec.task.starts_from, weights_digest(model)
    if stated != actual:
        raise UserError(
            f"{Path(model) / WEIGHTS} has sha256 {actual[:12]}, and the run's task says weights="
            f"{str(stated)[:12]!r}; write weights={actual!r} there, or give the right model"
        )
    if _begun(run, say):
        return
    for lines in run.lines:  # written by steps whose checkpoints are lost
        lines.cut(0)
    ranks = Ranks(torch.device("cpu"))
    recipe = run.spec.recipe
    network = initial_model(run.spec.arch, recipe.rates, run.spec.seed, ranks)
    _fill(network, Path(model))
    state = TrainingState.new(run, recipe, ranks, network)
    prepare(network, state.optimizer, 0)
    state.save(0.0)


def _begun(run: Run, say: Callable[[str], None]) -> bool:
    return checkpoint.newest(run.checkpoints, run.id, say, Ranks(torch.device("cpu"))) is not None


def _fill(network: nn.Module, folder: Path) -> None:
    """Load the weights in `folder`. All but the head's must be there; of the head those that have the same shape, such
    as its norm's, are loaded, too."""
    saved = read_weights(folder / WEIGHTS)
    own: dict[str, Tensor] = network.state_dict()
    fits = {name: tensor for name, tensor in saved.items() if name in own and tensor.shape == own[name].shape}
    lacking = [name for name in own if name not in fits and not name.startswith("head.")]
    if lacking:
        arch = record.load(folder / RECORD)
        shape = tuple(own[lacking[0]].shape)
        raise UserError(
            f"{folder} holds a {arch.family} model without {lacking[0]} of shape {shape} ({len(lacking)} such "
            "tensors); fine-tune a model of the same width, depth and vocabulary"
        )
    network.load_state_dict(own | fits)
