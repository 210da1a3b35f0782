"""What one run measured, as a page needs it: final scores, the headline over steps, kappa over steps, seconds,
machine."""

from __future__ import annotations

import math
from collections.abc import Iterable
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

from manyheads.experiments.verdict import SHARES
from manyheads.runs import RunFolder
from manyheads.runs.json_lines import JsonLines
from manyheads.spec.errors import UserError

from .chart import Point

KIND, HEADLINE = "log_kappa", "headline"  # the mean over layers at the last probe; each run's own headline metric
LARGEST = 300.0  # of a log kappa: beyond it a matrix has no full rank in any precision
# further numbers of a probe, where it was asked for them: name, where in the record, whether its logarithm is averaged
# fmt: off
MORE: tuple[tuple[str, tuple[str, ...], bool], ...] = (
    ("head correlation", ("head_correlation",), False),
    ("kappa of the Jacobian", ("jacobian", "kappa"), True),
    ("kappa of the tokens", ("detail", "tokens_kappa"), True),
    ("kappa of the MLP's hidden units", ("detail", "mlp_hidden_kappa"), True),
    ("kappa of the MLP's first matrix", ("detail", "mlp_in_kappa"), True),
    ("kappa of the MLP's second matrix", ("detail", "mlp_out_kappa"), True),
    ("attention entropy", ("detail", "entropy"), False),
)
# fmt: on
LOGS = frozenset(name for name, _, log in MORE if log)


@dataclass(frozen=True)
class Probed:
    """The probes of one kind of attention. `kappa` has the mean over layers of log kappa at each probe, `mean` the
    first paper's statistic (log of the plain mean over samples and layers), `layers` log kappa by layer at the last
    probe, `gaussian` what independent normal entries of that shape would give, `more` what else was probed over steps,
    and `last` the mean over layers of every number at the last probe, by name (`mean_kappa`, `detail.entropy`)."""

    kappa: list[Point]
    mean: list[Point]
    layers: list[Point]
    gaussian: float | None
    more: dict[str, list[Point]] = field(default_factory=dict)
    last: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Measured:
    """One run. `curve` is the headline metric at each evaluation; `probed` is by kind of attention; `held` is the
    number of held-out samples, where it is known."""

    better: tuple[str, str]
    scores: dict[str, float]
    curve: list[Point]
    probed: dict[str, Probed]
    seconds: float | None
    rate: float | None
    machine: dict[str, Any]
    trivial: dict[str, float] = field(default_factory=dict)
    held: int | None = None

    def binomial(self, metric: str) -> float | None:
        """The standard error of a share of right answers that comes from the number of held-out samples alone: as the
        run states it, or that of a binomial share where each sample has one answer. None where it is not known."""
        share = self.scores.get(metric)
        if metric == "accuracy":  # may be of several answers a sample, unless the task says its error itself
            return self.scores.get("standard_error")
        if share is None or not self.held or metric not in SHARES or not 0 <= share <= 1:
            return None
        return math.sqrt(share * (1 - share) / self.held)

    def final(self, metric: str) -> float | None:
        """The last value of a score, of a number that the probe writes (of the first kind of attention, if there are
        several), of the run's `seconds` and `rate`, or of its own `headline`."""
        if metric == HEADLINE:
            return self.scores.get(self.better[0])
        probed = (one.last[metric] for one in self.probed.values() if metric in one.last)
        own = {"seconds": self.seconds, "rate": self.rate}
        return self.scores.get(metric, next(probed, own.get(metric)))


def by_kind(records: Iterable[dict[str, Any]]) -> dict[str, Probed]:
    """Probe records, one for each layer, as curves over steps for each kind."""
    kinds: dict[str, list[dict[str, Any]]] = {}
    for record in records:
        kinds.setdefault(str(record.get("kind", "")), []).append(record)
    return {kind: _probed(mine) for kind, mine in kinds.items()}


def _probed(records: list[dict[str, Any]]) -> Probed:
    logs: dict[int, list[tuple[int, float]]] = {}
    plain: dict[int, list[float]] = {}
    predicted = [_finite(value) for record in records if (value := record.get("gaussian_log_kappa")) is not None]
    more: dict[str, dict[int, list[float]]] = {}
    for record in records:
        step = int(record["step"])
        if record.get("log_kappa") is not None:
            logs.setdefault(step, []).append((int(record.get("layer", 0)), _finite(record["log_kappa"])))
        if record.get("mean_kappa") is not None:
            plain.setdefault(step, []).append(_finite(record["mean_kappa"]))
        for name, path, log in MORE:
            value = _inside(record, path)
            if value is not None and (value > 0 or not log):
                more.setdefault(name, {}).setdefault(step, []).append(math.log(value) if log else value)
    last = logs[max(logs)] if logs else []
    layers: dict[int, list[float]] = {}
    for layer, value in last:
        layers.setdefault(layer, []).append(value)
    return Probed(
        _means({step: [value for _, value in found] for step, found in logs.items()}),
        [(step, math.log(value)) for step, value in _means(plain) if value > 0],
        _means(layers),
        math.fsum(predicted) / len(predicted) if predicted else None,
        {name: _means(steps) for name, steps in more.items()},
        _last(records),
    )


def _last(records: list[dict[str, Any]]) -> dict[str, float]:
    """The mean over layers of every number of the last probe; numbers inside a part have its name before theirs."""
    step, found = max((int(record["step"]) for record in records), default=0), dict[str, list[float]]()
    for record in records:
        if int(record["step"]) != step:
            continue
        inner = {
            f"{part}.{name}": value
            for part, held in record.items()
            if isinstance(held, dict)
            for name, value in held.items()
        }
        for name, value in (record | inner).items():
            if isinstance(value, int | float) and not isinstance(value, bool):
                found.setdefault(name, []).append(_finite(value))
    return {name: math.fsum(values) / len(values) for name, values in found.items()}


def _inside(record: dict[str, Any], path: tuple[str, ...]) -> float | None:
    value: Any = record
    for name in path:
        if not isinstance(value, dict):
            return None
        value = value.get(name)
    return None if value is None else _finite(value)


def _means(groups: dict[int, list[float]]) -> list[Point]:
    return [(float(at), math.fsum(values) / len(values)) for at, values in sorted(groups.items())]


def measured(found: RunFolder) -> Measured:
    """What stands in a run's folder, finished or not. A damaged file, or records that make no sense, are a
    UserError."""
    try:
        return _measured(found)
    except UserError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise UserError(f"{found.path} holds records that no training writes: {type(error).__name__} {error}") from None


def _measured(found: RunFolder) -> Measured:
    result = found.result or {}
    evaluations = [record for record in _lines(found, "metrics") if record.get("kind") == "eval"]
    scores, timing, trivial = (_numbers(result.get(part) or {}) for part in ("score", "timing", "trivial"))
    metric, direction = result.get("better") or _headline(scores or (evaluations[-1] if evaluations else {}))
    if direction not in ("up", "down"):
        raise ValueError(f"better is {direction!r}")
    curve = [
        (_finite(record["step"]), _finite(record[metric])) for record in evaluations if record.get(metric) is not None
    ]
    return Measured(
        (str(metric), direction),
        scores,
        curve,
        by_kind(_lines(found, "spectra")),
        timing.get("seconds"),
        timing.get("rate"),
        dict(result.get("machine") or {}),
        trivial,
        _held(found, result),
    )


def _held(found: RunFolder, result: dict[str, Any]) -> int | None:
    """How many samples are held out: what the result states, or else what the task asks for."""
    task = found.spec.task if found.spec else {}
    for value in (result.get("held_out"), *(task.get(name) for name in ("test_limit", "valid", "held"))):
        if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 1e12:
            return value
    return None


def _numbers(fields: dict[str, Any]) -> dict[str, float]:
    """The numbers of a record; words among them, such as a unit, are left out."""
    return {
        str(name): _finite(value) for name, value in fields.items() if value is not None and not isinstance(value, str)
    }


def _finite(value: Any) -> float:
    """A number that can be averaged and drawn: 1e999 is JSON, and is none."""
    number = float(value)
    if not abs(number) < 1e140:
        raise ValueError(f"{value!r} is no number that was measured")
    return number


def _lines(found: RunFolder, name: str) -> list[dict[str, Any]]:
    """The records of a run; `find` has looked at the rest of its folder, which would take longer than this does."""
    return JsonLines(found.path / f"{name}.jsonl", nullcontext).read()


def _headline(scores: dict[str, Any]) -> tuple[str, str]:
    """The metric to draw of a run that has not said which one decides, since it is not finished."""
    known = (("top1", "up"), ("loss", "down"))
    first = next((name for name in scores if name not in ("kind", "step", "samples")), "")
    return next((pair for pair in known if pair[0] in scores), (first, "up"))
