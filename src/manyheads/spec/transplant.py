"""`Transplant`: how a model was made from the weights of another one, step by step, so that it can be made again.

    Fold(groups)           consecutive layers become one layer that has all their heads and all their MLP units
    Drop(layers)           layers are left out
    AddHeads(layer, ...)   a layer gets more heads, which add nothing to its output until they are trained
    Cut(layer, ...)        heads and MLP units are removed
    Pad()                  all layers get the same number of heads and MLP units; what is added is zero

Layers, heads and units are counted from 0, and a step counts those of the model that the step before it left.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from .arch import Arch
from .errors import UserError
from .field_checks import between, check_types, whole
from .serialise import arch_from_dict, tagged, to_dict

SCHEMA = 1


class TransplantStep:
    """One change of a model that keeps trained weights. In a file it says what it `is`."""


@dataclass(frozen=True)
class Fold(TransplantStep):
    """Every group of consecutive layers becomes one layer: attentions side by side, then MLPs side by side. The other
    layers stay as they are."""

    groups: tuple[tuple[int, ...], ...]

    def __post_init__(self) -> None:
        check_types(self, "Fold")
        for group in self.groups:
            if len(group) < 2 or list(group) != list(range(group[0], group[0] + len(group))):
                raise UserError(f"Fold.groups has {list(group)}; write two or more consecutive layers, such as 4, 5")
        _increasing("Fold.groups", [number for group in self.groups for number in group])


@dataclass(frozen=True)
class Drop(TransplantStep):
    """These layers are left out."""

    layers: tuple[int, ...]

    def __post_init__(self) -> None:
        check_types(self, "Drop")
        _increasing("Drop.layers", self.layers)


@dataclass(frozen=True)
class AddHeads(TransplantStep):
    """`layer` gets `heads` more heads, whose columns of the output projection are zero. Their queries, keys and values
    are copies of those of the layer `of`, one head after another; where `of` is None, they are drawn from `seed`."""

    layer: int
    heads: int
    of: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        check_types(self, "AddHeads")
        whole("AddHeads.heads", self.heads)
        for name, value in (("layer", self.layer), ("of", self.of or 0), ("seed", self.seed)):
            between(f"AddHeads.{name}", value, 0, whole=True)


@dataclass(frozen=True)
class Cut(TransplantStep):
    """These heads and MLP units of `layer` are removed."""

    layer: int
    heads: tuple[int, ...] = ()
    units: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        check_types(self, "Cut")
        between("Cut.layer", self.layer, 0, whole=True)
        if not self.heads and not self.units:
            raise UserError(f"Cut of layer {self.layer} removes nothing; write heads, units or both")
        for name, values in (("heads", self.heads), ("units", self.units)):
            if values:
                _increasing(f"Cut.{name}", values)


@dataclass(frozen=True)
class Pad(TransplantStep):
    """Every layer gets the number of heads and of MLP units that the largest one has."""


STEPS: dict[str, type[TransplantStep]] = {kind.__name__: kind for kind in (Fold, Drop, AddHeads, Cut, Pad)}


@dataclass(frozen=True)
class Transplant:
    """What was done to which model. `source` is its record, `sha256` that of its weights file or files."""

    source: Arch
    sha256: str
    steps: tuple[TransplantStep, ...] = ()
    schema: int = field(default=SCHEMA)

    def __post_init__(self) -> None:
        if not isinstance(self.source, Arch):
            raise UserError(f"Transplant.source is a {type(self.source).__name__}; write the Arch of the trained model")
        if not isinstance(self.sha256, str) or not all(letter in "0123456789abcdef" for letter in self.sha256):
            raise UserError(
                f"Transplant.sha256 is {str(self.sha256)[:80]!r}; write the hexadecimal sha256 of the weights"
            )
        for step in self.steps:
            if not isinstance(step, TransplantStep):
                raise UserError(f"Transplant.steps holds a {type(step).__name__}; write {', '.join(STEPS)}")

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON values, schema first."""
        steps = [{"is": type(step).__name__} | to_dict(step) for step in self.steps]
        return {"schema": self.schema, "source": to_dict(self.source), "sha256": self.sha256, "steps": steps}

    @classmethod
    def from_dict(cls, data: Any) -> Transplant:
        """The transplant that `to_dict` gave; what is wrong or missing is named."""
        if not isinstance(data, dict) or not {"schema", "source", "sha256", "steps"} <= data.keys():
            raise UserError("this is not the record of a transplant: it needs schema, source, sha256 and steps")
        if data["schema"] != SCHEMA:
            raise UserError(
                f"the transplant has schema {data['schema']!r}, and this version reads {SCHEMA}; a newer manyheads "
                "wrote it?"
            )
        if not isinstance(data["steps"], list):
            raise UserError("the transplant's steps are no list; write one object for each step")
        return cls(arch_from_dict(data["source"]), data["sha256"], tuple(map(step_from_dict, data["steps"])))


def step_from_dict(data: Any) -> TransplantStep:
    """The step in a JSON object that says what it `is`."""
    if not isinstance(data, dict):
        raise UserError(f'a step is an object that says what it "is", one of {", ".join(STEPS)}')
    step: TransplantStep = tagged(STEPS, data, "step", "no step")
    return step


def _increasing(name: str, numbers: Iterable[int]) -> None:
    """Refuse what is not a list of whole numbers from 0 up, each larger than the one before."""
    listed = list(numbers)
    if not listed or listed[0] < 0 or any(a >= b for a, b in pairwise(listed)):
        raise UserError(f"{name} is {listed[:8]}; write numbers from 0 up, in order, none twice")
