"""How a task is carried out. A task is a record (`spec.task`); opened on a device, it is a `Work` that gives batches.

    task = Images("cifar10", augment=Augment(crop=4, flip=True))
    check(task, arch)
    work = open_task(task, device, seed, batch)
    loss = work.loss(model, *work.batch(step, range(batch)))

Python chooses each of these functions by the type of the record. To add a task of your own, register its record with
`spec.task_kinds.register` and a function that opens it with `open_task.register`.
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
        """Samples on which the headline metric is computed."""

    @property
    def better(self) -> tuple[str, str]:
        """The headline metric, and whether it should go "up" or "down"."""

    @property
    def waited(self) -> float:
        """Seconds that `batch` has waited for data; 0 where all data is on the device."""

    def batch(self, step: int, rows: range) -> tuple[Tensor, ...]:
        """Rows of global batch `step`, on the device: a function of seed, step and row. Shapes and dtypes are fixed."""

    def loss(self, model: nn.Module, *batch: Tensor) -> Tensor:
        """Mean over the rows. Calls `model` once and depends on tensors alone, so that it can be compiled and
        captured."""

    def tally(self, model: nn.Module, share: tuple[int, int]) -> dict[str, Tensor]:
        """Part share[0] of share[1] of the evaluation: float64 sums, to be added over the parts. Each part calls the
        model equally often, as sharded models need."""

    def score(self, tally: dict[str, Tensor]) -> dict[str, float]:
        """Metrics of the summed tally; `loss` is always one of them."""

    def probe_batch(self, size: int) -> Any:
        """Held-out inputs for the probe: the same every time, without augmentation."""

    def trivial(self) -> dict[str, float]:
        """The scores of a constant guess."""


@singledispatch
def check(task: Task, arch: Arch) -> None:
    """Refuse a model that does not fit the task: image size, channels, classes, vocabulary, head."""


@singledispatch
def fit(task: Task, arch: Arch) -> Arch:
    """`arch` with the embedding and head that the task asks for; unchanged where a task registers no function."""
    return arch


@singledispatch
def remark(task: Task) -> str:
    """What somebody who trains this task should know about its record; "" where there is nothing."""
    return ""


@singledispatch
def open_task(task: Task, device: torch.device, seed: int, batch: int, *, root: Path | None = None) -> Work:
    """The task opened on `device`; data is read below `root` (see `data.local_data`)."""
    raise UserError(
        f"{type(task).__name__} has no batches: nothing is trained; use tasks.measure, or run it with `manyheads train`"
    )


def shares(count: int, most: int, share: tuple[int, int]) -> Iterator[tuple[Indices, Bool[np.ndarray, " rows"]]]:
    """The evaluation steps of part share[0] of share[1]: at most `most` sample numbers each, and which of them count.

    The last steps are filled up with samples that do not count: every part then calls the model equally often with
    equal shapes, as sharded models need."""
    part, parts = share
    rows = max(1, min(most, math.ceil(count / parts)))
    for step in range(math.ceil(count / (rows * parts))):
        numbers = (step * parts + part) * rows + np.arange(rows)
        yield numbers.clip(max=count - 1), numbers < count


def check_probe(size: int, held_out: int, samples: str) -> None:
    """Refuse a probe on more samples than are held out."""
    if size > held_out:
        raise UserError(f"a probe on {size} {samples}: {held_out} are held out; write at most that many")


def wrong_input(data: str, arch: Arch, example: str) -> UserError:
    """The refusal of a model that reads another kind of input than `data`, a clause, describes."""
    return UserError(f"{data} and a {arch.family} model reads {type(arch.embed).__name__} input; take {example}")
