"""GLUE's metrics, their standard errors, and a table of medians over seeds."""

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
# Table 1 averages these eight numbers. The original code averages nine: it adds MNLI's second file.
TASKS = tuple(GLUE_SETS)


def confusion(answers: Classes, true: Classes) -> tuple[int, int, int, int]:
    """True positives, false positives, false negatives, true negatives of class 1."""
    pairs: tuple[Bool[np.ndarray, " rows"], ...] = (
        (answers == 1) & (true == 1),
        (answers == 1) & (true != 1),
        (answers != 1) & (true == 1),
        (answers != 1) & (true != 1),
    )
    tp, fp, fn, tn = (int(part.sum()) for part in pairs)
    return tp, fp, fn, tn


def accuracy(answers: Classes, true: Classes) -> float:
    """Share of right answers."""
    return float((answers == true).mean())


def f1(answers: Classes, true: Classes) -> float:
    """2 TP / (2 TP + FP + FN) of class 1; 0 where there are neither answers nor examples of it."""
    tp, fp, fn, _ = confusion(answers, true)
    return 2 * tp / (2 * tp + fp + fn) if tp else 0.0


def matthews(answers: Classes, true: Classes) -> float:
    """(TP TN - FP FN) / sqrt((TP+FP)(TP+FN)(TN+FP)(TN+FN)); 0 where every answer is the same class, or every
    example."""
    tp, fp, fn, tn = confusion(answers, true)
    below = (tp + fp) * (tp + fn) * (tn + fp) * (tn + fn)
    return (tp * tn - fp * fn) / math.sqrt(below) if below else 0.0


def pearson(answers: Numbers, true: Numbers) -> float:
    """Pearson's correlation; 0 where one side is constant."""
    a, b = answers - answers.mean(), true - true.mean()
    below = math.sqrt(float(a @ a) * float(b @ b))
    return float(a @ b) / below if below else 0.0


def spearman(answers: Numbers, true: Numbers) -> float:
    """Spearman's correlation: that of the ranks."""
    return pearson(ranks(answers), ranks(true))


def ranks(values: Numbers) -> Numbers:
    """Ranks from 1 for the smallest value; equal values share the mean of their ranks."""
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return (last - (counts - 1) / 2)[place]


def binomial_error(share: float, rows: int) -> float:
    """Standard error of a share of right answers among `rows`: sqrt(p (1 - p) / n)."""
    return math.sqrt(max(0.0, share * (1 - share)) / rows)


def correlation_error(correlation: float, rows: int) -> float:
    """Standard error of a correlation r, accurate for many rows: (1 - r^2) / sqrt(n - 1)."""
    return (1 - correlation * correlation) / math.sqrt(max(1, rows - 1))


@dataclass(frozen=True)
class GlueLine:
    """One task over seeds, in percent: the median, lowest and highest score, and the standard error that the size of
    the held-out set leaves at the median. A smaller difference between two models says nothing."""

    task: str
    median: float
    low: float
    high: float
    seeds: int
    error: float


def lines(scores: Mapping[str, Sequence[Mapping[str, float]]]) -> list[GlueLine]:
    """One line a task: GLUE's metric among the final scores of each seed (`Work.score`)."""
    out = []
    for task, outcomes in scores.items():
        if task not in GLUE_SETS or not outcomes:
            raise UserError(
                f"scores of {task!r}: write a GLUE task ({', '.join(GLUE_SETS)}) with the scores of at least one seed"
            )
        metric = GLUE_SETS[task].metric
        values = [100 * score[metric] for score in outcomes]
        middle = median(values)
        nearest = min(outcomes, key=lambda score: abs(100 * score[metric] - middle))
        out.append(GlueLine(task, middle, min(values), max(values), len(values), 100 * nearest["standard_error"]))
    return out


def average(entries: Sequence[GlueLine]) -> float:
    """Mean of the medians of all eight tasks. Fewer are refused: their mean is not comparable."""
    missing = [task for task in TASKS if task not in {line.task for line in entries}]
    if missing:
        raise UserError(f"an average over GLUE without {', '.join(missing)} is not comparable; run those too")
    return mean(line.median for line in entries)


def table(entries: Sequence[GlueLine]) -> str:
    """The lines as text: `rte   71.8 +- 2.7   (70.4 to 73.3, 5 seeds)`."""
    rows = [
        f"{line.task:5} {GLUE_SETS[line.task].metric:9} {line.median:5.1f} +- {line.error:3.1f}   ({line.low:.1f} to "
        f"{line.high:.1f}, {line.seeds} seed{'s' * (line.seeds > 1)})"
        for line in entries
    ]
    if {line.task for line in entries} >= set(TASKS):
        rows.append(f"mean of eight   {average(entries):5.1f}")
    return "\n".join(rows)
