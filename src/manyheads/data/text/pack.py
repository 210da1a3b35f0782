"""Sequences out of a row of ids: documents packed one after the other, cut into equal blocks, dealt in an order that is
a function of seed, step and row."""

from __future__ import annotations

import numpy as np
from jaxtyping import Int

from manyheads.data.draws import bits, key
from manyheads.data.order import Order
from manyheads.data.shapes import Indices
from manyheads.spec.datasets import BlockOrder
from manyheads.spec.errors import UserError

from .shards import Tokens


class Packed:
    """Blocks of `stride` ids side by side, each read with `more` ids that follow it (1: the targets of the last).

    `shuffled` deals every block once an epoch, each epoch in an order of its own; `given` in the order of the corpus;
    `random` reads from anywhere, with repetition, so that blocks overlap. What does not fill a block is not read."""

    def __init__(self, tokens: Tokens, stride: int, more: int, dealt: BlockOrder, seed: int, batch: int) -> None:
        self.tokens, self.length, self.stride, self.dealt = tokens, stride + more, stride, dealt
        self.samples = (len(tokens) - more) // stride
        if self.samples < 1:
            raise UserError(
                f"{len(tokens)} ids do not fill one sequence of {stride}; give more text, or write tokens="
                f"{max(1, len(tokens) - more)}"
            )
        self.order = Order(self.samples, seed, batch)
        self.seed = seed

    def starts(self, step: int, rows: range) -> Indices:
        """Where the sequences of these rows of a step begin."""
        places = self.order.places(step, rows)
        if self.dealt == "random":
            room = np.uint64(len(self.tokens) - self.length + 1)
            return (bits(key(self.seed, "start"), places, 1)[:, 0] % room).astype(np.int64)
        return self.stride * (places % self.samples if self.dealt == "given" else self.order.at(places))

    def batch(self, step: int, rows: range) -> Int[np.ndarray, "rows length"]:
        """The ids of these rows of a step."""
        return self.tokens.rows(self.starts(step, rows), self.length)

    def block(self, numbers: Indices) -> Int[np.ndarray, "rows length"]:
        """The ids of blocks by their number in the corpus."""
        return self.tokens.rows(self.stride * numbers, self.length)
