"""What carries a task out. A task is a record (`spec.task`); opened on a device it is a `Work` that gives batches.

    task = Images("cifar10", augment=Augment(crop=4, flip=True))
    check(task, arch)
    work = open_task(task, device, seed, batch)
    loss = work.loss(model, *work.batch(step, range(batch)))

Each kind of task registers its own form of these functions, which are chosen by the record's type: a task of your own
is a record that `spec.serialise.register` knows and a function that `open_task.register` knows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import singledispatch
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from jaxtyping import Bool
from torch import Tensor, nn

from manyheads.data.randomness import Indices
from manyheads.spec.arch import Arch
from manyheads.spec.errors import UserError
from manyheads.spec.task import Task


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


@singledispatch
def check(task: Task, arch: Arch) -> None:
    """Refuse a model that does not fit the task: image size, channels, classes, vocabulary, head."""


@singledispatch
def fit(task: Task, arch: Arch) -> Arch:
    """`arch` with the embedding and head that the task asks for. Most tasks take a model as it is, or refuse it."""
    return arch


@singledispatch
def open_task(task: Task, device: torch.device, seed: int, batch: int, *, root: Path | None = None) -> Work:
    """The task at work on `device`; data is looked for below `root` (see `data.local_data`)."""
    raise UserError(f"{type(task).__name__} has no batches; `measure` measures it, as does training the run it is in")


def dealt(count: int, most: int, share: tuple[int, int]) -> Iterator[tuple[Indices, Bool[np.ndarray, " rows"]]]:
    """The steps of part share[0] of share[1]: sample numbers, at most `most`, and which of them count.

    The last steps are filled up with samples that do not count, so that every part calls a model equally often on equal
    shapes, as sharded models need."""
    part, parts = share
    rows = max(1, min(most, math.ceil(count / parts)))
    for step in range(math.ceil(count / (rows * parts))):
        wanted = (step * parts + part) * rows + np.arange(rows)
        yield wanted.clip(max=count - 1), wanted < count
