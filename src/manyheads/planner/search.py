"""The whole grid: which designs fit, and, where none does, which comes closest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manyheads.spec.arch import Arch, Sketch, editable

from .budget import Cap
from .predict import Floats, log_kappa
from .space import Ints, Space
from .use import Use, latency_share

CHUNK = 1 << 19  # designs costed at once: their arrays stay in the cache


@dataclass(frozen=True, eq=False)
class Found:
    """What a search came to. `largest` is the largest MLP that fits each depth and attention, by its index, or -1.
    Where nothing fits, `nearest` is the design with the smallest overshoot and `least` what each budget could come
    to."""

    space: Space
    log_kappas: Floats
    fitting: int
    largest: Ints
    nearest: tuple[int, int, int]
    overshoot: float
    least: dict[str, float]


def search(space: Space, caps: tuple[Cap, ...], use: Use, latency: float) -> Found:
    """Cost every design of the space. `latency` is the original's, in seconds (or 1: shares)."""
    kappas = space_kappas(space)
    depths, count, widths = space.shape
    largest = np.full((depths, count), -1, np.int64)
    fitting, best, nearest = 0, np.inf, (0, 0, 0)
    least = {cap.kind: np.inf for cap in caps}
    step = max(1, CHUNK // (depths * widths))
    for start in range(0, count, step):
        which = slice(start, min(start + step, count))
        shape = (depths, which.stop - which.start, widths)
        spent = costs_of(space.sketch(which), space.original, caps, use, latency)
        fits = np.ones(shape, bool)
        for cap in caps:
            least[cap.kind] = min(least[cap.kind], float(np.min(spent[cap.kind])))
            fits &= spent[cap.kind] <= cap.most
        fitting += int(np.count_nonzero(fits))
        # MLPs are in rising order: the largest that fits is the last
        last = widths - 1 - np.argmax(fits[:, :, ::-1], axis=2)
        largest[:, which] = np.where(fits.any(axis=2), last, -1)
        if fitting == 0:
            over = np.max(np.broadcast_arrays(*(spent[cap.kind] / cap.most for cap in caps), np.zeros(shape)), axis=0)
            spot = int(np.argmin(over))
            if over.flat[spot] < best:
                at = np.unravel_index(spot, shape)
                best, nearest = float(over.flat[spot]), (int(at[0]), int(at[1]) + start, int(at[2]))
    return Found(space, kappas, fitting, largest, nearest, best, least)


def space_kappas(space: Space) -> Floats:
    """Expected log kappa of every attention in every stage."""
    stages = [space.original.stages[i] for i in editable(space.original)]
    inner = space.heads * space.head_dims
    return np.stack([log_kappa(stage, inner[:, i]) for i, stage in enumerate(stages)], axis=1)


def costs_of(
    sketch: Arch | Sketch, original: Arch, caps: tuple[Cap, ...], use: Use, latency: float
) -> dict[str, NDArray[Any]]:
    """What is capped, for every design of a sketch."""
    found = use.costs(sketch, tuple(cap.kind for cap in caps))
    if any(cap.kind == "latency" for cap in caps):
        found["latency"] = latency * latency_share(sketch, original, use)
    return {kind: np.asarray(value) for kind, value in found.items()}
