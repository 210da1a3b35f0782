"""What theory expects of a design's attention: log kappa of its concatenated heads, stage by stage."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manyheads.conditioning.theory import gaussian_log_kappa
from manyheads.spec.arch import attentions
from manyheads.spec.parts import Channel, CrossCovariance, Mix, Nystrom, Outlook, Softmax, Stage, Window

Floats = NDArray[np.float64]
KINDS: dict[type[Any], str] = {
    Softmax: "softmax",
    CrossCovariance: "cross-covariance",
    Outlook: "outlook",
    Window: "window",
    Channel: "channel",
    Nystrom: "nystrom",
}


@dataclass(frozen=True)
class Site:
    """One attention of a stage's unit: its kind, and the rows of the matrix its concatenated heads form."""

    kind: str
    rows: int


def rows_of(mix: Mix, tokens: int) -> int:
    """Rows of the matrix of concatenated heads: all tokens, or those of one window."""
    return mix.size**2 if isinstance(mix, Window) else tokens


def sites(stage: Stage) -> tuple[Site, ...]:
    """The attentions of a stage's unit."""
    return tuple(Site(KINDS[type(op.mix)], rows_of(op.mix, stage.tokens)) for op in attentions(stage))


def log_kappa(stage: Stage, inner: NDArray[Any]) -> Floats:
    """Expected log kappa at each inner width, the mean over the attentions of the unit.

    Gaussian entries: what the first paper's theorem assumes. A trained model's kappa is larger by orders of magnitude;
    the ratio between two shapes is what a prediction is for."""
    widths, back = np.unique(inner, return_inverse=True)
    total = sum(gaussian_log_kappa(np.float64(site.rows), widths.astype(np.float64)).mean for site in sites(stage))
    found: Floats = (np.asarray(total, np.float64) / len(attentions(stage)))[back].reshape(np.shape(inner))
    return found
