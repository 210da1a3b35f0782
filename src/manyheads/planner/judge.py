"""What speaks against a design: every rule that holds, serious ones first. Nothing is scored."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from . import cost_rules, kappa_rules, rank_rules
from .facts import Facts
from .notes import Note
from .rule import Rule

RULES: tuple[Rule, ...] = (*kappa_rules.RULES, *rank_rules.RULES, *cost_rules.RULES)


def warnings(facts: Facts, i: int = 0) -> tuple[Note, ...]:
    """Everything that speaks against design number `i`."""
    found = [rule.note(facts, i) for rule in RULES if rule.holds(facts)[i]]
    return tuple(sorted(found, key=lambda note: note.level != "serious"))


def tally(facts: Facts) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """How many serious warnings and how many cautions each design carries."""
    serious, cautions = (np.zeros(len(facts.layers), np.int64) for _ in range(2))
    for rule in RULES:
        counted = serious if rule.level == "serious" else cautions
        counted += rule.holds(facts)
    return serious, cautions
