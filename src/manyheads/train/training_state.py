"""What a checkpoint holds of a run: weights, moments, averages, the losses not yet logged, steps, samples and
seconds."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from manyheads.runs import Run
from manyheads.spec.recipe import Recipe

from . import checkpoint
from .early_end import Diverged
from .optimizer import Average, adamw, moments, prepare
from .parallel import Ranks
from .sharding import share_statistics


class Losses:
    """The loss of each of the last `every` steps, on the device. They are stored without waiting for the device and
    read when the log is due; a loss above `limit` means that training has diverged."""

    def __init__(self, every: int, limit: float, ranks: Ranks) -> None:
        self.every, self.limit, self.ranks = every, limit, ranks
        self.latest = torch.zeros(every, device=ranks.device)
        self.logged = 0  # number of steps whose losses are in the log

    def put(self, step: int, loss: Tensor) -> None:
        """Store the loss of step number `step`."""
        self.latest[step % self.every] = loss

    def mean(self, step: int, lr: float) -> float | None:
        """The mean over the steps that are not in the log, where `step` steps are made; None where all of them are.
        Raises `Diverged` with the first step that went wrong."""
        if step == self.logged:
            return None
        values = (self.ranks.sum(self.latest.clone()) / self.ranks.world).tolist()
        losses = [(index, values[index % self.every]) for index in range(self.logged, step)]
        for index, loss in losses:
            if not (math.isfinite(loss) and loss <= self.limit):
                raise Diverged(index, loss, self.limit, lr)
        return math.fsum(loss for _, loss in losses) / len(losses)


@dataclass
class TrainingState:
    """The state of training in one process. It holds no random state: random numbers are functions of the step."""

    run: Run
    ranks: Ranks
    model: nn.Module
    optimizer: torch.optim.Optimizer
    average: Average | None
    losses: Losses
    step: int = 0
    on_device: int | None = 1  # the largest number of runs that shared the device; None where nobody knows
    samples: int = 0  # samples seen, counted only where the batch grows; otherwise they follow from the steps

    @classmethod
    def new(cls, run: Run, recipe: Recipe, ranks: Ranks, model: nn.Module, limit: float = math.inf) -> TrainingState:
        """The state before the first step of `model`; `limit` as in `Losses`."""
        average = Average(model, recipe.ema) if recipe.ema else None
        return cls(
            run=run,
            ranks=ranks,
            model=model,
            optimizer=adamw(model, recipe),
            average=average,
            losses=Losses(recipe.log_every, limit, ranks),
        )

    def tensors(self) -> dict[str, Tensor]:
        """Everything a checkpoint stores, by name; under FSDP each process's shard of it."""
        tensors = {f"model.{name}": tensor for name, tensor in self.model.state_dict().items()}
        tensors |= moments(self.model, self.optimizer)
        if self.average is not None:
            tensors |= {f"ema.{name}": tensor for name, tensor in self.average.weights.items()}
        return tensors

    def save(self, elapsed: float) -> None:
        """Write a checkpoint of this moment."""
        run, sizes = self.run, checkpoint.Sizes(0, 0, 0)
        share_statistics(self.model, self.ranks)
        if self.ranks.first:
            for lines in run.lines:
                lines.flush()
            sizes = checkpoint.Sizes(run.metrics.size(), run.spectra.size(), run.timings.size())
        note = checkpoint.CheckpointNote(
            run=run.id,
            step=self.step,
            told=self.losses.logged,
            elapsed=elapsed,
            processes=self.ranks.world,
            sizes=sizes,
            samples=self.samples,
            on_device=self.on_device or 0,
        )
        tensors = self.tensors() | {"losses": self.ranks.stack(self.losses.latest)}
        checkpoint.save(run.checkpoints, tensors, note, self.ranks)

    def resume(self, say: Callable[[str], None]) -> float:
        """Load the newest checkpoint, if there is one, and cut the JSON lines back to it, or to nothing. Returns the
        elapsed seconds."""
        run, ranks = self.run, self.ranks
        newest = checkpoint.newest(run.checkpoints, run.id, say, ranks)
        if ranks.first:
            sizes = checkpoint.Sizes(0, 0, 0) if newest is None else newest[1].sizes
            run.metrics.cut(sizes.metrics)
            run.spectra.cut(sizes.spectra)
            run.timings.cut(sizes.timings)
        prepare(self.model, self.optimizer, 0 if newest is None else newest[1].step)
        if newest is None:
            return 0.0
        path, note = newest
        losses = self.losses.latest.new_zeros(note.processes, self.losses.every)
        checkpoint.load(path, self.tensors() | {"losses": losses}, ranks)
        # with another number of processes no row belongs to a process, and the log needs only their mean
        self.losses.latest.copy_(losses[ranks.rank] if note.processes == ranks.world else losses.mean(dim=0))
        self.step, self.samples, self.losses.logged = note.step, note.samples, note.told
        known = self.on_device is not None and note.on_device > 0
        self.on_device = max(self.on_device or 0, note.on_device) if known else None
        say(f"resuming from step {note.step}")
        return note.elapsed
