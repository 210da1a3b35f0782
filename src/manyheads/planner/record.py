"""A plan as plain values, for machines."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from manyheads.spec import serialise as record

from .notes import Note
from .plan import SCRATCH, Design, Plan

SCHEMA = 1


def as_record(found: Plan) -> dict[str, Any]:
    """The whole plan: the original, the budget, every listed design with its record, the front as columns."""
    front = found.front
    return {
        "schema": SCHEMA,
        "original": design_record(found.original),
        "budget": {cap.kind: {"most": cap.most, "given": cap.given} for cap in found.caps},
        "limits": asdict(found.limits),
        "use": asdict(found.use),
        "considered": found.considered,
        "fitting": found.fitting,
        "seconds": found.seconds,
        "designs": [design_record(design) for design in found.designs],
        "also": [design_record(design) | {"on_front": design.arch in found} for design in found.also],
        "closest": None if found.closest is None else design_record(found.closest),
        "least": found.least if found.closest is not None else {},
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
        "reasons": [_note(note) for note in design.reasons],
        "warnings": [_note(note) for note in design.warnings],
        "training": asdict(design.training),
        "arch": record.to_dict(design.arch),
    }


def _note(note: Note) -> dict[str, Any]:
    return {"code": note.code, "level": note.level, "words": note.words, "numbers": dict(note.numbers)}
