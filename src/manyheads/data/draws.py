"""Random numbers as a function of what they are for: no state, so nothing to save, to restore or to share between
ranks.

Each number is a mixed counter (the finaliser of SplitMix64, Steele et al. 2014): `bits(key, i, n)` gives sample i its n
numbers whichever process asks, in whatever order, with whatever neighbours.
"""

from __future__ import annotations

import hashlib

import numpy as np
from jaxtyping import Float, Int, UInt64

GAMMA = np.uint64(0x9E3779B97F4A7C15)  # 2^64 / golden ratio, odd: the counter visits every state
ROUNDS = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB))


def key(*parts: int | str) -> int:
    """64 bits that stand for `parts`, e.g. key(seed, "crop"): any other parts give unrelated ones."""
    return int.from_bytes(hashlib.blake2b(repr(parts).encode(), digest_size=8).digest(), "little")


def bits(key: int, index: Int[np.ndarray, " samples"], count: int) -> UInt64[np.ndarray, "samples count"]:
    """`count` random words for each sample."""
    place: np.ndarray = index.astype(np.uint64)[:, None] * np.uint64(count) + np.arange(1, count + 1, dtype=np.uint64)
    word: np.ndarray = place * GAMMA + np.uint64(key)
    for shift, factor in ROUNDS:
        word = (word ^ (word >> np.uint64(shift))) * np.uint64(factor)
    return word ^ (word >> np.uint64(31))


def uniforms(key: int, index: Int[np.ndarray, " samples"], count: int) -> Float[np.ndarray, "samples count"]:
    """`count` numbers in [0, 1) for each sample."""
    return (bits(key, index, count) >> np.uint64(11)) * 2.0**-53


def normals(key: int, index: Int[np.ndarray, " samples"], count: int) -> Float[np.ndarray, "samples count"]:
    """`count` standard normal numbers for each sample (Box and Muller)."""
    radius, angle = np.split(uniforms(key, index, 2 * count), 2, axis=1)
    return np.sqrt(-2 * np.log1p(-radius)) * np.cos(2 * np.pi * angle)
