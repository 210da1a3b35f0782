"""What one run measured, as a page needs it: final scores, the headline over steps, kappa over steps, seconds, machine."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from manyheads.arch.errors import UserError
from manyheads.runs import Found, Run

from .svg import Point

KIND = "log_kappa"


@dataclass(frozen=True)
class Measured:
    """One run. `curve` is the headline metric at each evaluation; `kappa` the mean over layers of log kappa at each probe,
    for each kind of attention, and `gaussian` what independent normal entries of that shape would give."""

    better: tuple[str, str]
    scores: dict[str, float]
    curve: list[Point]
    kappa: dict[str, list[Point]]
    gaussian: dict[str, float]
    seconds: float | None
    rate: float | None
    machine: dict[str, Any]

    def final(self, metric: str) -> float | None:
        """The last value of a score, or of `log_kappa`: of the first kind of attention, if there are several."""
        if metric == KIND:
            return next((points[-1][1] for points in self.kappa.values() if points), None)
        return self.scores.get(metric)


def by_kind(records: Iterable[dict[str, Any]]) -> tuple[dict[str, list[Point]], dict[str, float]]:
    """Probe records, one for each layer, as one curve of mean log kappa for each kind; and the predictions."""
    logs: dict[str, dict[int, list[float]]] = {}
    predicted: dict[str, list[float]] = {}
    for record in records:
        kind, value = str(record.get("kind", "")), record.get("log_kappa")
        if value is not None:
            logs.setdefault(kind, {}).setdefault(int(record["step"]), []).append(float(value))
        if record.get("gaussian_log_kappa") is not None:
            predicted.setdefault(kind, []).append(float(record["gaussian_log_kappa"]))
    curves = {kind: [(float(step), math.fsum(values) / len(values)) for step, values in sorted(steps.items())]
              for kind, steps in logs.items()}  # fmt: skip
    return curves, {kind: math.fsum(values) / len(values) for kind, values in predicted.items()}


def measured(found: Found) -> Measured:
    """What stands in a run's folder, finished or not. A damaged file, or records that make no sense, are a UserError."""
    try:
        return _measured(found)
    except UserError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UserError(f"{found.path} holds records that no training writes: {type(error).__name__} {error}") from None


def _measured(found: Found) -> Measured:
    run, result = Run.open(found.path), found.result or {}
    evaluations = [record for record in run.metrics.read() if record.get("kind") == "eval"]
    metric, direction = result.get("better") or _headline(evaluations)
    curve = [(float(record["step"]), float(record[metric])) for record in evaluations if record.get(metric) is not None]
    kappa, gaussian = by_kind(run.spectra.read())
    timing = result.get("timing", {})
    scores = {name: float(value) for name, value in result.get("score", {}).items() if value is not None}
    return Measured((metric, direction), scores, curve, kappa, gaussian, timing.get("seconds"), timing.get("rate"),
                    result.get("machine", {}))


def _headline(evaluations: list[dict[str, Any]]) -> tuple[str, str]:
    """The metric to draw of a run that is not finished, and so has not said which one decides."""
    last = evaluations[-1] if evaluations else {}
    return ("top1", "up") if "top1" in last else ("loss", "down") if "loss" in last else ("", "up")
