"""Whether more of a metric is better. Of some numbers nobody can say, such as the correlation of heads."""

from __future__ import annotations

from collections.abc import Sequence

from manyheads.experiments.verdict import Direction

from .read_runs import ArmRuns
from .run_measurements import BEST, HEADLINE

UP = ("top1", "top5", "accuracy", "skill", "f1", "mcc", "pearson", "spearman", "rate")
DOWN = ("loss", "perplexity", "bits", "seen", "deficient", "memory", "counted", "allocated", "seconds")
DOWN_BEGINS = ("cpu_", "gpu_")  # milliseconds
SPLITS = ("valid_", "test_")  # begin the name of a score on other samples


def direction(metric: str, arms: Sequence[ArmRuns]) -> Direction | None:
    """The direction in which `metric` is better, by the results of these arms; None where it is not known."""
    headlines = {run.measured.better for arm in arms for run in (arm.done or arm.runs)}
    stated = dict(sorted((name, way) for name, way in headlines))
    name = metric
    for split in SPLITS:
        name = name.removeprefix(split)
    if metric in (HEADLINE, BEST):
        ways = set(stated.values())
        way = ways.pop() if len(ways) == 1 else None
    elif metric in stated or name in stated:
        way = stated.get(metric, stated.get(name))
    elif name in UP:
        way = "up"
    else:
        known = name in DOWN or name.startswith(DOWN_BEGINS) or "kappa" in name
        way = "down" if known else None
    return "up" if way == "up" else "down" if way == "down" else None
