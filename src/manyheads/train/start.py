"""Fine-tuning: a run that starts from trained weights. They become its checkpoint of step 0, from which `train` goes
on, so that stopping, resuming and several processes work as ever.

A task that fine-tunes says in its field `weights` which ones: their sha256, or `scratch`. `train` has them given to it,
or finds them in the folders beside the run, and refuses to start from any others."""

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
from manyheads.spec.recipe import Recipe
from manyheads.tasks import Task

from . import checkpoint
from .average import Average
from .guard import Losses
from .optimizer import adamw, prepare
from .parallel import Ranks
from .place import place
from .state import State

SCRATCH = "scratch"


def weights_digest(model: Path | str) -> str:
    """sha256 of the weights in a model's folder: what a task's field `weights` states."""
    path = Path(model) / WEIGHTS
    if not path.is_file():
        raise UserError(f"{path} does not exist; give the folder of a saved model, such as a finished run's `model`")
    return digest(path)


def finetune(run: Run, model: Path | str, **how: Any) -> dict[str, Any]:
    """Train `run` from the weights in the folder `model`; `how` as in `train`. Called again, it goes on."""
    from .loop import train  # which asks this module where a run starts

    return train(run, weights=model, **how)


def check(task: Task, model: Path | str | None) -> None:
    """Refuse weights for a task that starts from none."""
    stated = getattr(task, "weights", None)
    if stated in (None, SCRATCH) and model is not None:
        why = "has no field `weights`" if stated is None else "says weights='scratch'"
        raise UserError(f"weights were given, {model}, and the task {type(task).__name__} {why}; leave them out")


def started(run: Run, task: Task, ranks: Ranks, model: Path | str | None, say: Callable[[str], None]) -> None:
    """Have a run whose task names weights begin with these: those in the folder `model`, or in a folder beside the run.
    One that has begun is left as it is; a task that names none is refused, unless it says `scratch`. The run's folder
    is held; of several processes the first one writes, and the others wait and fail with it."""
    stated = getattr(task, "weights", None)
    if stated in (None, SCRATCH):
        return
    refused: UserError | None = None
    if ranks.first:
        try:
            _first(run, task, str(stated), model, say)
        except UserError as error:
            refused = error
    if ranks.agree(float(refused is not None))[0]:
        raise refused or UserError(f"{run.path} cannot start; the first process says why")


def _first(run: Run, task: Task, stated: str, model: Path | str | None, say: Callable[[str], None]) -> None:
    """What the first process does for all."""
    if model is not None:
        _begin(run, model, say)
    elif not _begun(run, say):
        named(task)
        source = beside(run, stated)
        if source is None:
            raise UserError(
                f"{run.path} starts from weights of sha256 {stated[:12]}, and no folder beside it has these; "
                "say where they are: --weights FOLDER (in Python `train(run, weights=FOLDER)`)"
            )
        _begin(run, source, say)


def named(task: Task) -> None:
    """Refuse a task that fine-tunes and does not say what."""
    if getattr(task, "weights", None) == "":
        raise UserError(
            f"{type(task).__name__} fine-tunes trained weights, and this task names none; write --weights "
            f"FOLDER (in Python weights=weights_digest(FOLDER)), or weights={SCRATCH!r} for random ones"
        )


def beside(run: Run, stated: str) -> Path | None:
    """The folder of a saved model, or of a run that has one, next to `run` whose weights have this sha256."""
    for folder in sorted(run.path.parent.iterdir()):
        for model in (folder / "model", folder):
            if (model / RECORD).is_file() and (model / WEIGHTS).is_file() and digest(model / WEIGHTS) == stated:
                return model
    return None


def begin(run: Run, model: Path | str) -> None:
    """Give a run that has not begun the weights in the folder `model`; one that has begun is left as it is.

    The run's task states their sha256 as `weights`, so that runs from other weights are other runs. What has another
    shape or name there, the head, is drawn from the seed. One process calls this, before several train."""
    with run.locked():
        if run.result is None:
            _begin(run, model, lambda _: None)


def _begin(run: Run, model: Path | str, say: Callable[[str], None]) -> None:
    stated, found = run.spec.task.get("weights"), weights_digest(model)
    if stated != found:
        raise UserError(
            f"{Path(model) / WEIGHTS} has sha256 {found[:12]}, and the run's task says weights="
            f"{str(stated)[:12]!r}; write weights={found!r} there, or give the right model"
        )
    if _begun(run, say):
        return
    for lines in (run.metrics, run.spectra, run.timings):  # of steps whose checkpoints are lost
        lines.cut(0)
    ranks = Ranks(torch.device("cpu"))
    recipe = Recipe.from_dict(run.spec.recipe)
    built = place(run.spec.arch, recipe.rates, run.spec.seed, ranks)
    _fill(built, Path(model))
    average = Average(built, recipe.ema) if recipe.ema else None
    optimizer = adamw(built, recipe)
    prepare(built, optimizer, 0)
    State(run, ranks, built, optimizer, average, Losses(recipe.log_every, float("inf"), ranks)).save(0.0)


def _begun(run: Run, say: Callable[[str], None]) -> bool:
    return checkpoint.newest(run.checkpoints, run.id, say, Ranks(torch.device("cpu"))) is not None


def _fill(built: nn.Module, folder: Path) -> None:
    """Everything but the head has to be there; of the head, what is there in the same shape: its norm."""
    state = read_weights(folder / WEIGHTS)
    own: dict[str, Tensor] = built.state_dict()
    fits = {name: tensor for name, tensor in state.items() if name in own and tensor.shape == own[name].shape}
    lacking = [name for name in own if name not in fits and not name.startswith("head.")]
    if lacking:
        there = record.load(folder / RECORD)
        shape = tuple(own[lacking[0]].shape)
        raise UserError(
            f"{folder} holds a {there.family} model without {lacking[0]} of shape {shape} ({len(lacking)} such "
            "tensors); fine-tune a model of the same width, depth and vocabulary"
        )
    built.load_state_dict(own | fits)
