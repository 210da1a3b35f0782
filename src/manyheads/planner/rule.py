"""One warning as a rule: for which designs it holds, and in words why."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .facts import Facts, StageFacts
from .notes import Level, Note

Bools = NDArray[np.bool_]
Said = tuple[str, Mapping[str, float | str]]  # a sentence and the numbers in it


@dataclass(frozen=True)
class StageRule:
    """A warning about one stage: it holds for a design where it holds for any of its stages, and speaks of the
    first."""

    code: str
    level: Level
    where: Callable[[StageFacts], Bools]
    words: Callable[[StageFacts, int], Said]

    def holds(self, facts: Facts) -> Bools:
        """For which designs."""
        return np.asarray(np.any([self.where(stage) for stage in facts.stages], axis=0))

    def note(self, facts: Facts, i: int) -> Note:
        """The warning for design number `i`."""
        stages = [stage for stage in facts.stages if self.where(stage)[i]]
        words, numbers = self.words(stages[0], i)
        more = f" (so in {len(stages)} stages)" if len(stages) > 1 else ""
        return Note(self.code, f"{stages[0].label}{words}{more}", numbers, self.level)


@dataclass(frozen=True)
class WholeRule:
    """A warning about a design as a whole."""

    code: str
    level: Level
    where: Callable[[Facts], Bools]
    words: Callable[[Facts, int], Said]

    def holds(self, facts: Facts) -> Bools:
        """For which designs."""
        return self.where(facts)

    def note(self, facts: Facts, i: int) -> Note:
        """The warning for design number `i`."""
        words, numbers = self.words(facts, i)
        return Note(self.code, words, numbers, self.level)


Rule = StageRule | WholeRule


def never(count: int) -> Bools:
    """For no design."""
    return np.zeros(count, bool)
