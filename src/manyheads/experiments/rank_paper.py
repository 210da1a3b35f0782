"""The experiments of the second paper, *Quality over Quantity in Attention Layers* (2407.16153), in one place."""

from __future__ import annotations

from manyheads.spec.experiment import Experiment

from .rank_axes import AXES
from .rank_dim import RANK_DIM
from .rank_fig1 import FIG1
from .rank_n import RANK_N
from .rank_positions import POSITIONS
from .rank_rate import RATE
from .rank_regression import REGRESSION
from .rank_replay import REPLAY

RANK: tuple[Experiment, ...] = (FIG1, RANK_N, POSITIONS, RANK_DIM, REPLAY, AXES, REGRESSION, RATE)
