"""Numbers, durations and metrics as text: in tables, in sentences, and along the axes of figures."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from manyheads.experiments.statistics import mean, spread
from manyheads.experiments.verdict import SHARES

from .glossary import METRICS


def count(value: float) -> str:
    """Parameters, operations, bytes: 155.3 k, 40.11 M, 35.13 G."""
    for size, unit in ((1e18, "E"), (1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:.{1 if unit == 'k' else 2}f} {unit}"
    return f"{value:.0f}"


def duration(seconds: float) -> str:
    """3.8 ms, 28 s, 3 min 20 s, 2 h 05 min."""
    if seconds < 0.1:
        return f"{1000 * seconds:.2g} ms"
    if seconds < 100:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 100:
        return f"{minutes} min {rest:02d} s"
    return f"{minutes // 60} h {minutes % 60:02d} min"


def score(value: float, metric: str) -> str:
    """A score of a task; a share is written in percent."""
    return f"{100 * value:.1f} %" if metric in SHARES else f"{value:.4g}"


def with_spread(values: Sequence[float], metric: str) -> str:
    """Mean and standard deviation over seeds; one seed has no spread."""
    if not values:
        return ""
    if len(values) == 1:
        return score(values[0], metric)
    if metric in SHARES:
        return f"{100 * mean(values):.1f} ± {100 * spread(values):.1f} %"
    scatter = spread(values) if spread(values) > 1e-12 * abs(mean(values)) else 0.0  # less is rounding
    return f"{mean(values):.4g} ± {scatter:.2g}"


def kappa(log_kappa: float | None) -> str:
    """kappa from its logarithm: 2.31, 48.2, 3.1e5."""
    if log_kappa is None:
        return ""
    if log_kappa > 300:
        return "infinite"
    value = math.exp(log_kappa)
    if value >= 1e4:
        return power(value)
    return f"{value:.2f}" if value < 10 else f"{value:.1f}" if value < 100 else f"{value:.0f}"


def power(value: float) -> str:
    """A large number in few characters: 2e5, 1.6e5."""
    digits, exponent = f"{value:.1e}".split("e")
    return f"{digits.removesuffix('.0')}e{int(exponent)}"


def each(values: Sequence[object]) -> str:
    """One value where all stages agree, or one per stage."""
    return str(values[0]) if len(set(values)) == 1 else ", ".join(map(str, values))


def is_kappa(metric: str) -> bool:
    """Whether a metric is a condition number, whose axis is logarithmic."""
    return metric.endswith("kappa") and not metric.startswith("log")


def axis_name(metric: str) -> str:
    """A metric and its unit, beside an axis."""
    unit = "%" if metric in SHARES else METRICS.get(metric, ("", ""))[0]
    return f"{metric}, {unit}" if unit else metric


def at_tick(metric: str) -> Callable[[float], str]:
    """The function that writes values of a metric at the ticks of an axis."""
    return (lambda value: f"{100 * value:g}") if metric in SHARES else plain


def steps(value: float) -> str:
    """A number of steps at a tick."""
    return f"{value:,.0f}" if value < 1e5 else short(value)


def short(value: float) -> str:
    """A number of parameters at a tick."""
    text, _, unit = count(value).partition(" ")
    return f"{float(text):g} {unit}".strip()


def plain(value: float) -> str:
    """Any other number at a tick."""
    return f"{value:.6g}" if abs(value) < 1e4 else power(value)
