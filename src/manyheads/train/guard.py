"""Losses, kept on the device until somebody looks: their mean for the log, and whether training has gone wrong."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from manyheads.spec.errors import UserError

from .parallel import Ranks


class Diverged(UserError):
    """The loss is no number any more, or far above that of a guess."""

    def __init__(self, step: int, loss: float, limit: float, lr: float) -> None:
        self.step, self.loss = step, loss
        why = (
            f"above {limit:g}, many times that of a constant guess"
            if math.isfinite(loss)
            else "not a number to train on"
        )
        super().__init__(
            f"the loss of step {step} is {loss:g}, {why} (learning rate {lr:.3g}); write a lower lr, a longer "
            "warm-up or a smaller clip"
        )


class Losses:
    """The loss of each of the last `every` steps. Written without waiting for the device, read where the log is due."""

    def __init__(self, every: int, limit: float, ranks: Ranks) -> None:
        self.every, self.limit, self.ranks = every, limit, ranks
        self.kept = torch.zeros(every, device=ranks.device)
        self.read_to = 0  # steps that the log has told

    def put(self, step: int, loss: Tensor) -> None:
        """Keep the loss of step number `step`."""
        self.kept[step % self.every] = loss

    def look(self, step: int, lr: float) -> float | None:
        """The mean over the steps that the log has not told, up to `step` of them made; None where there are none.
        Raises `Diverged` with the first step that went wrong."""
        if step == self.read_to:
            return None
        values = (self.ranks.sum(self.kept.clone()) / self.ranks.world).tolist()
        found = [(index, values[index % self.every]) for index in range(self.read_to, step)]
        for index, loss in found:
            if not (math.isfinite(loss) and loss <= self.limit):
                raise Diverged(index, loss, self.limit, lr)
        return math.fsum(loss for _, loss in found) / len(found)

    def told(self, step: int) -> None:
        """The log has them."""
        self.read_to = step
