"""The task of a new run, where the command line leaves something open: its kind follows from the model's record, the
size of images from that too, the classes from the folder of images, and the vocabulary from the shards."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from manyheads.spec.errors import UserError, nearest

if TYPE_CHECKING:
    from manyheads.spec.arch import Arch
    from manyheads.spec.task import Task


def start_task(arch: Arch, task: str | None, data: str | None, recipe: str | None) -> dict[str, Any]:
    """The fields that are stated before any single one is changed: those of the named task; or of the task that belongs
    to the recipe; or none but the kind of task that the record can do. `data` replaces the data of each."""
    from manyheads.experiments.recipes import NAMED
    from manyheads.spec.images import Images
    from manyheads.spec.serialise import to_dict

    stated = {} if data is None else {"data": data}
    if task is not None:
        return named_task(task) | stated
    usual = None if recipe not in NAMED else NAMED[recipe][1]()
    if usual is not None and data is None:
        return to_dict(usual)
    kind = kind_for(arch)
    if usual is None or (kind is Images) != isinstance(usual, Images):
        return {"is": kind.__name__} | stated
    fields = to_dict(usual)
    for name in ("size", "channels", "classes", "centre", "vocab", "tokenizer"):  # they are those of other data
        fields.pop(name, None)
    return fields | stated


def named_task(name: str) -> dict[str, Any]:
    """A task by its name (`language_model`, `LanguageModel`) or in a file of JSON."""
    from manyheads.spec.serialise import read_json
    from manyheads.spec.task_kinds import TASKS

    names = {_bare(known): known for known in TASKS}
    if _bare(name) in names:
        return {"is": names[_bare(name)]}
    file = Path(name)
    if not file.suffix and not os.path.exists(file):  # which a name that no file can have does not
        known = [written(kind) for kind in TASKS]
        raise UserError(f"--task {name}: there is no such task{nearest(name, known)}; write one of {', '.join(known)}")
    return json_object(
        read_json(file) if os.path.isfile(file) else None, file, "--task", "or a name of `manyheads tasks`"
    )


def json_object(data: Any, file: Path, option: str, others: str) -> dict[str, Any]:
    """`data`, which was read from `file`, if it is an object with named fields."""
    if not os.path.isfile(file):  # a name that no file can have is no file
        raise UserError(f"{option} {file}: there is no such file; write the name of a file of JSON, {others}")
    if not isinstance(data, dict):
        raise UserError(f"{option} {file} holds no JSON object; write one with named fields")
    return data


def written(kind: str) -> str:
    """The name of a kind of task as it is written on the command line: language_model."""
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in kind).lstrip("_")


def _bare(name: str) -> str:
    return name.lower().replace("_", "").replace("-", "")


def kind_for(arch: Arch) -> type[Task]:
    """The kind of task that a record can do, by what it reads and what its head predicts. Where several kinds have the
    same head, it is the one whose defaults the record fits."""
    from manyheads.spec.images import Images
    from manyheads.spec.measurements import Measurement
    from manyheads.spec.parts import Classify, Lm, Masked, Points, Token
    from manyheads.spec.task_kinds import TASKS
    from manyheads.spec.text import LanguageModel, MaskedLanguage

    match arch.embed, arch.head:
        case Token(), Lm():
            return LanguageModel
        case Token(), Masked():
            return MaskedLanguage
        case embed, Classify() if not isinstance(embed, Token | Points):
            return Images
    trained = [kind for kind in TASKS.values() if not issubclass(kind, Measurement)]
    kinds = [kind for kind in trained if _does(kind, arch)]
    if len(kinds) == 1:
        return kinds[0]
    kinds = kinds or [kind for kind in trained if _does(kind, arch, fit=True)]
    fitting = [written(kind.__name__) for kind in kinds] or ["NAME, one of `manyheads tasks`"]
    raise UserError(
        f"what this {arch.family} model should be trained to do does not follow from its record; write --task "
        f"{' or --task '.join(fitting)}"
    )


def _does(kind: type[Task], arch: Arch, fit: bool = False) -> bool:
    """Whether the model does the task with its defaults, as it is or with the embedding and head that the task asks
    for (`fit`)."""
    from manyheads import tasks

    try:
        task = kind()
        tasks.check(task, tasks.fit(task, arch) if fit else arch)
    except UserError:
        return False
    return True


def complete(fields: dict[str, Any], arch: Arch, root: Path | None) -> dict[str, Any]:
    """The fields of a task, and those that its data and the record tell. What is stated stays."""
    match fields.get("is"):
        case "Images":
            return fields | _images(fields, arch, root)
        case "LanguageModel" | "MaskedLanguage":
            return fields | _vocabulary(fields, fields.get("data"), root)
        case "Glue":
            return fields | _vocabulary(fields, fields.get("tokenizer"), root)
    return fields


def _images(fields: dict[str, Any], arch: Arch, root: Path | None) -> dict[str, Any]:
    """Images have the size and the channels that the model takes, if neither is stated; a folder has the classes that
    are in it, or as many as the model's where it is not here."""
    from manyheads.data.image_folders import class_count
    from manyheads.data.local_data import data_root
    from manyheads.spec.datasets import FOLDER, image_set
    from manyheads.spec.images import Images
    from manyheads.spec.parts import Classify, Points, Token

    data = fields.get("data", Images.data)
    if isinstance(arch.embed, Token | Points) or not isinstance(data, str):
        return {}  # refused when the task is checked
    facts = image_set(data)
    told: dict[str, Any] = {}
    if fields.get("size") is None and fields.get("channels") is None:
        size, channels = arch.embed.image, arch.embed.channels
        if channels != facts.channels and channels == 3:
            told["channels"] = channels
        if size != facts.size:
            told["size"] = size
            if facts.size:
                _say(
                    f"images of {facts.size} px are resized to the model's {size} px; --set task.size={facts.size} "
                    "builds the model for the images instead"
                )
    if not facts.classes and fields.get("classes") is None:
        count = class_count(data_root(root), data.removeprefix(FOLDER))
        own = arch.head.classes if isinstance(arch.head, Classify) else 0
        if count or own:
            told["classes"] = count or own
    return told


def _vocabulary(fields: dict[str, Any], corpus: Any, root: Path | None) -> dict[str, Any]:
    """The number of ids that the manifest of the shards states."""
    from manyheads.data.local_data import data_root
    from manyheads.data.text.corpora import corpus_folder
    from manyheads.data.text.shards import read_manifest
    from manyheads.spec.datasets import SHARDS

    if fields.get("vocab") is not None or not isinstance(corpus, str) or not corpus.startswith(SHARDS):
        return {}
    return {"vocab": read_manifest(corpus_folder(corpus, data_root(root)) / "train").vocab}


def _say(text: str) -> None:
    """Tell people; of several processes the first one does."""
    if os.environ.get("RANK", "0") == "0":
        print(text, file=sys.stderr)
