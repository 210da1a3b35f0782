"""Held-out samples dealt to the parts of an evaluation: as many steps of as many rows for each part."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from jaxtyping import Bool

from manyheads.data.randomness import Indices


def dealt(count: int, most: int, share: tuple[int, int]) -> Iterator[tuple[Indices, Bool[np.ndarray, " rows"]]]:
    """The steps of part share[0] of share[1]: sample numbers, at most `most`, and which of them count.

    The last steps are filled up with samples that do not count, so that every part calls a model equally often on equal
    shapes, as sharded models need."""
    part, parts = share
    rows = max(1, min(most, math.ceil(count / parts)))
    for step in range(math.ceil(count / (rows * parts))):
        wanted = (step * parts + part) * rows + np.arange(rows)
        yield wanted.clip(max=count - 1), wanted < count
