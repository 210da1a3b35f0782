"""What a warning is made of: a `Remark` (a code for machines, a sentence for people, the numbers in it), and rules that
say for which designs a warning holds and how it is worded."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from .design_facts import Facts, StageFacts

Level = Literal["reason", "caution", "serious"]


@dataclass(frozen=True)
class Remark:
    """One reason for a design or warning about it. A `serious` warning says that an argument for it does not hold."""

    code: str
    words: str
    numbers: Mapping[str, float | str] = field(default_factory=dict)
    level: Level = "reason"


Bools = NDArray[np.bool_]
Said = tuple[str, Mapping[str, float | str]]  # a sentence and the numbers in it


@dataclass(frozen=True)
class StageRule:
    """A warning about one stage. It holds for a design if it holds for any of its stages; its words are about the
    first of them."""

    code: str
    level: Level
    where: Callable[[StageFacts], Bools]
    words: Callable[[StageFacts, int], Said]

    def holds(self, facts: Facts) -> Bools:
        """For which designs the warning holds."""
        return np.asarray(np.any([self.where(stage) for stage in facts.stages], axis=0))

    def remark(self, facts: Facts, i: int) -> Remark:
        """The warning for design number `i`."""
        stages = [stage for stage in facts.stages if self.where(stage)[i]]
        words, numbers = self.words(stages[0], i)
        more = f" (so in {len(stages)} stages)" if len(stages) > 1 else ""
        return Remark(self.code, f"{stages[0].label}{words}{more}", numbers, self.level)


@dataclass(frozen=True)
class WholeRule:
    """A warning about a design as a whole."""

    code: str
    level: Level
    where: Callable[[Facts], Bools]
    words: Callable[[Facts, int], Said]

    def holds(self, facts: Facts) -> Bools:
        """For which designs the warning holds."""
        return self.where(facts)

    def remark(self, facts: Facts, i: int) -> Remark:
        """The warning for design number `i`."""
        words, numbers = self.words(facts, i)
        return Remark(self.code, words, numbers, self.level)


Rule = StageRule | WholeRule


def never(count: int) -> Bools:
    """For no design."""
    return np.zeros(count, bool)
