"""Every experiment by name."""

from __future__ import annotations

from collections.abc import Mapping

from manyheads.spec.errors import UserError, nearest
from manyheads.spec.experiment import Experiment

from .demo import DEMO
from .first_paper import FIRST, Catalogue
from .rank_paper import RANK

EXPERIMENTS: Mapping[str, Experiment] = Catalogue({experiment.name: experiment for experiment in (DEMO, *RANK)}, FIRST)


def get(name: str) -> Experiment:
    """The experiment called `name`."""
    if name not in EXPERIMENTS:
        raise UserError(
            f"no experiment is called {name!r}{nearest(name, EXPERIMENTS)}; there are {', '.join(EXPERIMENTS)}"
        )
    return EXPERIMENTS[name]
