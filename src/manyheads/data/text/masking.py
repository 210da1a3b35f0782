"""Which tokens of a sequence are hidden, and behind what: a function of seed and place, as many in every sequence."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Int

from manyheads.data.draws import bits, key
from manyheads.data.shapes import Indices

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
