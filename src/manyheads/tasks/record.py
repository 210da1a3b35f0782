"""Tasks as plain JSON objects: {"is": "Images", "data": "cifar10", ...}, read back exactly, mistakes named."""

from __future__ import annotations

import json
from dataclasses import MISSING, fields, is_dataclass
from typing import Any

from manyheads.spec.augment import Augment, Rand
from manyheads.spec.errors import UserError, nearest

from .footprint import Footprint
from .glue import Glue
from .heads_kappa import HeadsKappa
from .images import Images
from .language import LanguageModel
from .lra import PARTS as LRA_PARTS
from .lra import TASKS as LRA_TASKS
from .masked import MaskedLanguage
from .nearest import NearestNeighbor
from .regression import Regression
from .speed import Speed
from .task import Task
from .written_down import WrittenDown

TASKS: dict[str, type[Task]] = {
    "Images": Images,
    "NearestNeighbor": NearestNeighbor,
    "Regression": Regression,
    "LanguageModel": LanguageModel,
    "MaskedLanguage": MaskedLanguage,
    "Glue": Glue,
    **LRA_TASKS,
    "HeadsKappa": HeadsKappa,
    "Speed": Speed,
    "Footprint": Footprint,
    "WrittenDown": WrittenDown,
}
PARTS: dict[str, type] = {"Augment": Augment, "Rand": Rand, **LRA_PARTS}  # records inside a task


def to_dict(task: Task) -> dict[str, Any]:
    """`task` as plain JSON values, every field stated; each record says what it `is`."""
    plain = _plain(task)
    assert isinstance(plain, dict)
    return plain


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if is_dataclass(value) and not isinstance(value, type):
        return {"is": type(value).__name__} | {f.name: _plain(getattr(value, f.name)) for f in fields(value)}
    return value


def from_dict(data: Any) -> Task:
    """The task that `to_dict` wrote, or that a person wrote by hand: what is left out keeps its default."""
    if not isinstance(data, dict) or not isinstance(data.get("is"), str):
        raise UserError(
            f'a task is an object that says what it "is", such as {{"is": "Images"}}; this is {_short(data)}'
        )
    if data["is"] not in TASKS:
        known = nearest(data["is"], TASKS) or f"; known tasks: {', '.join(TASKS)}"
        raise UserError(f'"is": {_short(data["is"])} is no task{known}')
    task: Task = _record(data, "task")
    return task


def _record(value: Any, where: str) -> Any:
    if isinstance(value, list):
        return tuple(_record(item, f"{where}[{i}]") for i, item in enumerate(value))
    if not isinstance(value, dict):
        return value
    known = TASKS | PARTS if where == "task" else PARTS
    name = value.get("is")
    if not isinstance(name, str) or name not in known:
        raise UserError(f'{where}: "is": {_short(name)} is no record; known: {", ".join(known)}')
    kind = known[name]
    wanted = {field.name: field for field in fields(kind)}
    for given in value:
        if given != "is" and given not in wanted:
            hint = nearest(given, wanted) or f"; it has {', '.join(wanted)}"
            raise UserError(f"{where} ({name}) has no field {given!r}{hint}")
    missing = [n for n, f in wanted.items() if n not in value and f.default is MISSING and f.default_factory is MISSING]
    if missing:
        raise UserError(f"{where} ({name}) lacks {', '.join(missing)}")
    return kind(**{given: _record(item, f"{where}.{given}") for given, item in value.items() if given != "is"})


def _short(value: Any) -> str:
    return json.dumps(value, default=str)[:80]
