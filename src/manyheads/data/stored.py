"""What a dataset is once it has been read: pixels in memory, or files to decode."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Int, UInt8

from .order import balanced


@dataclass(frozen=True)
class Pixels:
    """Images in memory, as bytes, with their labels."""

    images: UInt8[np.ndarray, "samples channels height width"]
    labels: Int[np.ndarray, " samples"]

    def first(self, limit: int | None) -> Pixels:
        """At most `limit` of them, as many of each class as that allows, the first ones; in the same order."""
        if limit is None or limit >= len(self.labels):
            return self
        chosen = np.sort(balanced(self.labels, limit))
        return Pixels(self.images[chosen], self.labels[chosen])


@dataclass(frozen=True)
class Files:
    """Images in files, with their labels. Paths are one array of bytes, which worker processes share without copies."""

    paths: np.ndarray
    labels: Int[np.ndarray, " samples"]

    def first(self, limit: int | None) -> Files:
        """At most `limit` of them, as many of each class as that allows, the first ones; in the same order."""
        if limit is None or limit >= len(self.labels):
            return self
        chosen = np.sort(balanced(self.labels, limit))
        return Files(self.paths[chosen], self.labels[chosen])


Split = Pixels | Files
