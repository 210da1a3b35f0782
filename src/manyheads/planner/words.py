"""Sentences about a whole plan."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .plan import Design, Plan


def amount(kind: str, value: float) -> str:
    """A cost as a person reads it: 40.11 M, 35.13 G, 139.8 MB, 5.2 ms."""
    if kind == "latency":
        return f"{value * 1e3:.3g} ms"
    scale = (
        (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)) if kind != "params" else (("B", 1e9), ("M", 1e6), ("k", 1e3))
    )
    unit = "B" if kind in ("memory", "kv_cache") else ""
    for name, size in scale:
        if value >= size:
            return f"{value / size:.{3 if name == 'B' else 2}f} {name}{unit}"
    return f"{value:.0f}{f' {unit}' if unit else ''}"


def shape(design: Design) -> str:
    """A design in a few words: 7 layers, 16 heads of 64, MLP 1536."""
    dims = {name: _each(values) for name, values in design.dims.items()}
    shared = "" if design.dims["kv_heads"] == design.dims["heads"] else f" ({dims['kv_heads']} of keys and values)"
    mlp = f", MLP {dims['mlp_dim']}" if all(design.dims["mlp_dim"]) else ""
    layers = "layer" if dims["depth"] == "1" else "layers"
    return f"{dims['depth']} {layers}, {dims['heads']} heads of {dims['head_dim']}{shared}{mlp}"


def _each(values: list[int]) -> str:
    return str(values[0]) if len(set(values)) == 1 else ",".join(map(str, values))


def impossible(found: Plan) -> str:
    """Why nothing fits: what each budget could come down to, and the design that misses by the least."""
    closest = found.closest
    assert closest is not None
    asked = " and ".join(f"{cap.name} <= {amount(cap.kind, cap.most)} ({cap.given})" for cap in found.caps)
    gets = ", ".join(f"{amount(cap.kind, closest.costs[cap.kind])} {cap.name}" for cap in found.caps)
    hard = [cap for cap in found.caps if found.least[cap.kind] > cap.most]
    if hard:
        why = " and ".join(f"{cap.name} cannot come below {amount(cap.kind, found.least[cap.kind])}" for cap in hard)
    else:
        why = "each can be met alone, but not together"
    kept = closest.costs["params"] - _layers(closest)
    fixed = f"; {amount('params', kept)} parameters lie outside the layers" if hard and hard[0].kind == "params" else ""
    return (
        f"no redesign fits {asked}: {why}{fixed}. The closest has {gets}: {shape(closest)}. Loosen the budget, or the "
        "limits on depth, MLP and heads"
    )


def _layers(design: Design) -> float:
    from manyheads.arch.count import params

    return float(params(design.arch).non_embedding)
