"""What a task owes the training loop: a `Task` is plain data, and opened on a device it is a `Work` that gives batches.

task = Images("cifar10", augment=Augment(crop=4, flip=True))
task.check(arch)
work = task.open(device, seed, batch)
loss = work.loss(model, *work.batch(step, range(batch)))
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar, Protocol

import torch
from torch import Tensor, nn

from manyheads.spec.arch import Arch


class Work(Protocol):
    """A task with its data on a device, for one seed and one global batch size."""

    @property
    def unit(self) -> str:
        """What a sample is measured in: "images" or "tokens"."""

    @property
    def per_sample(self) -> int:
        """Units in one sample."""

    @property
    def samples(self) -> int | None:
        """Samples in an epoch; None where data never repeats."""

    @property
    def held_out(self) -> int:
        """Samples that the headline metric is taken over."""

    @property
    def better(self) -> tuple[str, str]:
        """The headline metric, and whether it should go "up" or "down"."""

    @property
    def waited(self) -> float:
        """Seconds that `batch` stood still for data that was not there yet; 0 where data lives on the device."""

    def batch(self, step: int, rows: range) -> tuple[Tensor, ...]:
        """Rows of global batch `step`, on the device: a function of seed, step and row, of fixed shapes and dtypes."""

    def loss(self, model: nn.Module, *batch: Tensor) -> Tensor:
        """Mean over the rows. Calls `model` once; a function of tensors, so that it can be compiled and captured."""

    def tally(self, model: nn.Module, share: tuple[int, int]) -> dict[str, Tensor]:
        """Part share[0] of share[1] of the evaluation: float64 sums, to be added up over the parts. Each part calls the
        model equally often, as sharded models need."""

    def score(self, tally: dict[str, Tensor]) -> dict[str, float]:
        """Metrics of the summed tally, `loss` always among them."""

    def probe_batch(self, size: int) -> Any:
        """The same held-out inputs every time, not augmented."""

    def trivial(self) -> dict[str, float]:
        """What a constant guess scores."""


class Task(Protocol):
    """What a model is trained to do: a frozen dataclass, saved through `tasks.to_dict`."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    def check(self, arch: Arch) -> None:
        """Refuse a model that does not fit: image size, channels, classes, vocabulary, head."""

    def open(self, device: torch.device, seed: int, batch: int, *, root: Path | None = None) -> Work:
        """The work on `device`; data is looked for below `root` (see `data.local_data`)."""
