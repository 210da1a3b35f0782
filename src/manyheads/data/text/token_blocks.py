"""Sequences out of a row of ids: documents packed one after the other, cut into equal blocks, dealt in an order that is
a function of seed, step and row.

Which tokens of a sequence are hidden, and behind what: a function of seed and place, as many in every sequence."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Int

from manyheads.spec.datasets import BlockOrder
from manyheads.spec.errors import UserError

from ..randomness import Indices, Order, bits, key
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


Rows = Int[np.ndarray, "rows tokens"]


@dataclass(frozen=True)
class Hiding:
    """Of `tokens` tokens `chosen` are predicted: `masked` of them stand behind the mask token, `swapped` behind a
    random one, the rest as they are. `protected` ids are not chosen while there are others."""

    tokens: int
    chosen: int
    masked: int
    swapped: int
    mask: int
    vocab: int
    protected: tuple[int, ...] = ()

    def __call__(self, ids: Rows, places: Indices, seed: int) -> tuple[Rows, Rows, Rows]:
        """Ids with some hidden, where those are, and what they were. Positions are drawn without repetition."""
        words = bits(key(seed, "chosen"), places, self.tokens)
        if self.protected:  # last in the order
            words = np.where(np.isin(ids, self.protected), ~np.uint64(0), words >> np.uint64(1))
        at = np.argsort(words, axis=1, kind="stable")[:, : self.chosen]
        targets = np.take_along_axis(ids, at, axis=1)
        shown = targets.copy()
        shown[:, : self.masked] = self.mask
        other = bits(key(seed, "swapped"), places, self.swapped) % np.uint64(self.vocab)
        shown[:, self.masked : self.masked + self.swapped] = other.astype(np.int64)
        hidden = ids.copy()
        np.put_along_axis(hidden, at, shown, axis=1)
        return hidden, at, targets


def hiding(tokens: int, share: float, mask: int, vocab: int, protected: tuple[int, ...] = ()) -> Hiding:
    """BERT's rule with exact counts, as Crammed BERT has it: of the chosen, 80 % masked and 10 % swapped, rounded."""
    chosen = max(1, round(share * tokens))
    masked = round(0.8 * chosen)
    return Hiding(tokens, chosen, masked, min(round(0.1 * chosen), chosen - masked), mask, vocab, protected)
