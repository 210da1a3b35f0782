"""An effect as a strip: the interval over seeds, zero, the side that was expected, and what the paper printed."""

from __future__ import annotations

import math
from html import escape

from manyheads.experiments.verdict import signed

from .judged import Judged
from .scale import Axis

WIDTH, HEIGHT, EDGE = 132, 22, 6


def strip(item: Judged) -> str:
    """The strip of a comparison; nothing where there is nothing to compare."""
    found = item.effect
    if found is None:
        return ""
    ends = [end for end in (found.low, found.high) if math.isfinite(end)]
    marks = [0.0, found.difference, *ends, *([] if item.pair.printed is None else [item.pair.printed])]
    margin = item.pair.margin
    axis = Axis.over([*marks, *([margin, -margin] if margin else [])], room=0.08)

    def at(value: float) -> float:
        return EDGE + axis.share(min(max(value, axis.low), axis.high)) * (WIDTH - 2 * EDGE)

    middle = HEIGHT / 2
    name = f"{item.pair.arm} against {item.pair.against}: {signed(found.difference, item.metric)}"
    parts = [f'<svg class="strip" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(name)}">']
    parts += [
        f'<path class="wanted" d="M{at(a):.1f} 2H{at(b):.1f}V{HEIGHT - 2}H{at(a):.1f}z"/>' for a, b in wanted(item)
    ]
    parts.append(f'<path class="axis" d="M{at(0.0):.1f} 1V{HEIGHT - 1}"/>')
    if ends:  # one seed has no interval
        parts.append(f'<path class="span" d="M{at(found.low):.1f} {middle}H{at(found.high):.1f}"/>')
    parts.append(f'<circle class="mean" cx="{at(found.difference):.1f}" cy="{middle}" r="3.6"/>')
    if item.pair.printed is not None:
        x = at(item.pair.printed)
        parts.append(f'<path class="paper" d="M{x:.1f} {middle - 5}l5 5l-5 5l-5 -5z"/>')
    return "".join(parts) + "</svg>"


def wanted(item: Judged) -> list[tuple[float, float]]:
    """Where the whole interval has to be for the claim to hold."""
    margin, far = item.pair.margin, math.inf
    match item.pair.expect:
        case "more":
            return [(margin, far)]
        case "less":
            return [(-far, -margin)]
        case "no_loss":
            return [(-margin, far)] if item.better == "up" else [(-far, margin)]
        case _:
            return [(-far, -margin), (margin, far)] if margin else []
