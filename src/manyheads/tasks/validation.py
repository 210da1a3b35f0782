"""Scores on two sets of samples: those held out, and the validation samples, by which rates and checkpoints are chosen.

A task with `validation` > 0 keeps a share of its training samples out of training. Its work has a second work, which
evaluates on them, and its scores have each metric twice: `top1` on the held-out samples, `valid_top1` on these."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self, TypeVar

from torch import Tensor, nn

VALID = "valid_"  # begins the name of a score on the validation samples
T = TypeVar("T")


def as_valid(values: Mapping[str, T]) -> dict[str, T]:
    """The same values under the names that they have for the validation samples."""
    return {f"{VALID}{name}": value for name, value in values.items()}


@dataclass(eq=False)
class Validated:
    """The part of a `Work` that evaluates. A subclass evaluates on its held-out samples (`sums`, `metrics`, `guess`);
    `validation` is the same work with the validation samples in their place, or None."""

    validation: Self | None = field(default=None, kw_only=True)

    def sums(self, model: nn.Module, share: tuple[int, int]) -> dict[str, Tensor]:
        """Sums over part share[0] of share[1] of the held-out samples."""
        raise NotImplementedError

    def metrics(self, sums: dict[str, Tensor]) -> dict[str, float]:
        """The metrics that follow from the sums of all parts."""
        raise NotImplementedError

    def guess(self) -> dict[str, float]:
        """The metrics of a constant guess."""
        raise NotImplementedError

    def tally(self, model: nn.Module, share: tuple[int, int] = (0, 1)) -> dict[str, Tensor]:
        """Sums over part share[0] of share[1] of the held-out samples and of the validation samples."""
        kept = {} if self.validation is None else self.validation.sums(model, share)
        return self.sums(model, share) | as_valid(kept)

    def score(self, tally: dict[str, Tensor]) -> dict[str, float]:
        """Each metric on the held-out samples, and with `valid_` before its name on the validation samples."""
        own = {name: value for name, value in tally.items() if not name.startswith(VALID)}
        if self.validation is None:
            return self.metrics(own)
        kept = {name.removeprefix(VALID): value for name, value in tally.items() if name not in own}
        return self.metrics(own) | as_valid(self.validation.metrics(kept))

    def trivial(self) -> dict[str, float]:
        """The scores of a constant guess."""
        return self.guess() | as_valid({} if self.validation is None else self.validation.guess())
