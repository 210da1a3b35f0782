"""Every experiment by name."""

from __future__ import annotations

from manyheads.arch.errors import UserError, nearest

from .demo import DEMO
from .experiment import Experiment
from .rank_paper import RANK

EXPERIMENTS: dict[str, Experiment] = {experiment.name: experiment for experiment in (DEMO, *RANK)}


def get(name: str) -> Experiment:
    """The experiment called `name`."""
    if name not in EXPERIMENTS:
        raise UserError(f"no experiment is called {name!r}{nearest(name, EXPERIMENTS)}; there are {', '.join(EXPERIMENTS)}")
    return EXPERIMENTS[name]
