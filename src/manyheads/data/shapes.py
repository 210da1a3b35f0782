"""Names for the arrays that go from room to room, and the terms on which a dataset is served."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int, UInt8
from torch import Tensor

from manyheads.spec.augment import Augment

Indices = Int[np.ndarray, " samples"]  # samples of a dataset, or places in the endless order
Boxes = Int[np.ndarray, "samples 4"]  # top, left, height, width
Bytes = UInt8[Tensor, "batch channels height width"]
Numbers = Float[Tensor, "batch channels height width"]
Labelled = tuple[Bytes, Int[Tensor, " batch"]]


@dataclass(frozen=True)
class Terms:
    """How a dataset is served: changed by `augment`, `size` x `size` pixels, in steps of `batch` samples, on `device`.

    `centre` is the share of the shorter side that is kept of a held-out file; `fill` the colour (0 to 1) of what a
    rotation or a shift brings into view."""

    augment: Augment
    size: int
    fill: tuple[float, ...]
    seed: int
    batch: int
    device: torch.device
    centre: float = 1.0
