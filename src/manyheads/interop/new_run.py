"""What the record of a new run says where nobody wrote it, and what `manyheads train` tells people about it."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from manyheads.spec.arch import Arch
    from manyheads.spec.task import Task

TRAINED = ("hf", "timm", "run")  # names of models whose weights somebody has trained
WEIGHTS = ("model.safetensors", "model.safetensors.index.json", "pytorch_model.bin")


def task_for(chosen: dict[str, Any], arch: Arch) -> Task:
    """The task of a new run from the fields that are stated. Text has the length that the model's record has, and a
    crop counts the pixels that the model sees."""
    from manyheads.spec.images import Images, crop_after_resize
    from manyheads.spec.parts import Token
    from manyheads.spec.task_kinds import TASKS, task_from_dict
    from manyheads.spec.text import Glue, PackedText

    kind = TASKS.get(str(chosen.get("is")))
    reads_text = kind is not None and issubclass(kind, PackedText | Glue) and isinstance(arch.embed, Token)
    if reads_text and "tokens" not in chosen:
        chosen = chosen | {"tokens": arch.stages[0].tokens}
    task = task_from_dict(chosen)
    augment = chosen.get("augment")
    stated = isinstance(augment, dict) and "resize_first" in augment
    return crop_after_resize(task) if isinstance(task, Images) and not stated else task


def fitted(arch: Arch, task: Task, start: Arch | None = None) -> Arch:
    """The model for this task's data: image size and classes, vocabulary and length. What changes is told. `start` is
    the model whose weights it starts from; its positions and ids are kept."""
    from manyheads import tasks

    model = tasks.fit(task, arch)
    if start is not None:
        from .start_weights import for_weights

        model = for_weights(model, start, task)
    if model != arch:
        say(f"the model is built for {_changes(task, arch, model)}")
    tasks.check(task, model)
    return model


def _changes(task: Task, before: Arch, after: Arch) -> str:
    from manyheads.spec.images import Images
    from manyheads.spec.parts import Token

    if isinstance(task, Images):
        channels, size = task.shape
        return f"{size} px, {channels} channels and {task.class_count} classes"
    words = [f"{type(task).__name__}: embedding and head are its own"]
    if isinstance(before.embed, Token) and isinstance(after.embed, Token):
        pairs = (
            ("tokens", before.stages[0].tokens, after.stages[0].tokens),
            ("words of vocabulary", before.embed.vocab, after.embed.vocab),
        )
        words += [f"{new:,} {what} and not {old:,}" for what, old, new in pairs if new != old]
    return "; ".join(words)


def scratch_label(model: str) -> dict[str, str]:
    """The label of a run whose model has trained weights that the run does not start from, which is told; {} where
    the name of the model stands for no weights."""
    if not _has_weights(model):
        return {}
    say(
        f"{model} gives the architecture alone, and training starts from random weights; to start from its trained ones, "
        f"add --weights {model}"
    )
    return {"model": model, "weights": "random"}


def _has_weights(model: str) -> bool:
    prefix, _, rest = model.partition(":")
    if prefix in TRAINED and rest:
        return True
    path = Path(model)
    folder = path if path.is_dir() else path.parent
    return path.exists() and any((folder / name).is_file() for name in WEIGHTS)


def say(text: str) -> None:
    """Tell people; of several processes the first one does."""
    if os.environ.get("RANK", "0") == "0":
        print(text, file=sys.stderr)
