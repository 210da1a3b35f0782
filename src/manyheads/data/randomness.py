"""Random numbers and shuffled orders as functions of a seed and a place, without state.

Nothing has to be saved, restored or shared between ranks. Each random number is a mixed counter (the finaliser of
SplitMix64, Steele et al. 2014): `bits(key, i, n)` gives sample i the same n numbers in every process, in any order and
together with any other samples."""

from __future__ import annotations

import hashlib

import numpy as np
from jaxtyping import Float, Int, UInt64

GAMMA = np.uint64(0x9E3779B97F4A7C15)  # 2^64 / golden ratio, odd: the counter visits every state
ROUNDS = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB))
Indices = Int[np.ndarray, " samples"]  # samples of a dataset, or places in the endless order


def key(*parts: int | str) -> int:
    """64 bits that stand for `parts`, e.g. key(seed, "crop"): any other parts give unrelated bits."""
    return int.from_bytes(hashlib.blake2b(repr(parts).encode(), digest_size=8).digest(), "little")


def bits(key: int, index: Indices, count: int) -> UInt64[np.ndarray, "samples count"]:
    """`count` random words for each sample."""
    place: np.ndarray = index.astype(np.uint64)[:, None] * np.uint64(count) + np.arange(1, count + 1, dtype=np.uint64)
    return finalised(place * GAMMA + np.uint64(key))


def finalised(word: UInt64[np.ndarray, ...]) -> UInt64[np.ndarray, ...]:
    """Counters with their bits mixed: SplitMix64's finaliser."""
    for shift, factor in ROUNDS:
        word = (word ^ (word >> np.uint64(shift))) * np.uint64(factor)
    return word ^ (word >> np.uint64(31))


def uniforms(key: int, index: Indices, count: int) -> Float[np.ndarray, "samples count"]:
    """`count` numbers in [0, 1) for each sample."""
    return (bits(key, index, count) >> np.uint64(11)) * 2.0**-53


def normals(key: int, index: Indices, count: int) -> Float[np.ndarray, "samples count"]:
    """`count` standard normal numbers for each sample (Box and Muller)."""
    radius, angle = np.split(uniforms(key, index, 2 * count), 2, axis=1)
    return np.sqrt(-2 * np.log1p(-radius)) * np.cos(2 * np.pi * angle)


class Order:
    """An endless sequence of samples: one epoch after another, each shuffled anew by the seed.

    A batch may reach from one epoch into the next, and no sample is dropped. Place p belongs to epoch p // samples, and
    step s takes the places s * batch to (s + 1) * batch. A run that resumes at step s, and a rank that reads some of
    the rows, therefore see the samples that one uninterrupted process would see."""

    def __init__(self, samples: int, seed: int, batch: int) -> None:
        self.samples, self.seed, self.batch = samples, seed, batch
        self._epochs: dict[int, Indices] = {}

    def places(self, step: int, rows: range) -> Indices:
        """The places of these rows of a step in the endless sequence."""
        return step * self.batch + np.arange(rows.start, rows.stop, rows.step)

    def epoch(self, number: int) -> Indices:
        """The samples of one epoch, shuffled. The last two epochs that were asked for are cached."""
        if number not in self._epochs:
            words = bits(key(self.seed, "order", number), np.arange(self.samples), 1)[:, 0]
            while len(self._epochs) > 1:
                del self._epochs[next(iter(self._epochs))]
            self._epochs[number] = np.argsort(words, kind="stable")
        return self._epochs[number]

    def at(self, places: Indices) -> Indices:
        """The samples at `places`."""
        epochs, inside = np.divmod(places, self.samples)
        samples = np.empty_like(inside)
        for number in np.unique(epochs):
            here = epochs == number
            samples[here] = self.epoch(int(number))[inside[here]]
        return samples


def balanced(labels: Indices, limit: int | None = None) -> Indices:
    """Samples from each class in turn: the first of every class, then the second of every class; at most `limit`."""
    by_class = np.argsort(labels, kind="stable")
    sizes = np.bincount(labels)
    turn = np.empty_like(by_class)
    turn[by_class] = np.arange(len(labels)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return np.lexsort((labels, turn))[:limit]
