"""Training sequences from a corpus: blocks of token ids, the order in which they are dealt, and masking.

Documents are packed one after another and cut into equal blocks. Order and masks are functions of seed, step and
row."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Int

from manyheads.spec.datasets import BlockOrder
from manyheads.spec.errors import UserError

from ..randomness import Indices, Order, bits, key
from .shards import Tokens


class Packed:
    """Adjacent blocks of `stride` ids, each read together with the `more` ids that follow it (1: the last id's target).

    `dealt` is the order: `shuffled` deals every block once an epoch, in a new order each epoch; `given` keeps the order
    of the corpus; `random` begins a block at any id, so that blocks repeat and overlap. Ids at the end of the corpus
    that do not fill a block are not read."""

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
        """The first ids of the sequences in these rows of a step."""
        places = self.order.places(step, rows)
        if self.dealt == "random":
            room = np.uint64(len(self.tokens) - self.length + 1)
            return (bits(key(self.seed, "start"), places, 1)[:, 0] % room).astype(np.int64)
        return self.stride * (places % self.samples if self.dealt == "given" else self.order.at(places))

    def batch(self, step: int, rows: range) -> Int[np.ndarray, "rows length"]:
        """The sequences in these rows of a step."""
        return self.tokens.rows(self.starts(step, rows), self.length)

    def block(self, numbers: Indices) -> Int[np.ndarray, "rows length"]:
        """Blocks by their number in the corpus."""
        return self.tokens.rows(self.stride * numbers, self.length)


Rows = Int[np.ndarray, "rows tokens"]


@dataclass(frozen=True)
class Hiding:
    """The masking of sequences of `tokens` ids: `chosen` of them are predicted. Of these, `masked` are replaced by the
    mask token, `swapped` by a random id, and the rest stay. `protected` ids are chosen only if no others are left."""

    tokens: int
    chosen: int
    masked: int
    swapped: int
    mask: int
    vocab: int
    protected: tuple[int, ...] = ()

    def __call__(self, ids: Rows, places: Indices, seed: int) -> tuple[Rows, Rows, Rows]:
        """The ids after masking, the chosen positions (without repetition), and the ids that stood there."""
        words = bits(key(seed, "chosen"), places, self.tokens)
        if self.protected:  # they come last in the order
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
    """BERT's rule with exact counts, as in Crammed BERT: of the chosen ids, 80 % are masked and 10 % swapped,
    rounded."""
    chosen = max(1, round(share * tokens))
    masked = round(0.8 * chosen)
    swapped = min(round(0.1 * chosen), chosen - masked)
    return Hiding(
        tokens=tokens, chosen=chosen, masked=masked, swapped=swapped, mask=mask, vocab=vocab, protected=protected
    )
