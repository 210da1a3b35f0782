"""The weights that a new run starts from, wherever they come from, as the folder of a saved model."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

from manyheads.data.local_data import data_root
from manyheads.data.text.corpora import tokenizer
from manyheads.data.text.vocabulary import Vocabulary, read
from manyheads.models import store
from manyheads.spec.arch import Arch
from manyheads.spec.errors import UserError
from manyheads.spec.lock import Lock
from manyheads.spec.parts import Token
from manyheads.spec.task import Task
from manyheads.spec.text import PackedText

from . import door
from .new_run import say

PATIENCE = 3600.0  # seconds that the processes of one run wait for the one that converts


def starting_folder(name: str, beside: Path) -> Path:
    """The folder of a saved model with the weights that `name` stands for. Those of other libraries are converted once,
    into a folder in `beside`, where a run that is resumed finds them. A head that they lack is left out."""
    folder = door.own_folder(name)
    if folder is not None:
        return folder
    digest = door.weight_files(name).sha256
    label = re.sub(r"[^A-Za-z0-9_.-]+", "_", Path(name.partition(":")[2]).name) or "model"
    folder = beside / f"{label}-weights-{digest[:12]}"
    if (folder / store.RECORD).is_file():
        return folder
    try:
        beside.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"{beside} cannot be made: {error.strerror or error}") from None
    lock = Lock(beside / f".{folder.name}.lock")
    lock.take(PATIENCE)
    try:
        if not (folder / store.RECORD).is_file():  # another process converted it meanwhile
            report = door.convert(name, folder, headless=True)
            say("\n".join(f"{row:14} {value}" for row, value in [*report.lines(), ("written", str(folder))]))
    finally:
        lock.path.unlink(missing_ok=True)
        lock.release()
    return folder


def for_weights(model: Arch, start: Arch, task: Task) -> Arch:
    """`model`, which was built for a task on text, with as many positions and ids as the weights have."""
    if not isinstance(task, PackedText) or not isinstance(model.embed, Token) or not isinstance(start.embed, Token):
        return model
    embed, own = model.embed, start.embed
    if own.positions >= embed.positions > 0:
        embed = replace(embed, positions=own.positions)
    if own.vocab > embed.vocab:
        say(
            f"{task.data} has {embed.vocab:,} ids and the weights {own.vocab:,}; the model keeps all of its rows, so "
            "they must be ids of the same tokenizer"
        )
        embed = replace(embed, vocab=own.vocab)
    return replace(model, embed=embed)


def compare_tokenizers(folder: Path, task: Task, root: Path | None) -> None:
    """Tell where a text was tokenized with another tokenizer than the one in the folder of the weights."""
    if not isinstance(task, PackedText) or not (folder / "tokenizer.json").is_file():
        return
    own = read(folder / "tokenizer.json", folder.name)
    data = tokenizer(task.data, data_root(root))
    if own.digest != data.digest and _pieces(own) != _pieces(data):
        say(
            f"{task.data} was tokenized with {data.name} ({data.digest[:12]}), and the weights were trained with another "
            f"tokenizer ({own.digest[:12]}), so that the ids mean other words; tokenize the text with it: manyheads "
            f"tokenize FILES --tokenizer {folder} --out NAME"
        )


def _pieces(words: Vocabulary) -> Any:
    """The ids of all pieces of text; a file written again may differ from the first in anything else."""
    parts = json.loads(words.text or "{}")
    return parts.get("model", {}).get("vocab"), {each["content"]: each["id"] for each in parts.get("added_tokens", [])}
