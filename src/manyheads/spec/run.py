"""What a run is: architecture, task, recipe and seed, and the id that is their hash."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from . import serialise as record
from .arch import Arch
from .errors import UserError, nearest
from .files import SCHEMA, upgrade
from .values import canonical, plain

HASHED = ("schema", "arch", "task", "recipe", "seed")  # what decides the numbers of a run; its label does not


@dataclass(frozen=True)
class RunSpec:
    """One training run, exactly: the same specification gives the same numbers. `task` and `recipe` are JSON objects
    that belong to the rooms which read them; `label` says what the run is for (experiment, arm, scale) and is not in
    the id."""

    arch: Arch
    task: dict[str, Any]
    recipe: dict[str, Any]
    seed: int
    label: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.arch, Arch):
            raise UserError(f"arch is a {type(self.arch).__name__}; write an Arch")
        if type(self.seed) is not int or self.seed < 0:
            raise UserError(f"seed {self.seed!r}: write a whole number of at least 0")
        for name in ("task", "recipe", "label"):
            value = getattr(self, name)
            if not isinstance(value, dict):
                raise UserError(f"{name} is a {type(value).__name__}; write a JSON object")
            object.__setattr__(self, name, plain(value, name, gaps=False))  # a copy: nobody edits a specification later

    def __hash__(self) -> int:
        return hash((self.arch, self.seed))

    @property
    def id(self) -> str:
        """16 hexadecimal digits: the hash of everything but the label."""
        return digest(self.to_dict())

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON values, schema first."""
        return {
            "schema": SCHEMA,
            "arch": record.to_dict(self.arch),
            "task": self.task,
            "recipe": self.recipe,
            "seed": self.seed,
            "label": self.label,
        }

    @classmethod
    def from_dict(cls, data: Any) -> RunSpec:
        """The specification that `to_dict` gave or that a person wrote; wrong and missing fields are named. An `id`, if
        there is one, has to be the hash of the rest."""
        if not isinstance(data, dict) or "schema" not in data or "arch" not in data:
            raise UserError("this is not the specification of a run: it has no `schema` and `arch`")
        told, upgraded = data.get("id"), upgrade("spec.json", data)
        known = (*HASHED, "label", "id")
        for name in upgraded:
            if name not in known:
                raise UserError(f"the specification has no field {name!r}{nearest(name, known)}")
        missing = [name for name in HASHED if name not in upgraded]
        if missing:
            raise UserError(f"the specification lacks {', '.join(missing)}")
        if told is not None and told != digest(data):
            raise UserError(
                f"the specification was changed after it was written: its id is {told!r}, and its content "
                f"gives {digest(data)!r}; start a new run for another specification"
            )
        return cls(
            _arch(json.dumps(upgraded["arch"])),
            upgraded["task"],
            upgraded["recipe"],
            upgraded["seed"],
            upgraded.get("label", {}),
        )


def digest(data: dict[str, Any]) -> str:
    """The id of a specification as it is written, of whatever schema."""
    parts = (f'"{name}":{_canonical(json.dumps(data.get(name)))}' for name in sorted(HASHED))
    return hashlib.sha256(f"{{{','.join(parts)}}}".encode()).hexdigest()[:16]


# Thousands of runs share a few architectures, tasks and recipes, and these cost more than reading the file.
@lru_cache(maxsize=1024)
def _arch(text: str) -> Arch:
    return record.from_dict(json.loads(text))


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
