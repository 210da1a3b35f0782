"""How good the model is: the task's tally over this process's share, summed over the processes, scored once."""

from __future__ import annotations

from contextlib import nullcontext

import torch
from torch import nn

from manyheads.tasks import Work

from .average import Average
from .parallel import Ranks, reshard, share_statistics
from .step import autocast


def evaluate(
    model: nn.Module, work: Work, ranks: Ranks, *, half: bool, average: Average | None = None
) -> dict[str, float]:
    """The task's scores of `model`, with averaged weights where there are some; its mode and weights stay as they
    were."""
    training = model.training
    model.eval()
    share_statistics(model, ranks)
    try:
        with average.inside() if average is not None else nullcontext(), torch.no_grad(), autocast(ranks.device, half):
            tally = work.tally(model, (ranks.rank, ranks.world))
            reshard(model, ranks)
        return work.score({name: ranks.sum(tensor) for name, tensor in sorted(tally.items())})
    finally:
        model.train(training)
