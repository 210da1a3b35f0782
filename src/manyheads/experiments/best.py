"""One design at several settings, judged at its best: chosen on one seed, compared on the others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Values = Mapping[int, float]


@dataclass(frozen=True)
class Best:
    """`name` stands for whichever of `arms` does best at the seed that chooses."""

    name: str
    arms: tuple[str, ...]


def chosen(best: Best, found: Mapping[str, Values], better: Literal["up", "down"]) -> tuple[str, dict[int, float]]:
    """The arm that is best at the lowest seed that all finished arms have, and its values at the other seeds: a seed
    that chose says nothing about the choice. Nothing where no arm has finished, or no seed is shared."""
    known = {arm: found[arm] for arm in best.arms if found.get(arm)}
    shared = set.intersection(*(set(values) for values in known.values())) if known else set()
    if not shared:
        return "", {}
    seed = min(shared)
    pick = max if better == "up" else min
    arm = pick(known, key=lambda name: known[name][seed])  # of equals the first
    return arm, {other: value for other, value in known[arm].items() if other != seed}
