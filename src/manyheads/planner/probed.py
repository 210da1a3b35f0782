"""What `manyheads probe --json --detail` measured of the original, in place of what theory assumes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from manyheads.spec.arch import Arch, attentions, editable
from manyheads.spec.errors import UserError

from .predict import sites


@dataclass(frozen=True)
class Probed:
    """Means over one stage's layers: log kappa of the heads, the share of the tokens' variance that rank `head_dim`
    covers, and log kappa of the tokens; None where the probe did not look closer (`--detail`)."""

    log_kappa: float
    head_dim: int
    coverage: float | None
    tokens_log_kappa: float | None

    def bounds(self, rank: int) -> tuple[float, float] | None:
        """Between what the coverage of another rank lies: variances are in falling order, so that r of them hold at
        least the share r / head_dim of what the first head_dim hold, and the other way round."""
        if self.coverage is None:
            return None
        scaled = self.coverage * rank / self.head_dim
        return (scaled, self.coverage) if rank < self.head_dim else (self.coverage, min(1.0, scaled))


def read(record: Any, original: Arch) -> tuple[Probed | None, ...]:
    """The means of a probe's record for each editable stage of `original`."""
    found = record.get("sites") if isinstance(record, Mapping) else None
    if not isinstance(found, list) or not all(isinstance(site, Mapping) and "log_kappa" in site for site in found):
        raise UserError(
            "this is no probe record: it has no list of sites. Write one with "
            "manyheads probe MODEL --detail --json > probe.json"
        )
    stages = [original.stages[i] for i in editable(original)]
    out: list[Probed | None] = []
    for stage in stages:
        op, kinds = attentions(stage)[0], {site.kind for site in sites(stage)}
        own = [
            site
            for site in found
            if site.get("kind") in kinds and (site.get("heads"), site.get("head_dim")) == (op.heads, op.head_dim)
        ]
        out.append(_means(own, op.head_dim) if own else None)
    if not any(out):
        shapes = sorted({f"{site.get('heads')} {site.get('kind')} heads of {site.get('head_dim')}" for site in found})
        op = attentions(stages[0])[0]
        raise UserError(
            f"the probe record is of another model: it has {', '.join(shapes) or 'no site'}, and this one has "
            f"{op.heads} heads of {op.head_dim}; probe the model that is planned for"
        )
    return tuple(out)


def _means(own: Sequence[Mapping[str, Any]], head_dim: int) -> Probed:
    logs = [float(site["log_kappa"]) for site in own if site["log_kappa"] is not None]
    details = [site.get("detail") or {} for site in own]
    coverages = [float(one["coverage"]) for one in details if one.get("coverage") is not None]
    tokens = [math.log(one["tokens_kappa"]) for one in details if one.get("tokens_kappa")]
    if not logs:
        raise UserError(
            "the probe record has no finite kappa: every matrix was rank-deficient; probe a batch that is not"
        )
    return Probed(_mean(logs), head_dim, _mean(coverages) if coverages else None, _mean(tokens) if tokens else None)


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)
