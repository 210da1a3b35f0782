"""The whole grid: which designs fit, which comes closest where none fits, and which are on the front.

The front holds the designs that no other fitting design equals or betters in every respect. The respects: depth, heads,
head_dim, key and value heads and MLP of every stage (more is better), predicted kappa, serious warnings and cautions
(less is better). There is no score: heads stand for the first paper's argument, head_dim for the second's, depth and
MLP for what is given up. A design that is bettered only by designs with more warnings stays on the front."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manyheads.arch.redesign import edit
from manyheads.spec.arch import Arch, Sketch, editable
from manyheads.spec.errors import UserError

from .attention_kappa import Floats, log_kappa
from .constraints import KINDS, Cap
from .costs import Use, latency_share
from .design_space import Ints, Space

Spots = tuple[Ints, Ints, Ints]  # indices of depths, attentions and MLPs
COUNTABLE = 1 << 60  # three times a cost of a design, as of its training, fits in 64 bits
CHUNK = 1 << 19  # designs costed at once: their arrays stay in the cache
SLACK = 1e-9  # predicted log kappas this close count as equal


@dataclass(frozen=True, eq=False)
class SearchResult:
    """Result of a search. `largest` is the index of the largest MLP that fits with each depth and attention, or -1.

    Where nothing fits, `nearest` is the design with the smallest overshoot. `least` is the least that any design costs
    of each capped kind."""

    space: Space
    log_kappas: Floats
    fitting: int
    largest: Ints
    nearest: tuple[int, int, int]
    overshoot: float
    least: dict[str, float]


def countable(space: Space, use: Use) -> None:
    """Refuse designs whose costs are too large for the 64-bit integers of the search, which would wrap silently."""
    most = [[int(column.max()) for column in axis.T] for axis in (space.depths, space.heads, space.head_dims)]
    mlps = None if space.mlps is None else [int(column.max()) for column in space.mlps.T]
    kv = None if space.kv is None else int(space.kv.max())
    largest = edit(space.original, depth=most[0], heads=most[1], head_dim=most[2], mlp_dim=mlps, kv_heads=kv)
    for kind, value in use.costs(largest, ("params", "flops", "memory", "kv_cache")).items():
        if value >= COUNTABLE:
            raise UserError(
                f"{KINDS[kind][0]} of the largest design that is searched: {value:.1e}, and {COUNTABLE:.1e} can be "
                "counted; write a smaller batch, image or number of tokens, or narrower limits"
            )


def search(space: Space, caps: tuple[Cap, ...], use: Use, latency: float) -> SearchResult:
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
    return SearchResult(
        space=space, log_kappas=kappas, fitting=fitting, largest=largest, nearest=nearest, overshoot=best, least=least
    )


def space_kappas(space: Space) -> Floats:
    """Expected log kappa of every attention in every stage."""
    stages = [space.original.stages[i] for i in editable(space.original)]
    inner = space.heads * space.head_dims
    return np.stack([log_kappa(stage, inner[:, i]) for i, stage in enumerate(stages)], axis=1)


def costs_of(
    sketch: Arch | Sketch, original: Arch, caps: tuple[Cap, ...], use: Use, latency: float
) -> dict[str, NDArray[Any]]:
    """The capped costs of every design of a sketch."""
    costs = use.costs(sketch, tuple(cap.kind for cap in caps))
    if any(cap.kind == "latency" for cap in caps):
        costs["latency"] = latency * latency_share(sketch, original, use)
    return {kind: np.asarray(value) for kind, value in costs.items()}


def candidates(largest: Ints) -> Spots:
    """Each depth and attention with the largest MLP that fits, which betters every smaller one."""
    depth, attention = np.nonzero(largest >= 0)
    return depth, attention, largest[depth, attention]


def pareto(space: Space, kappas: Floats, largest: Ints, serious: Ints, cautions: Ints) -> Spots:
    """The front among `candidates`; `serious` and `cautions` count the warnings of each.

    From one row of depths to the next, no stage has fewer layers."""
    fits = largest >= 0
    counts = np.full((2, *largest.shape), -1, np.int64)
    counts[:, fits] = serious, cautions
    keep = fits.copy()
    calm = -np.round(kappas / SLACK).astype(np.int64)
    goods = np.concatenate(
        [space.heads, space.head_dims, calm, *([] if space.kv is None else [space.kv[:, None]])], axis=1
    )
    for levels in np.unique(counts[:, fits], axis=1).T:
        mine = fits & (counts == levels[:, None, None]).all(axis=0)
        # the largest MLP among designs with no more warnings, at each depth and at any depth from it on
        rivals = np.where(fits & (counts <= levels[:, None, None]).all(axis=0), largest, -1)
        onward = np.maximum.accumulate(rivals[::-1], axis=0)[::-1]
        beyond = np.concatenate([onward[1:], np.full((1, onward.shape[1]), -1)])
        keep &= ~mine | (largest > beyond)
        for i in np.flatnonzero((mine & keep).any(axis=0)):
            better = _betters(goods, int(i))
            if better.any():
                keep[:, i] &= ~mine[:, i] | (onward[:, better].max(axis=1) < largest[:, i])
    at = np.nonzero(keep)
    return at[0], at[1], largest[at]


def _betters(goods: Ints, i: int) -> NDArray[np.bool_]:
    """Which other attentions are at least as good as number `i` in every column."""
    better = np.ones(len(goods), bool)
    for column in goods.T:
        better &= column >= column[i]
    better[i] = False
    return better
