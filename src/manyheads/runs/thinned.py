"""What a pack keeps of a run's measurements: all evaluations, and as much of the rest as the page draws.

Records are chosen and never averaged, so that every number in a pack was written by the run. Thinning what is thinned
changes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from manyheads.spec.errors import UserError

CURVE = 40  # training records kept of a run, and as many times
PROBED = 160  # probe records kept of a run, one for each attention at each probed step
# of a probe that is neither the first nor the last: what the page draws over steps
DRAWN = ("step", "kind", "layer", "name", "log_kappa", "mean_kappa", "gaussian_log_kappa", "head_correlation")
DRAWN_PARTS = {
    "jacobian": ("kappa",),
    "detail": ("tokens_kappa", "mlp_hidden_kappa", "mlp_in_kappa", "mlp_out_kappa", "entropy"),
}
T = TypeVar("T")
Record = dict[str, Any]


def thin_metrics(records: Sequence[Record]) -> list[Record]:
    """All records but those of training, and `CURVE` of these: the first, the last, and evenly spaced ones between."""
    train = [i for i, record in enumerate(records) if record.get("kind") == "train"]
    kept = set(spaced(train, CURVE))
    return [record for i, record in enumerate(records) if record.get("kind") != "train" or i in kept]


def thin_timings(records: Sequence[Record]) -> list[Record]:
    """`CURVE` of the records: the first, the last, and evenly spaced ones between."""
    return spaced(records, CURVE)


def thin_spectra(records: Sequence[Record]) -> list[Record]:
    """The first and the last probe whole, without empty fields; of those between as many as make `PROBED` records, with
    the numbers that the page draws over steps."""
    steps = sorted({_step(record) for record in records})
    if not steps:
        return []
    first, last = steps[0], steps[-1]
    sites = max(1, sum(record["step"] == last for record in records))
    kept = set(spaced(steps, max(3, PROBED // sites)))
    return [
        _without_nulls(record) if record["step"] in (first, last) else _drawn(record)
        for record in records
        if record["step"] in kept
    ]


def spaced(items: Sequence[T], most: int) -> list[T]:
    """At most so many of the items (2 or more), evenly spaced, the first and the last among them."""
    if len(items) <= most:
        return list(items)
    return [items[round(i * (len(items) - 1) / (most - 1))] for i in range(most)]


def _step(record: Record) -> int:
    step = record.get("step")
    if type(step) is not int:
        raise UserError(f"spectra.jsonl has a record whose step is {step!r}, which no training writes")
    return step


def _drawn(record: Record) -> Record:
    drawn = {name: record[name] for name in DRAWN if record.get(name) is not None}
    for part, names in DRAWN_PARTS.items():
        inside = record.get(part)
        if isinstance(inside, dict):
            drawn[part] = {name: inside[name] for name in names if inside.get(name) is not None}
    return drawn


def _without_nulls(record: Record) -> Record:
    return {
        name: _without_nulls(value) if isinstance(value, dict) else value
        for name, value in record.items()
        if value is not None
    }
