"""Runs whose time counts: nothing else may run beside them, since processes that share a device slow each other."""

from __future__ import annotations

from .experiment import Experiment
from .measurements import Measurement, Speed
from .run import RunSpec

TIMES = ("seconds", "rate")  # numbers of a finished run that are times, and no scores of its task


def timed(spec: RunSpec, experiment: Experiment | None = None) -> bool:
    """Whether time decides what a run gives: its budget is seconds, it measures speed, or its `experiment` is `alone`
    or compares a time of its arm."""
    if isinstance(spec.task, Speed):
        return True
    if not isinstance(spec.task, Measurement) and spec.recipe.basis.kind == "seconds":
        return True
    if experiment is None:
        return False
    compared = [{pair.arm, pair.against} for pair in experiment.comparisons if pair.metric in TIMES]
    over_all = any(trend.x in TIMES or trend.y in TIMES for trend in experiment.trends)
    return experiment.alone or over_all or any(spec.label.get("arm") in arms for arms in compared)
