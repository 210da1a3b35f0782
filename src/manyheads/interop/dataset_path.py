"""`--data PATH`: the dataset that a path stands for."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class NamedDataset:
    """A dataset by the name that a task's `data` takes, and further fields of the task that follow from it."""

    name: str
    fields: dict[str, Any] = field(default_factory=dict)


def named_dataset(data: str, root: Path | None, tokenizer: str | None) -> NamedDataset:
    """The dataset called `data`."""
    return NamedDataset(data)
