"""kappa of a design's attention: what theory expects of its concatenated heads, stage by stage, and what a probe of the
original (`manyheads probe --json --detail`) measured."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manyheads.conditioning.theory import gaussian_log_kappa
from manyheads.spec.arch import Arch, attentions, editable
from manyheads.spec.errors import UserError
from manyheads.spec.field_checks import between
from manyheads.spec.parts import Channel, CrossCovariance, Mix, Nystrom, Outlook, Softmax, Stage, Window

MOST_LOG = 700.0  # the logarithm of a kappa that a float still holds

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
class AttentionShape:
    """One attention of a stage's unit: its kind, and the rows of the matrix of its concatenated heads."""

    kind: str
    rows: int


def rows_of(mix: Mix, tokens: int) -> int:
    """Rows of the matrix of concatenated heads: all tokens, or those of one window."""
    return mix.size**2 if isinstance(mix, Window) else tokens


def sites(stage: Stage) -> tuple[AttentionShape, ...]:
    """The attentions of a stage's unit."""
    return tuple(AttentionShape(KINDS[type(op.mix)], rows_of(op.mix, stage.tokens)) for op in attentions(stage))


def log_kappa(stage: Stage, inner: NDArray[Any]) -> Floats:
    """Expected log kappa at each inner width, the mean over the attentions of the unit.

    The entries are taken as Gaussian, as in the first paper's theorem. A trained model's kappa is larger by orders of
    magnitude; the prediction serves to compare two shapes."""
    widths, back = np.unique(inner, return_inverse=True)
    total = sum(gaussian_log_kappa(np.float64(site.rows), widths.astype(np.float64)).mean for site in sites(stage))
    logs: Floats = (np.asarray(total, np.float64) / len(attentions(stage)))[back].reshape(np.shape(inner))
    return logs


@dataclass(frozen=True)
class ProbedStage:
    """Means over one stage's layers: log kappa of the heads, the share of the tokens' variance that rank `head_dim`
    covers, and log kappa of the tokens. The last two are None where the probe ran without `--detail`."""

    log_kappa: float
    head_dim: int
    coverage: float | None
    tokens_log_kappa: float | None

    def bounds(self, rank: int) -> tuple[float, float] | None:
        """Least and most that another rank can cover. Variances are in falling order, so the first r of them hold at
        least r / head_dim of what the first head_dim hold, and conversely."""
        if self.coverage is None:
            return None
        scaled = self.coverage * rank / self.head_dim
        return (scaled, self.coverage) if rank < self.head_dim else (self.coverage, min(1.0, scaled))


def read_probe(record: Any, original: Arch) -> tuple[ProbedStage | None, ...]:
    """The means of a probe's record for each editable stage of `original`; None for a stage it does not cover."""
    records = record.get("sites") if isinstance(record, Mapping) else None
    if not isinstance(records, list) or not all(isinstance(site, Mapping) and "log_kappa" in site for site in records):
        raise UserError(
            "this is no probe record: it has no list of sites. Write one with "
            "manyheads probe MODEL --detail --json > probe.json"
        )
    stages = [original.stages[i] for i in editable(original)]
    for number, site in enumerate(records):
        _check_site(site, f"sites[{number}]")
    means: list[ProbedStage | None] = []
    for stage in stages:
        op, kinds = attentions(stage)[0], {site.kind for site in sites(stage)}
        own = [
            site
            for site in records
            if site.get("kind") in kinds and (site.get("heads"), site.get("head_dim")) == (op.heads, op.head_dim)
        ]
        means.append(_means(own, op.head_dim) if own else None)
    if not any(means):
        shapes = sorted({f"{site.get('heads')} {site.get('kind')} heads of {site.get('head_dim')}" for site in records})
        op = attentions(stages[0])[0]
        raise UserError(
            f"the probe record is of another model: it has {', '.join(shapes) or 'no site'}, and this one has "
            f"{op.heads} heads of {op.head_dim}; probe the model that is planned for"
        )
    return tuple(means)


def _check_site(site: Mapping[str, Any], where: str) -> None:
    """Refuse a number that no probe writes."""
    detail = site.get("detail") or {}
    if not isinstance(detail, Mapping) or not isinstance(site.get("kind"), str | None):
        raise UserError(f"{where} of the probe record is not what a probe writes; write the record again")
    numbers = {"log_kappa": site["log_kappa"]} | {name: detail.get(name) for name in ("coverage", "tokens_kappa")}
    most = {"log_kappa": MOST_LOG, "coverage": 1.01}  # a share, rounded
    for name, value in numbers.items():
        if value is not None:
            between(f"{name} in {where} of the probe record", value, 0, most.get(name, math.inf))


def _means(own: Sequence[Mapping[str, Any]], head_dim: int) -> ProbedStage:
    logs = [float(site["log_kappa"]) for site in own if site["log_kappa"] is not None]
    details = [site.get("detail") or {} for site in own]
    coverages = [float(one["coverage"]) for one in details if one.get("coverage") is not None]
    tokens = [math.log(one["tokens_kappa"]) for one in details if one.get("tokens_kappa")]
    if not logs:
        raise UserError(
            "the probe record has no finite kappa: every matrix is rank-deficient; probe the model on another batch"
        )
    return ProbedStage(
        log_kappa=_mean(logs),
        head_dim=head_dim,
        coverage=_mean(coverages) if coverages else None,
        tokens_log_kappa=_mean(tokens) if tokens else None,
    )


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)
