"""A run that starts from trained weights. They become its checkpoint of step 0, from which `train` resumes, so that
stopping, resuming and several processes work as in any run.

The run's specification names the weights by their sha256 in its field `weights`. A task that fine-tunes (today `Glue`)
names them in a field of its own, where `scratch` stands for random ones. `train` gets their folder from its caller or
finds it beside the run, and refuses other weights."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from manyheads.data.text.documents import digest
from manyheads.models.build import build
from manyheads.models.resize import resize, tables
from manyheads.models.store import RECORD, WEIGHTS, read_shapes, read_weights
from manyheads.runs import Run, RunSpec
from manyheads.spec import serialise as record
from manyheads.spec.arch import Arch
from manyheads.spec.errors import UserError
from manyheads.spec.parts import Points, Token
from manyheads.spec.task import SCRATCH, Task

from . import checkpoint
from .optimizer import prepare
from .parallel import Ranks
from .sharding import initial_model
from .training_state import TrainingState


def weights_digest(model: Path | str) -> str:
    """The sha256 of the weights in a model's folder, for the field `weights` of a run or of a task."""
    path = Path(model) / WEIGHTS
    if not path.is_file():
        raise UserError(f"{path} does not exist; give the folder of a saved model, such as a finished run's `model`")
    return digest(path)


def finetune(run: Run, model: Path | str, **how: Any) -> dict[str, Any]:
    """Train `run` from the weights in the folder `model`; `how` as in `train`. Called again, it resumes."""
    from .loop import train  # imported here, since `loop` imports this module

    return train(run, weights=model, **how)


def check_weights(spec: RunSpec, model: Path | str | None) -> None:
    """Refuse weights for a run that starts from random ones."""
    if spec.starts_from in (None, SCRATCH) and model is not None:
        task = type(spec.task).__name__
        why = "the run states no `weights`" if spec.starts_from is None else f"the task {task} says weights='scratch'"
        raise UserError(f"weights were given, {model}, and {why}; leave them out, or start a new run")


def check_fits(arch: Arch, model: Path | str) -> list[str]:
    """Refuse weights that a model of `arch` cannot start from, reading no tensor. Returns the names of the tensors that
    are drawn from the seed, because the saved model has no head of this kind."""
    folder = Path(model)
    own = {name: tuple(tensor.shape) for name, tensor in build(arch, device="meta").state_dict().items()}
    saved = read_shapes(folder / WEIGHTS)
    old = record.load(folder / RECORD)
    resized = {name for name, _, _ in tables(old)} if _other_image(old, arch) else set()
    return _drawn(own, saved, resized, folder, old)


def ensure_begun(run: Run, ranks: Ranks, model: Path | str | None, say: Callable[[str], None]) -> None:
    """Begin a run that names weights: with those in the folder `model`, or else in a folder beside the run. A run
    that has begun is left as it is; a task that fine-tunes and names no weights is refused, unless it says `scratch`.
    The caller holds the lock of the run. Of several processes the first one writes, and the others wait and fail with
    it."""
    stated = run.spec.starts_from
    if stated in (None, SCRATCH):
        return
    refused: UserError | None = None
    if ranks.first:
        try:
            _begin_first(run, str(stated), model, say)
        except UserError as error:
            refused = error
    if ranks.agree(float(refused is not None))[0]:
        raise refused or UserError(f"{run.path} cannot start; the first process says why")


def _begin_first(run: Run, stated: str, model: Path | str | None, say: Callable[[str], None]) -> None:
    """`ensure_begun` in the first process."""
    if model is not None:
        _begin(run, model, say)
    elif not _begun(run, say):
        check_named(run.spec.task)
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

    The run's specification, or its task, states their sha256 as `weights`, so that runs from other weights are other
    runs. The head, which has other shapes or names in the saved model, is drawn from the seed. One process calls this,
    before several train."""
    with run.locked():
        if run.result is None:
            _begin(run, model, lambda _: None)


def _begin(run: Run, model: Path | str, say: Callable[[str], None]) -> None:
    stated, actual = run.spec.starts_from, weights_digest(model)
    if stated != actual:
        task = run.spec.task.starts_from is not None
        says, repair = (
            ("run's task says", f"write weights={actual!r} there") if task else ("run says", "start a new run")
        )
        raise UserError(
            f"{Path(model) / WEIGHTS} has sha256 {actual[:12]}, and the {says} weights={str(stated)[:12]!r}; {repair}, "
            "or give the right model"
        )
    if _begun(run, say):
        return
    for lines in run.lines:  # written by steps whose checkpoints are lost
        lines.cut(0)
    ranks = Ranks(torch.device("cpu"))
    recipe = run.spec.recipe
    network = initial_model(run.spec.arch, recipe.rates, run.spec.seed, ranks)
    _fill(network, run.spec.arch, Path(model), say)
    state = TrainingState.new(run, recipe, ranks, network)
    prepare(network, state.optimizer, 0)
    state.save(0.0)


def _begun(run: Run, say: Callable[[str], None]) -> bool:
    return checkpoint.newest(run.checkpoints, run.id, say, Ranks(torch.device("cpu"))) is not None


def _fill(network: nn.Module, arch: Arch, folder: Path, say: Callable[[str], None]) -> None:
    """Load the weights in `folder`. All but the head's must be there; of the head those that have the same shape, such
    as its norm's, are loaded, too. For another image size learned positions are interpolated."""
    saved, old = read_weights(folder / WEIGHTS), record.load(folder / RECORD)
    if _other_image(old, arch):
        saved = resize(saved, replace(old, head=arch.head), arch)
        say(f"the positions of {folder} are interpolated from {_image(old)} px to {_image(arch)} px")
    own: dict[str, Tensor] = network.state_dict()
    shapes = ({name: tuple(tensor.shape) for name, tensor in state.items()} for state in (own, saved))
    drawn = _drawn(*shapes, set(), folder, old)
    if drawn:
        say(f"{folder} has no such head: {', '.join(drawn)} {'are' if len(drawn) > 1 else 'is'} drawn from the seed")
    network.load_state_dict(own | {name: saved[name] for name in own if name not in drawn})


Shapes = dict[str, tuple[int, ...]]


def _drawn(own: Shapes, saved: Shapes, resized: set[str], folder: Path, old: Arch) -> list[str]:
    """The tensors of a head that the saved model does not have. Where it lacks another one, it is refused."""
    lacking = [name for name in own if name not in resized and saved.get(name) != own[name]]
    others = [name for name in lacking if not name.startswith("head.")]
    if not others:
        return lacking
    raise UserError(
        f"{folder} holds a {old.family} model without {others[0]} of shape {own[others[0]]} ({len(others)} such "
        "tensors); start from a model of the same width, depth and vocabulary"
    )


def _image(arch: Arch) -> int:
    """The image size of a model that reads images; 0 for one that does not."""
    return 0 if isinstance(arch.embed, Token | Points) else arch.embed.image


def _other_image(old: Arch, new: Arch) -> bool:
    return _image(old) > 0 and _image(new) > 0 and _image(old) != _image(new)
