"""How the embedded Fashion-MNIST was made of the official files; run once, kept so that it can be checked.

    python -m tests.data.pack_fashion_mnist /usr/share/datasets/fashion-mnist src/manyheads/data/fashion_mnist

From each class the first 1,000 training and the first 200 test images of the official files, in the official order.
"""

from __future__ import annotations

import lzma
import sys
from pathlib import Path

import numpy as np

from manyheads.data.image_readers import idx_bytes, read_idx
from manyheads.data.randomness import balanced

KEEP = {"train": 10_000, "t10k": 2_000}


def pack(source: Path, target: Path, keep: dict[str, int] = KEEP) -> None:
    """Write the subset of the official files in `source` to `target`."""
    for split, count in keep.items():
        images = read_idx(source / f"{split}-images-idx3-ubyte.gz", 3)
        labels = read_idx(source / f"{split}-labels-idx1-ubyte.gz", 1)
        chosen = np.sort(balanced(labels.astype(np.int64), count))
        for name, array in ((f"{split}-images-idx3-ubyte", images), (f"{split}-labels-idx1-ubyte", labels)):
            packed = lzma.compress(idx_bytes(array[chosen]), preset=9 | lzma.PRESET_EXTREME)
            (target / f"{name}.xz").write_bytes(packed)


if __name__ == "__main__":
    pack(Path(sys.argv[1]), Path(sys.argv[2]))
