"""The designs that nothing else that fits equals or betters in every respect.

The respects: depth, heads, head_dim, key and value heads and MLP of every stage (more is better), predicted kappa,
serious warnings and cautions (less is better). There is no score: heads speak for the first paper's argument, head_dim
for the second's, depth and MLP for what is given up, and a design that only a warned one betters stays."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .predict import Floats
from .space import Ints, Space

Spots = tuple[Ints, Ints, Ints]  # indices of depths, attentions and MLPs
SLACK = 1e-9  # predicted log kappas this close count as equal


def candidates(largest: Ints) -> Spots:
    """Each depth and attention with the largest MLP that fits: what any smaller one is bettered by."""
    depth, attention = np.nonzero(largest >= 0)
    return depth, attention, largest[depth, attention]


def pareto(space: Space, kappas: Floats, largest: Ints, serious: Ints, cautions: Ints) -> Spots:
    """The front among `candidates`, whose warnings were counted. Depths rise from row to row, in no stage do they
    fall."""
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
    found = np.ones(len(goods), bool)
    for column in goods.T:
        found &= column >= column[i]
    found[i] = False
    return found
