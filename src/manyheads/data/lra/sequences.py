"""`Sequences`: labelled byte sequences of any length, in memory or in files that are mapped into it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Int, UInt8

# Not those of `shapes`, and `order` is imported late: both import torch, and processes that make a set do without it.
Indices = Int[np.ndarray, " samples"]
Lengths = Int[np.ndarray, " documents"]


@dataclass(frozen=True)
class Sequences:
    """Documents, and samples made of one or two of them. Document d is `length[d]` bytes of store `store[d]` from
    `start[d]` on; a row of `documents` has the documents of one sample."""

    stores: tuple[UInt8[np.ndarray, " bytes"], ...]
    store: Lengths
    start: Lengths
    length: Lengths
    documents: Int[np.ndarray, "samples documents"]
    labels: Indices

    def __len__(self) -> int:
        return len(self.labels)

    def at(self, samples: Indices) -> Sequences:
        """These samples alone, in this order."""
        return Sequences(
            self.stores, self.store, self.start, self.length, self.documents[samples], self.labels[samples]
        )

    def first(self, limit: int) -> Sequences:
        """At most `limit` samples, as many of each class as that allows, the first ones; in the same order."""
        from ..order import balanced

        return self if limit >= len(self) else self.at(np.sort(balanced(self.labels, limit)))

    def cut(self, longest: int) -> Sequences:
        """The same with at most `longest` bytes of each document."""
        return replace(self, length=np.minimum(self.length, longest))

    def one(self, sample: int) -> tuple[UInt8[np.ndarray, " bytes"], ...]:
        """The bytes of one sample, document by document."""
        return tuple(self._document(document) for document in self.documents[sample].tolist())

    def _document(self, number: int) -> UInt8[np.ndarray, " bytes"]:
        start = self.start[number]
        return self.stores[self.store[number]][start : start + self.length[number]]

    @property
    def lengths(self) -> Int[np.ndarray, "samples documents"]:
        """The bytes of each document of each sample."""
        return self.length[self.documents]

    def rows(
        self, samples: Indices, tokens: int
    ) -> tuple[UInt8[np.ndarray, "rows documents tokens"], Int[np.ndarray, "rows documents"]]:
        """The bytes of these samples, cut to `tokens` and filled up with 0, and how many are real."""
        chosen = self.documents[samples]
        lengths = np.minimum(self.length[chosen], tokens)
        out = np.zeros((*chosen.shape, tokens), np.uint8)
        flat = out.reshape(-1, tokens)
        for row, (document, length) in enumerate(zip(chosen.ravel().tolist(), lengths.ravel().tolist(), strict=True)):
            start = self.start[document]
            flat[row, :length] = self.stores[self.store[document]][start : start + length]
        return out, lengths


def joined(store: UInt8[np.ndarray, " bytes"], length: Lengths, labels: Indices, documents: int = 1) -> Sequences:
    """Samples of `documents` each, which lie one behind the other in `store`."""
    length = length.astype(np.int64)
    members = np.arange(len(length)).reshape(-1, documents)
    return Sequences(
        (store,), np.zeros_like(length), np.cumsum(length) - length, length, members, labels.astype(np.int64)
    )


def packed(parts: Sequence[Sequences]) -> Sequences:
    """All samples of the parts, one part behind the other; nothing is copied but numbers."""
    if len(parts) == 1:
        return parts[0]
    stores = np.cumsum([0, *(len(part.stores) for part in parts)])
    before = np.cumsum([0, *(len(part.length) for part in parts)])
    return Sequences(
        tuple(store for part in parts for store in part.stores),
        np.concatenate([part.store + offset for part, offset in zip(parts, stores, strict=False)]),
        np.concatenate([part.start for part in parts]),
        np.concatenate([part.length for part in parts]),
        np.concatenate([part.documents + offset for part, offset in zip(parts, before, strict=False)]),
        np.concatenate([part.labels for part in parts]),
    )
