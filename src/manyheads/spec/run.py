"""What a run is: architecture, task, recipe and seed, and the id that is their hash."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from manyheads.spec.files import canonical, plain
from manyheads.spec.task_kinds import task_from_dict

from .arch import Arch
from .errors import UserError, nearest
from .field_checks import shown
from .files import SCHEMA, upgrade
from .measurements import Measurement
from .recipe import Recipe
from .serialise import arch_from_dict, from_dict, to_dict
from .task import Task

# What decides the numbers of a run; its label does not. The weights are written and hashed where a run states them alone.
HASHED = ("schema", "arch", "task", "recipe", "seed")
WEIGHTS = "weights"
SEEDS = 2**63  # a seed is below this


@dataclass(frozen=True)
class RunSpec:
    """One training run, exactly: the same specification gives the same numbers.

    `label` says what the run is for (experiment, arm, scale) and is not in the id. `weights` is the sha256 of the
    weights that training starts from, and empty for random ones; a task with a field of its own for them (`Glue`)
    states them there."""

    arch: Arch
    task: Task
    recipe: Recipe
    seed: int
    label: dict[str, Any] = field(default_factory=dict)
    weights: str = ""

    def __post_init__(self) -> None:
        for name, kind in (("arch", Arch), ("task", Task), ("recipe", Recipe)):
            if not isinstance(getattr(self, name), kind):
                raise UserError(
                    f"{name} is a {type(getattr(self, name)).__name__}; write a {kind.__name__}, or read plain JSON "
                    "values with RunSpec.from_dict"
                )
        if type(self.seed) is not int or not 0 <= self.seed < SEEDS:
            raise UserError(f"seed {shown(self.seed)}: write a whole number of at least 0 and below 2^63")
        if not isinstance(self.label, dict):
            raise UserError(f"label is a {type(self.label).__name__}; write a JSON object")
        self._check_weights()
        # a copy: nobody edits a specification later
        object.__setattr__(self, "label", plain(self.label, "label", gaps=False))

    def _check_weights(self) -> None:
        if self.weights == "":
            return
        if not isinstance(self.weights, str) or not re.fullmatch("[0-9a-f]{64}", self.weights):
            raise UserError(
                f"weights is {shown(self.weights)}; write the sha256 of a model.safetensors, or leave it out"
            )
        kind = type(self.task).__name__
        if isinstance(self.task, Measurement):
            raise UserError(f"weights were stated for the task {kind}, which trains nothing; leave them out")
        if self.task.starts_from is not None:
            raise UserError(f"{kind} states the weights that it starts from itself; write them in task.weights")

    def __hash__(self) -> int:
        return hash((self.arch, self.seed))

    @property
    def starts_from(self) -> str | None:
        """The weights that training starts from: their sha256, `scratch` for random weights, or "" if a task that
        fine-tunes does not state them yet. None for a run from random weights."""
        return self.task.starts_from if self.task.starts_from is not None else self.weights or None

    @property
    def id(self) -> str:
        """16 hexadecimal digits: the hash of everything but the label, every field stated.

        A run folder keeps the id that it was written with. Experiments once wrote only the fields that they stated;
        such a folder's own id (`runs.Run.id`) differs from this one, and it is the same run."""
        stated = {WEIGHTS: _canonical(json.dumps(self.weights))} if self.weights else {}
        records = {name: _text(getattr(self, name)) for name in RECORDS}
        return _digest({"schema": str(SCHEMA), "seed": str(self.seed)} | records | stated)

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON values, schema first."""
        records = {name: to_dict(getattr(self, name)) for name in RECORDS}
        stated = {WEIGHTS: self.weights} if self.weights else {}
        return {"schema": SCHEMA} | records | {"seed": self.seed} | stated | {"label": self.label}

    @classmethod
    def from_dict(cls, data: Any) -> RunSpec:
        """The specification that `to_dict` gave or that a person wrote; wrong and missing fields are named. An `id`, if
        there is one, has to be the hash of the rest."""
        if not isinstance(data, dict) or "schema" not in data or "arch" not in data:
            raise UserError("this is not the specification of a run: it has no `schema` and `arch`")
        written_id, upgraded = data.get("id"), upgrade("spec.json", data)
        fields = (*HASHED, WEIGHTS, "label", "id")
        for name in upgraded:
            if name not in fields:
                raise UserError(f"the specification has no field {name!r}{nearest(name, fields)}")
        missing = [name for name in HASHED if name not in upgraded]
        if missing:
            raise UserError(f"the specification lacks {', '.join(missing)}")
        try:
            found = None if written_id is None else digest(data)
            texts = {name: json.dumps(upgraded[name]) for name in RECORDS}
        except (ValueError, TypeError, RecursionError) as error:
            raise UserError(f"the specification holds what JSON cannot: {error}") from None
        if written_id != found:
            raise UserError(
                f"the specification was changed after it was written: its id is {written_id!r}, and its content "
                f"gives {found!r}; start a new run for another specification"
            )
        records = {name: _record(name, text) for name, text in texts.items()}
        stated = {name: upgraded[name] for name in ("label", WEIGHTS) if name in upgraded}
        return cls(**records, seed=upgraded["seed"], **stated)


RECORDS = ("arch", "task", "recipe")


def digest(data: dict[str, Any]) -> str:
    """The id of a specification as it is written, of whatever schema."""
    names = (*HASHED, WEIGHTS) if data.get(WEIGHTS) else HASHED
    return _digest({name: _canonical(json.dumps(data.get(name))) for name in names})


def _digest(texts: dict[str, str]) -> str:
    parts = ",".join(f'"{name}":{texts[name]}' for name in sorted(texts))
    return hashlib.sha256(f"{{{parts}}}".encode()).hexdigest()[:16]


# Thousands of runs share a few architectures, tasks and recipes, and these cost more than reading the file.
@lru_cache(maxsize=4096)
def _record(name: str, text: str) -> Any:
    data = json.loads(text)
    match name:
        case "arch":
            return arch_from_dict(data)
        case "task":
            return task_from_dict(data)
        case _:
            return from_dict(Recipe, data, "recipe")


@lru_cache(maxsize=4096)
def _text(record: Arch | Task | Recipe) -> str:
    return canonical(to_dict(record))


@lru_cache(maxsize=4096)
def _canonical(text: str) -> str:
    return canonical(json.loads(text))


def differences(there: Any, here: Any, where: str = "") -> Iterator[str]:
    """Where two specifications differ, in words."""
    if isinstance(there, dict) and isinstance(here, dict):
        for name in sorted(there.keys() | here.keys()):
            yield from differences(there.get(name), here.get(name), f"{where}.{name}" if where else name)
    elif isinstance(there, list) and isinstance(here, list) and len(there) == len(here):
        for i, pair in enumerate(zip(there, here, strict=True)):
            yield from differences(*pair, f"{where}[{i}]")
    elif canonical(there) != canonical(here):
        yield f"{where} is {_short(there)} there and {_short(here)} here"


def _short(value: Any) -> str:
    text = canonical(value)
    return text if len(text) <= 40 else text[:37] + "..."
