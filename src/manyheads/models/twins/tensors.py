"""One tensor of ours, one or more of its twin's, and how either becomes the other."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from manyheads.spec.errors import UserError


class Conversion(ABC):
    """How a tensor of ours is made of its twin's, and the other way round."""

    __slots__ = ()

    @abstractmethod
    def into(self, theirs: Sequence[Tensor]) -> Tensor:
        """Our tensor."""

    @abstractmethod
    def back(self, ours: Tensor) -> list[Tensor]:
        """The twin's tensors."""


@dataclass(frozen=True, slots=True)
class Copy(Conversion):
    """The same tensor."""

    def into(self, theirs: Sequence[Tensor]) -> Tensor:
        """The twin's tensor, unchanged."""
        return theirs[0]

    def back(self, ours: Tensor) -> list[Tensor]:
        """Our tensor, unchanged."""
        return [ours]


@dataclass(frozen=True, slots=True)
class Transpose(Conversion):
    """The transposed matrix (GPT-2 keeps its linear maps as input x output)."""

    def into(self, theirs: Sequence[Tensor]) -> Tensor:
        """Output x input."""
        return theirs[0].T.contiguous()

    def back(self, ours: Tensor) -> list[Tensor]:
        """Input x output."""
        return [ours.T.contiguous()]


@dataclass(frozen=True, slots=True)
class Stack(Conversion):
    """Several tensors there, one below the other here (queries, keys, values); `sizes` are their rows."""

    sizes: tuple[int, ...]

    def into(self, theirs: Sequence[Tensor]) -> Tensor:
        """One tensor of all rows."""
        return torch.cat(list(theirs), dim=0)

    def back(self, ours: Tensor) -> list[Tensor]:
        """The rows apart again."""
        return [part.contiguous() for part in ours.split(self.sizes, dim=0)]


@dataclass(frozen=True, slots=True)
class Reordered(Conversion):
    """The rows that `how` gives, in another order: row i here is row `order[i]` there."""

    how: Conversion
    order: tuple[int, ...]

    def into(self, theirs: Sequence[Tensor]) -> Tensor:
        """The rows in our order."""
        return self.how.into(theirs)[list(self.order)]

    def back(self, ours: Tensor) -> list[Tensor]:
        """The rows in the twin's order."""
        theirs = torch.empty_like(ours)
        theirs[list(self.order)] = ours
        return self.how.back(theirs)


@dataclass(frozen=True, slots=True)
class Shape(Conversion):
    """The same numbers in another shape (a convolution's weights as a matrix, a leading 1 dropped)."""

    ours: tuple[int, ...]
    theirs: tuple[int, ...]

    def into(self, theirs: Sequence[Tensor]) -> Tensor:
        """The twin's tensor in our shape."""
        return theirs[0].reshape(self.ours)

    def back(self, ours: Tensor) -> list[Tensor]:
        """Our tensor in the twin's shape."""
        return [ours.reshape(self.theirs)]


@dataclass(frozen=True, slots=True)
class Rows(Conversion):
    """Tensors of shape 1 x 1 x width there, rows of one tensor here (class and distillation token)."""

    count: int

    def into(self, theirs: Sequence[Tensor]) -> Tensor:
        """One row each."""
        return torch.cat([t.reshape(1, -1) for t in theirs])

    def back(self, ours: Tensor) -> list[Tensor]:
        """Each row apart, with its leading ones."""
        return [row.reshape(1, 1, -1).contiguous() for row in ours]


@dataclass(frozen=True, slots=True)
class SkipRows(Conversion):
    """The rows after the first `count` ones, which the twin has and never reads; on the way back these are 0."""

    count: int

    def into(self, theirs: Sequence[Tensor]) -> Tensor:
        """The twin's tensor without those rows."""
        return theirs[0][self.count :].contiguous()

    def back(self, ours: Tensor) -> list[Tensor]:
        """Our tensor behind rows of 0."""
        return [torch.cat((ours.new_zeros(self.count, *ours.shape[1:]), ours))]


@dataclass(frozen=True, slots=True)
class TwinTensor:
    """`ours` is made of `theirs`, `how` says how. `reads` are further tensors of the twin that go into ours and have
    entries of their own; `how` is given them after `theirs`, and on the way back makes `theirs` alone."""

    ours: str
    theirs: tuple[str, ...]
    how: Conversion = Copy()
    reads: tuple[str, ...] = ()


def same(ours: str, theirs: str, names: Sequence[str] = ("weight", "bias")) -> list[TwinTensor]:
    """The tensors of one module that is alike on both sides."""
    return [TwinTensor(f"{ours}.{name}", (f"{theirs}.{name}",)) for name in names]


def modules(ours: str, theirs: str, names: Mapping[str, str]) -> list[TwinTensor]:
    """`same` for each module inside `ours` whose name inside `theirs` the mapping gives."""
    return [tensor for mine, its in names.items() for tensor in same(f"{ours}.{mine}", f"{theirs}.{its}")]


def stacked(ours: str, theirs: Sequence[str], sizes: Sequence[int], *, bias: bool = True) -> list[TwinTensor]:
    """One linear map here whose rows, in groups of `sizes`, are several linear maps there."""
    names = ("weight", "bias") if bias else ("weight",)
    stack = Stack(tuple(sizes))
    return [TwinTensor(f"{ours}.{name}", tuple(f"{part}.{name}" for part in theirs), stack) for name in names]


def into(entries: Sequence[TwinTensor], theirs: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """A twin's state as ours. A tensor that is missing there, or left over, is an error that names it."""
    names = {name for entry in entries for name in entry.theirs}
    missing, extra = sorted(names - theirs.keys()), sorted(theirs.keys() - names)
    if missing or extra:
        parts = [
            f"{len(tensors)} {word}: {', '.join(tensors[:4])}"
            for word, tensors in (("missing", missing), ("unknown", extra))
            if tensors
        ]
        raise UserError(f"these weights are of another architecture ({'; '.join(parts)})")
    return {entry.ours: entry.how.into([theirs[name] for name in entry.theirs + entry.reads]) for entry in entries}


def back(entries: Sequence[TwinTensor], ours: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Our state as a twin's."""
    result: dict[str, Tensor] = {}
    for entry in entries:
        result.update(zip(entry.theirs, entry.how.back(ours[entry.ours]), strict=True))
    return result
