"""Which sample stands where: an endless row of shuffled epochs, read at any place."""

from __future__ import annotations

import numpy as np

from .draws import bits, key
from .shapes import Indices


class Order:
    """The samples of one seed, epoch after epoch, each epoch in an order of its own; nothing is dropped at the border.

    Place p belongs to epoch p // samples. Step s takes the places s * batch to (s + 1) * batch, so that a run that
    resumes at step s and a rank that reads a part of the rows see what one uninterrupted process would have seen."""

    def __init__(self, samples: int, seed: int, batch: int) -> None:
        self.samples, self.seed, self.batch = samples, seed, batch
        self._epochs: dict[int, Indices] = {}

    def places(self, step: int, rows: range) -> Indices:
        """Where in the endless row these rows of a step stand."""
        return step * self.batch + np.arange(rows.start, rows.stop, rows.step)

    def epoch(self, number: int) -> Indices:
        """The samples of one epoch, shuffled; the last two asked for are kept."""
        if number not in self._epochs:
            words = bits(key(self.seed, "order", number), np.arange(self.samples), 1)[:, 0]
            while len(self._epochs) > 1:
                del self._epochs[next(iter(self._epochs))]
            self._epochs[number] = np.argsort(words, kind="stable")
        return self._epochs[number]

    def at(self, places: Indices) -> Indices:
        """The samples at `places`."""
        epochs, inside = np.divmod(places, self.samples)
        found = np.empty_like(inside)
        for number in np.unique(epochs):
            here = epochs == number
            found[here] = self.epoch(int(number))[inside[here]]
        return found


def balanced(labels: Indices, limit: int | None = None) -> Indices:
    """The samples taken class by class in turn: first the first of each class, then the second of each; at most
    `limit`."""
    by_class = np.argsort(labels, kind="stable")
    sizes = np.bincount(labels)
    turn = np.empty_like(by_class)
    turn[by_class] = np.arange(len(labels)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return np.lexsort((labels, turn))[:limit]
