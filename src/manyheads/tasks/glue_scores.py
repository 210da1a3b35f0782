"""GLUE's metrics and what stands beside them: a standard error, and the median over seeds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import mean, median

import numpy as np
from jaxtyping import Bool, Float, Int

from manyheads.spec.datasets import GLUE_SETS
from manyheads.spec.errors import UserError

Classes = Int[np.ndarray, " rows"]
Numbers = Float[np.ndarray, " rows"]
# Table 1 averages eight numbers; the original code nine, with MNLI's second file.
TASKS = tuple(GLUE_SETS)


def confusion(found: Classes, true: Classes) -> tuple[int, int, int, int]:
    """True positives, false positives, false negatives, true negatives of class 1."""
    pairs: tuple[Bool[np.ndarray, " rows"], ...] = (
        (found == 1) & (true == 1),
        (found == 1) & (true != 1),
        (found != 1) & (true == 1),
        (found != 1) & (true != 1),
    )
    tp, fp, fn, tn = (int(part.sum()) for part in pairs)
    return tp, fp, fn, tn


def accuracy(found: Classes, true: Classes) -> float:
    """Share of right answers."""
    return float((found == true).mean())


def f1(found: Classes, true: Classes) -> float:
    """2 TP / (2 TP + FP + FN) of class 1; 0 where none is found and none is there."""
    tp, fp, fn, _ = confusion(found, true)
    return 2 * tp / (2 * tp + fp + fn) if tp else 0.0


def matthews(found: Classes, true: Classes) -> float:
    """(TP TN - FP FN) / sqrt((TP+FP)(TP+FN)(TN+FP)(TN+FN)); 0 where one answer is always given."""
    tp, fp, fn, tn = confusion(found, true)
    below = (tp + fp) * (tp + fn) * (tn + fp) * (tn + fn)
    return (tp * tn - fp * fn) / math.sqrt(below) if below else 0.0


def pearson(found: Numbers, true: Numbers) -> float:
    """Correlation; 0 where one side does not vary."""
    a, b = found - found.mean(), true - true.mean()
    below = math.sqrt(float(a @ a) * float(b @ b))
    return float(a @ b) / below if below else 0.0


def spearman(found: Numbers, true: Numbers) -> float:
    """Correlation of ranks, equal values sharing their mean rank."""
    return pearson(ranks(found), ranks(true))


def ranks(values: Numbers) -> Numbers:
    """1 for the smallest; equal values have the mean of their ranks."""
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return (last - (counts - 1) / 2)[place]


def binomial_error(share: float, rows: int) -> float:
    """Standard error of a share of right answers among `rows`: sqrt(p (1 - p) / n)."""
    return math.sqrt(max(0.0, share * (1 - share)) / rows)


def correlation_error(found: float, rows: int) -> float:
    """Standard error of a correlation, for many rows: (1 - r^2) / sqrt(n - 1)."""
    return (1 - found * found) / math.sqrt(max(1, rows - 1))


@dataclass(frozen=True)
class Line:
    """One task over seeds, in percent: the median of its scores, their ends, and the held-out set's own standard error
    at the median, below which a difference between two models says nothing."""

    task: str
    median: float
    low: float
    high: float
    seeds: int
    error: float


def lines(scores: Mapping[str, Sequence[Mapping[str, float]]]) -> list[Line]:
    """A line for every task: of the scores that its seeds ended with (`Work.score`), the metric that GLUE reports."""
    out = []
    for task, found in scores.items():
        if task not in GLUE_SETS or not found:
            raise UserError(
                f"scores of {task!r}: write a GLUE task ({', '.join(GLUE_SETS)}) with scores of one seed or more"
            )
        metric = GLUE_SETS[task].metric
        values = [100 * score[metric] for score in found]
        middle = median(values)
        nearest = min(found, key=lambda score: abs(100 * score[metric] - middle))
        out.append(Line(task, middle, min(values), max(values), len(values), 100 * nearest["standard_error"]))
    return out


def average(found: Sequence[Line]) -> float:
    """Mean of the medians of all eight tasks; fewer are refused, since a mean of others means something else."""
    missing = [task for task in TASKS if task not in {line.task for line in found}]
    if missing:
        raise UserError(f"an average over GLUE without {', '.join(missing)} is not GLUE's; run those too")
    return mean(line.median for line in found)


def table(found: Sequence[Line]) -> str:
    """For people: `rte   71.8 +- 2.7   (70.4 to 73.3, 5 seeds)`."""
    rows = [
        f"{line.task:5} {GLUE_SETS[line.task].metric:9} {line.median:5.1f} +- {line.error:3.1f}   ({line.low:.1f} to "
        f"{line.high:.1f}, {line.seeds} seed{'s' * (line.seeds > 1)})"
        for line in found
    ]
    if {line.task for line in found} >= set(TASKS):
        rows.append(f"mean of eight   {average(found):5.1f}")
    return "\n".join(rows)
