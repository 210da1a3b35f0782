"""A plan in sentences, for people, and as plain values, for machines."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from manyheads.arch.controls import per_stage
from manyheads.arch.count import params
from manyheads.spec import serialise as record
from manyheads.spec.html_table import html_table

from .rules import Remark

if TYPE_CHECKING:
    from .design import Design
    from .plan import Plan

SCHEMA = 1
SCRATCH = (
    "A redesign is another model: it trains from scratch, or from weights of a trained original that `manyheads "
    "transplant` folds or drops to its depth. Nothing here says how accurate it will be; the comparison to run does."
)


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
    dims = {name: per_stage(values) for name, values in design.dims.items()}
    shared = "" if design.dims["kv_heads"] == design.dims["heads"] else f" ({dims['kv_heads']} of keys and values)"
    mlp = f", MLP {dims['mlp_dim']}" if all(design.dims["mlp_dim"]) else ""
    layers = "layer" if dims["depth"] == "1" else "layers"
    return f"{dims['depth']} {layers}, {dims['heads']} heads of {dims['head_dim']}{shared}{mlp}"


def line(design: Design) -> str:
    """A design in one line: its shape, parameters, predicted kappa and the codes of its warnings."""
    count = f"{amount('params', design.costs['params'])} parameters ({design.ratios['params']:.2f}x)"
    codes = f"; {', '.join(design.codes)}" if design.codes else ""
    return f"{shape(design)}: {count}, predicted kappa {design.kappa:.3g} ({design.kappa_ratio:.2f}x){codes}"


def summary(plan: Plan) -> str:
    """A plan in one line: the original, the budget and how many designs fit it."""
    budget = ", ".join(f"{cap.name} <= {amount(cap.kind, cap.most)} ({cap.given})" for cap in plan.caps)
    counts = f"{plan.fitting:,} of {plan.considered:,} designs fit, {len(plan.front):,} are on the front"
    return f"{shape(plan.original)}; {budget}: {counts}, {len(plan.designs)} are listed"


def listing(plan: Plan) -> str:
    """A plan in a few lines: its summary, and the listed designs by number. Where nothing fits, it says why."""
    if plan.closest is not None:
        return impossible(plan)
    lines = [f"{number:>2}  {line(design)}" for number, design in enumerate(plan.designs, 1)]
    return "\n".join([summary(plan), *lines])


def html(plan: Plan) -> str:
    """A plan as a table of the original and the listed designs, for notebooks."""
    titles = ("", "layers", "heads", "head_dim", "MLP", "parameters", "FLOPs", "kappa", "warnings")
    named = [("original", plan.original), *((str(i), design) for i, design in enumerate(plan.designs, 1))]
    rows = [(name, *_cells(design)) for name, design in named]
    return html_table(titles, rows, summary(plan) if plan.closest is None else impossible(plan))


def _cells(design: Design) -> tuple[str, ...]:
    dims, ratios = design.dims, design.ratios
    sizes = tuple(per_stage(dims[name]) for name in ("depth", "heads", "head_dim", "mlp_dim"))
    count = f"{amount('params', design.costs['params'])} ({ratios['params']:.2f}x)"
    return (*sizes, count, f"{ratios['flops']:.2f}x", f"{design.kappa:.3g}", " ".join(design.codes))


def impossible(plan: Plan) -> str:
    """Why nothing fits: the least that each budget could be met with, and the design that misses by the least."""
    closest = plan.closest
    assert closest is not None
    budgets = " and ".join(f"{cap.name} <= {amount(cap.kind, cap.most)} ({cap.given})" for cap in plan.caps)
    gets = ", ".join(f"{amount(cap.kind, closest.costs[cap.kind])} {cap.name}" for cap in plan.caps)
    hard = [cap for cap in plan.caps if plan.least[cap.kind] > cap.most]
    if hard:
        why = " and ".join(f"{cap.name} cannot come below {amount(cap.kind, plan.least[cap.kind])}" for cap in hard)
    else:
        why = "each can be met alone, but not together"
    outside = closest.costs["params"] - float(params(closest.arch).non_embedding)
    fixed = (
        f"; {amount('params', outside)} parameters lie outside the layers" if hard and hard[0].kind == "params" else ""
    )
    return (
        f"no redesign fits {budgets}: {why}{fixed}. The closest has {gets}: {shape(closest)}. Loosen the budget, or the "
        "limits on depth, MLP and heads"
    )


def as_record(plan: Plan) -> dict[str, Any]:
    """The whole plan: the original, the budget, every listed design with its record, the front as columns."""
    front = plan.front
    return {
        "schema": SCHEMA,
        "original": design_record(plan.original),
        "budget": {cap.kind: {"most": cap.most, "given": cap.given} for cap in plan.caps},
        "limits": asdict(plan.limits),
        "use": asdict(plan.use),
        "considered": plan.considered,
        "fitting": plan.fitting,
        "seconds": plan.seconds,
        "designs": [design_record(design) for design in plan.designs],
        "also": [design_record(design) | {"on_front": design.arch in plan} for design in plan.also],
        "closest": None if plan.closest is None else design_record(plan.closest),
        "least": plan.least if plan.closest is not None else {},
        "front": {
            "depth": front.depth.tolist(),
            "heads": front.heads.tolist(),
            "head_dim": front.head_dim.tolist(),
            "mlp_dim": front.mlp_dim.tolist(),
            "kappa_ratio": front.kappa_ratio.tolist(),
            "costs": {kind: values.tolist() for kind, values in front.costs.items()},
            "serious": front.serious.tolist(),
            "cautions": front.cautions.tolist(),
        },
        "note": SCRATCH,
    }


def design_record(design: Design) -> dict[str, Any]:
    """One design as plain values, its record of architecture among them."""
    return design.dims | {
        "policy": design.policy,
        "fits": design.fits,
        "costs": design.costs,
        "ratios": design.ratios,
        "kappa": design.kappa,
        "kappa_ratio": design.kappa_ratio,
        "reasons": [_plain(reason) for reason in design.reasons],
        "warnings": [_plain(warning) for warning in design.warnings],
        "training": asdict(design.training),
        "arch": record.to_dict(design.arch),
    }


def _plain(remark: Remark) -> dict[str, Any]:
    return {"code": remark.code, "level": remark.level, "words": remark.words, "numbers": dict(remark.numbers)}
