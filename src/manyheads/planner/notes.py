"""A reason or a warning as a record: a code for machines, a sentence for people, the numbers behind it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Level = Literal["reason", "caution", "serious"]


@dataclass(frozen=True)
class Note:
    """One thing to know about a design. `serious` warnings say that an argument for the redesign does not hold."""

    code: str
    words: str
    numbers: Mapping[str, float | str] = field(default_factory=dict)
    level: Level = "reason"
