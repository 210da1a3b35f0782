"""What is found out about a model without training it, as a task: it has a run folder, a seed and a score like any
other.

`train` carries it out: one call of `measure`, its findings the result. A seed draws other inputs or times again.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from manyheads.spec.arch import Arch
from manyheads.spec.errors import UserError

from .task import Work


@dataclass(frozen=True)
class Findings:
    """Scores by name, which of them is the headline and which way is better; records as a probe writes them."""

    score: dict[str, float]
    better: tuple[str, str]
    spectra: list[dict[str, Any]] = field(default_factory=list)


@dataclass(frozen=True)
class Measurement(ABC):
    """A task with nothing to learn."""

    def check(self, arch: Arch) -> None:  # noqa: B027  # most take any model
        """Refuse a model that cannot be measured so."""

    @abstractmethod
    def measure(self, arch: Arch, seed: int, device: torch.device) -> Findings:
        """Everything there is to find out."""

    def open(self, device: torch.device, seed: int, batch: int, *, root: Path | None = None) -> Work:
        """There is no work in it."""
        raise UserError(
            f"{type(self).__name__} is measured and has no batches; call `measure`, or train the run it is in"
        )
