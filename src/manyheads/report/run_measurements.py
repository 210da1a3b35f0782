"""What one run measured, read from its folder: final scores, the headline over steps, probes over steps, time,
machine."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from manyheads.experiments.verdict import SHARES
from manyheads.runs import RunFolder
from manyheads.spec.errors import UserError
from manyheads.spec.serialise import to_dict

from .chart import Point

HEADLINE, BEST = "headline", "best"  # each run's own headline metric; its best value at any evaluation
# further numbers of a probe, where they were asked for: name, path in the record, whether its logarithm is averaged
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
LOGARITHMS = frozenset(name for name, _, log in MORE if log)


@dataclass(frozen=True)
class ProbeCurves:
    """The probes of one kind of attention over training.

    `log_kappa` is the mean over layers of log kappa at each probe; `log_mean_kappa` the first paper's statistic, the
    log of the plain mean over samples and layers; `layers` log kappa by layer at the last probe; `gaussian` the log
    kappa that independent normal entries of that shape would have; `more` whatever else was probed, over steps; `last`
    the mean over layers of every number at the last probe, by name (`mean_kappa`, `detail.entropy`)."""

    log_kappa: list[Point]
    log_mean_kappa: list[Point]
    layers: list[Point]
    gaussian: float | None
    more: dict[str, list[Point]] = field(default_factory=dict)
    last: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Measurements:
    """What one run measured.

    `better` names the headline metric and whether `up` or `down` is better; `curve` is that metric at each evaluation;
    `probes` are by kind of attention; `trivial` has what a constant guess scores; `held_out` is the number of held-out
    samples, where it is stated; `on_device` the largest number of runs that shared the device, where it is known."""

    better: tuple[str, str]
    scores: dict[str, float]
    curve: list[Point]
    probes: dict[str, ProbeCurves]
    seconds: float | None
    rate: float | None
    machine: dict[str, Any]
    trivial: dict[str, float] = field(default_factory=dict)
    held_out: int | None = None
    on_device: int | None = None

    def binomial(self, metric: str) -> float | None:
        """The standard error of a share of right answers that the number of held-out samples alone leaves: as the run
        states it, or that of a binomial share where each sample has one answer. None where neither is known."""
        share = self.scores.get(metric)
        if metric == "accuracy":  # a sample may have several answers: the task states the error, or nobody can
            return self.scores.get("standard_error")
        if share is None or not self.held_out or metric not in SHARES or not 0 <= share <= 1:
            return None
        return math.sqrt(share * (1 - share) / self.held_out)

    def final(self, metric: str) -> float | None:
        """The last value of a metric. It may be a score, a number that the probe writes (of the first kind of attention
        that has it), the run's `seconds` or `rate`, or `headline`, the run's own headline metric; of that, `best` is
        the best value at any evaluation."""
        if metric == HEADLINE:
            return self.scores.get(self.better[0])
        if metric == BEST:
            pick = max if self.better[1] == "up" else min
            last = self.scores.get(self.better[0])
            values = [value for _, value in self.curve] + ([] if last is None else [last])
            return pick(values) if self.scores and values else None
        probed = (curves.last[metric] for curves in self.probes.values() if metric in curves.last)
        times = {"seconds": self.seconds, "rate": self.rate}
        return self.scores.get(metric, next(probed, times.get(metric)))


def measurements(folder: RunFolder) -> Measurements:
    """What a run's folder holds, whether the run is finished or not. A damaged file, or records that no training
    writes, are a UserError."""
    try:
        return _measurements(folder)
    except UserError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise UserError(
            f"{folder.path} holds records that no training writes: {type(error).__name__} {error}"
        ) from None


def _measurements(folder: RunFolder) -> Measurements:
    result = folder.result or {}
    evaluations = [record for record in folder.records("metrics") if record.get("kind") == "eval"]
    scores, timing, trivial = (_numbers(result.get(part) or {}) for part in ("score", "timing", "trivial"))
    metric, direction = result.get("better") or _headline(scores or (evaluations[-1] if evaluations else {}))
    if direction not in ("up", "down"):
        raise ValueError(f"better is {direction!r}")
    evaluated = [record for record in evaluations if record.get(metric) is not None]
    return Measurements(
        better=(str(metric), direction),
        scores=scores,
        curve=[(_finite(record["step"]), _finite(record[metric])) for record in evaluated],
        probes=by_kind(folder.records("spectra")),
        seconds=timing.get("seconds"),
        rate=timing.get("rate"),
        machine=dict(result.get("machine") or {}),
        trivial=trivial,
        held_out=_held_out(folder, result),
        on_device=int(timing["on_device"]) if "on_device" in timing else None,
    )


def by_kind(records: Iterable[dict[str, Any]]) -> dict[str, ProbeCurves]:
    """Probe records, one per layer and step, as curves for each kind of attention."""
    kinds: dict[str, list[dict[str, Any]]] = {}
    for record in records:
        kinds.setdefault(str(record.get("kind", "")), []).append(record)
    return {kind: _curves(of_kind) for kind, of_kind in kinds.items()}


def _curves(records: list[dict[str, Any]]) -> ProbeCurves:
    logs: dict[int, list[tuple[int, float]]] = {}
    plain: dict[int, list[float]] = {}
    predictions = [_finite(value) for record in records if (value := record.get("gaussian_log_kappa")) is not None]
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
    layers: dict[int, list[float]] = {}
    for layer, value in logs[max(logs)] if logs else []:
        layers.setdefault(layer, []).append(value)
    return ProbeCurves(
        log_kappa=_means({step: [value for _, value in by_layer] for step, by_layer in logs.items()}),
        log_mean_kappa=[(step, math.log(value)) for step, value in _means(plain) if value > 0],
        layers=_means(layers),
        gaussian=math.fsum(predictions) / len(predictions) if predictions else None,
        more={name: _means(steps) for name, steps in more.items()},
        last=_last(records),
    )


def _last(records: list[dict[str, Any]]) -> dict[str, float]:
    """The mean over layers of every number of the last probe; a number inside a part is named `part.number`."""
    step = max((int(record["step"]) for record in records), default=0)
    numbers: dict[str, list[float]] = {}
    for record in records:
        if int(record["step"]) != step:
            continue
        parts = {part: fields for part, fields in record.items() if isinstance(fields, dict)}
        inner = {f"{part}.{name}": value for part, fields in parts.items() for name, value in fields.items()}
        for name, value in (record | inner).items():
            if isinstance(value, int | float) and not isinstance(value, bool):
                numbers.setdefault(name, []).append(_finite(value))
    return {name: math.fsum(values) / len(values) for name, values in numbers.items()}


def _inside(record: dict[str, Any], path: tuple[str, ...]) -> float | None:
    value: Any = record
    for name in path:
        if not isinstance(value, dict):
            return None
        value = value.get(name)
    return None if value is None else _finite(value)


def _means(groups: dict[int, list[float]]) -> list[Point]:
    return [(float(at), math.fsum(values) / len(values)) for at, values in sorted(groups.items())]


def _held_out(folder: RunFolder, result: dict[str, Any]) -> int | None:
    """How many samples are held out: what the result states, or else what the task asks for."""
    task = to_dict(folder.spec.task) if folder.spec else {}
    for value in (result.get("held_out"), *(task.get(name) for name in ("test_limit", "valid", "held"))):
        if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 1e12:
            return value
    return None


def _numbers(fields: dict[str, Any]) -> dict[str, float]:
    """The numbers of a record; text among them, such as a unit, is left out."""
    numbers = {name: value for name, value in fields.items() if value is not None and not isinstance(value, str)}
    return {str(name): _finite(value) for name, value in numbers.items()}


def _finite(value: Any) -> float:
    """A number that can be averaged and drawn: 1e999 is valid JSON and is refused."""
    number = float(value)
    if not abs(number) < 1e140:
        raise ValueError(f"{value!r} is no number that was measured")
    return number


def _headline(scores: dict[str, Any]) -> tuple[str, str]:
    """The metric to draw of an unfinished run, whose result does not name its headline yet."""
    usual = (("top1", "up"), ("loss", "down"))
    first = next((name for name in scores if name not in ("kind", "step", "samples")), "")
    return next((pair for pair in usual if pair[0] in scores), (first, "up"))
