"""The memory columns: what a training step of every row holds, in float32 with attention maps and in bfloat16 without.

    manyheads run memory --scale smoke     toy models, a second a run
    manyheads run memory --scale small     the pairs at their small size
    manyheads run memory --scale paper     all rows of Tables 1, 2, 4 and 5 as audited, at the batches of one of 8 GPUs

Each run is one measurement (`tasks.footprint`) of any model on any machine: PyTorch's tracker counts a step of fake
tensors, for which at smoke the formula stands in. Printed is a GPU's share of the tables' figures, in GB; it has an
overhead of about 3 GB that no tensor explains, and so a ratio nearer to 1 than what is tracked.
"""

from __future__ import annotations

from typing import Any

from manyheads.paper.rows import BY_ID
from manyheads.spec.arch import Arch
from manyheads.spec.experiment import Arm, Comparison, Experiment, Setting

from .pairs import BASE, LARGE, pair
from .table1 import models as bert
from .table2 import models as gpt2
from .vision_parts import SEEDS

KINDS: dict[str, dict[str, Any]] = {
    "fp32": {"precision": "fp32", "fused": False},
    "bf16": {"precision": "amp", "fused": True},
}
GPUS = 8
ROWS = {"smoke": 8, "small": 64}
LANGUAGE = {"crammed_bert": (bert, 128), "gpt2": (gpt2, 128)}  # rows at a time; BERT's is not stated, and 128 fits


def models(scale: str) -> dict[str, tuple[Arch, int]]:
    """Every model of the tables and how many examples it is given at a time."""
    out: dict[str, tuple[Arch, int]] = {}
    for key in BASE + LARGE:
        made = pair(key, scale)
        rows = ROWS.get(scale) or BY_ID[f"{key}/lean"].model.images_per_gpu
        out |= {f"{key}_original": (made.original, rows), f"{key}_lean": (made.lean, rows)}
    for key, (make, rows) in LANGUAGE.items():
        original, lean = make(scale)
        out |= {f"{key}_original": (original, ROWS.get(scale, rows)), f"{key}_lean": (lean, ROWS.get(scale, rows))}
    return out


def arms(scale: str) -> tuple[Arm, ...]:
    """Each model in both ways of computing; of models that are the same at a scale, the first."""
    first: dict[tuple[Arch, int], str] = {}
    for name, given in models(scale).items():
        first.setdefault(given, name)
    return tuple(
        Arm(f"{name}_{kind}", arch, f"{rows} rows", {"rows": rows} | fields)
        for (arch, rows), name in first.items()
        for kind, fields in KINDS.items()
    )


def printed() -> dict[str, float]:
    """GB of one GPU."""
    out = {}
    for key in (*BASE, *LARGE, *LANGUAGE):
        for role in ("original", "lean"):
            memory = BY_ID[f"{key}/{role}"].memory
            assert memory is not None
            out[f"{key}_{role}_fp32"] = memory if key in LANGUAGE else memory / GPUS
    return out


PRINTED = printed()
_ONES = (*BASE, "vit_l", "deit_l", *LANGUAGE)  # pairs that are there at every scale: the others are twins of these

MEMORY = Experiment(
    name="memory",
    title="Training memory",
    question="Does training memory fall when heads are traded for depth, in float32 with attention maps and in bfloat16?",
    settings={
        scale: Setting(arms(scale), SEEDS[scale], {"is": "Footprint", "track": scale != "smoke"}, {"once": {}})
        for scale in ("smoke", "small", "paper")
    },
    comparisons=tuple(
        Comparison(
            f"{key}_lean_{kind}",
            f"{key}_original_{kind}",
            "less",
            claim="L11",
            metric="memory",
            printed=round(PRINTED[f"{key}_lean_fp32"] - PRINTED[f"{key}_original_fp32"], 4) if kind == "fp32" else None,
        )
        for key in _ONES
        for kind in KINDS
    ),
    printed=PRINTED,
    shows="The memory of Tables 1, 2, 4 and 5 and Figures 6 and 7",
)
