"""What a run has come to: weights, moments, averages, losses not yet told, steps and seconds. A checkpoint holds it
all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from manyheads.runs import Run

from . import checkpoint
from .average import Average
from .guard import Losses
from .optimizer import moments, prepare
from .parallel import Ranks, share_statistics


@dataclass
class State:
    """The state of training, in one process. Random numbers are none of it: they are functions of the step."""

    run: Run
    ranks: Ranks
    model: nn.Module
    optimizer: torch.optim.Optimizer
    average: Average | None
    losses: Losses
    step: int = 0
    samples: int = 0  # where the batch grows, those that were seen; else steps tell

    def tensors(self) -> dict[str, Tensor]:
        """Everything a checkpoint stores, by name; under FSDP each process's part of it."""
        found = {f"model.{name}": tensor for name, tensor in self.model.state_dict().items()}
        found |= moments(self.model, self.optimizer)
        if self.average is not None:
            found |= {f"ema.{name}": tensor for name, tensor in self.average.weights.items()}
        return found

    def save(self, elapsed: float) -> None:
        """Write a checkpoint of this moment."""
        run, sizes = self.run, checkpoint.Sizes(0, 0, 0)
        share_statistics(self.model, self.ranks)
        if self.ranks.first:
            for lines in (run.metrics, run.spectra, run.timings):
                lines.flush()
            sizes = checkpoint.Sizes(run.metrics.size(), run.spectra.size(), run.timings.size())
        note = checkpoint.Note(run.id, self.step, self.losses.read_to, elapsed, self.ranks.world, sizes, self.samples)
        checkpoint.save(
            run.checkpoints, self.tensors() | {"losses": self.ranks.stack(self.losses.kept)}, note, self.ranks
        )

    def resume(self, say: Callable[[str], None]) -> float:
        """Go back to the newest checkpoint, or to the beginning where there is none; the JSON lines too. Gives the
        elapsed seconds."""
        run, ranks = self.run, self.ranks
        found = checkpoint.newest(run.checkpoints, run.id, say, ranks)
        if ranks.first:
            sizes = checkpoint.Sizes(0, 0, 0) if found is None else found[1].sizes
            run.metrics.cut(sizes.metrics)
            run.spectra.cut(sizes.spectra)
            run.timings.cut(sizes.timings)
        prepare(self.model, self.optimizer, 0 if found is None else found[1].step)
        if found is None:
            return 0.0
        path, note = found
        kept = self.losses.kept.new_zeros(note.processes, self.losses.every)
        checkpoint.load(path, self.tensors() | {"losses": kept}, ranks)
        # another number of processes: no row is anybody's own, and their mean is what the log wants
        self.losses.kept.copy_(kept[ranks.rank] if note.processes == ranks.world else kept.mean(dim=0))
        self.step, self.samples, self.losses.read_to = note.step, note.samples, note.told
        say(f"going on from step {note.step}")
        return note.elapsed
