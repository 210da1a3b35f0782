"""What lean models cost: time (`latency`) and memory (`memory`). Nothing is trained; each run is one measurement."""

from __future__ import annotations

from math import log
from typing import Any

from manyheads.arch.controls import depth_only, wide_heads
from manyheads.paper.rows import BY_ID
from manyheads.spec.arch import Arch
from manyheads.spec.experiment import Arm, Comparison, Experiment, Setting
from manyheads.spec.measurements import Footprint, Speed

from .crammed_bert import models as bert
from .gpt2_stories import models as gpt2
from .scales import ONCE, SEEDS
from .vision_pairs import BASE, LARGE, TWICE, pair

SPEEDS = {
    "smoke": Speed(batch=4, gpu_batch=16, seconds=0.05),
    "small": Speed(batch=32, gpu_batch=512),
    "paper": Speed(batch=8, gpu_batch=64),
}
KEYS = (*(key for key in BASE if key not in TWICE), "vit_l", "xcit_l")  # DeiT-B is ViT-B; the other twins are in here
METRICS = ("cpu_1", "cpu_many", "gpu_1", "gpu_many")


def latency_arms(scale: str) -> tuple[Arm, ...]:
    """Original and lean of every pair, some with depth_only and wide_heads. Of models that are the same, the first."""
    models: dict[str, tuple[Arch, str]] = {}
    for key in KEYS:
        both = pair(key, scale)
        models |= {f"{key}_original": (both.original, "as audited"), f"{key}_lean": (both.lean, f"heads {both.policy}")}
    base, (original, lean) = pair("vit_b", scale), gpt2(scale)
    models |= {
        "vit_b_depth_only": (depth_only(base.original, base.lean).arch, "lean's depth, the original's heads"),
        "vit_b_wide_heads": (wide_heads(base.original, base.lean).arch, "lean's inner width, the original's heads"),
        "gpt2_original": (original, "as audited"),
        "gpt2_lean": (lean, "heads split"),
        "gpt2_depth_only": (depth_only(original, lean).arch, "lean's depth, the original's heads"),
    }
    first: dict[Arch, Arm] = {}
    for name, (arch, note) in models.items():
        first.setdefault(arch, Arm(name, arch, note))
    return tuple(first.values())


LATENCY = Experiment(
    name="latency",
    title="How long they take",
    question="Is a lean model faster than its original, alone and in a batch, on a CPU and on a GPU?",
    settings={scale: Setting(latency_arms(scale), SEEDS[scale], SPEEDS[scale], ONCE) for scale in SPEEDS},
    alone=True,
    comparisons=(
        *(
            Comparison(f"{key}_lean", f"{key}_original", "less", metric=metric)
            for key in ("vit_b", "xcit_m", "tnt_b", "volo_d3", "davit_b", "vit_l", "gpt2")
            for metric in METRICS
        ),
        *(Comparison("vit_b_wide_heads", "vit_b_lean", "more", metric=metric) for metric in ("cpu_train", "gpu_train")),
    ),
)
"""Is a lean model faster? Each run measures time on CPU and GPU (`spec.measurements.Speed`).

    manyheads run latency --scale smoke     toy models, a second a run
    manyheads run latency --scale small     the pairs of the tables at their small size
    manyheads run latency --scale paper     the audited records: a few minutes each on a CPU

Milliseconds an example: alone (`cpu_1`, `gpu_1`), in a batch (`cpu_many`), in a training step (`cpu_train`). Run it
with one worker on a quiet machine; another seed measures again. `wide_heads` has lean's inner width from the original
number of heads, wider: the paper says that these train more slowly, but their head_dim of 85 is one that kernels
dislike, so that it decides nothing. Nor does a lean model's lower time decide M4, faster at equal quality: the tables
have the quality."""

KINDS: dict[str, dict[str, Any]] = {
    "fp32": {"precision": "fp32", "fused": False},
    "bf16": {"precision": "amp", "fused": True},
}
GPUS = 8
ROWS = {"smoke": 8, "small": 64}
LANGUAGE = {"crammed_bert": (bert, 128), "gpt2": (gpt2, 128)}  # rows at a time; BERT's is not stated, and 128 fits


def models(scale: str) -> dict[str, tuple[Arch, int]]:
    """Every model of the tables and how many examples it takes at a time."""
    out: dict[str, tuple[Arch, int]] = {}
    for key in BASE + LARGE:
        both = pair(key, scale)
        rows = ROWS.get(scale) or BY_ID[f"{key}/lean"].model.images_per_gpu
        out |= {f"{key}_original": (both.original, rows), f"{key}_lean": (both.lean, rows)}
    for key, (make, rows) in LANGUAGE.items():
        original, lean = make(scale)
        out |= {f"{key}_original": (original, ROWS.get(scale, rows)), f"{key}_lean": (lean, ROWS.get(scale, rows))}
    return out


def memory_arms(scale: str) -> tuple[Arm, ...]:
    """Each model in both ways of computing; of models that are the same at a scale, the first."""
    first: dict[tuple[Arch, int], str] = {}
    for name, model in models(scale).items():
        first.setdefault(model, name)
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
_PAIRS = (*BASE, "vit_l", "deit_l", *LANGUAGE)  # pairs that are there at every scale: the others are twins of these

MEMORY = Experiment(
    name="memory",
    title="Training memory",
    question="Does training memory fall when heads are traded for depth, in float32 with attention maps and in bfloat16?",
    settings={
        scale: Setting(memory_arms(scale), SEEDS[scale], Footprint(track=scale != "smoke"), ONCE) for scale in SEEDS
    },
    comparisons=tuple(
        Comparison(
            f"{key}_lean_{kind}",
            f"{key}_original_{kind}",
            "equal",
            0.1,
            "L11",
            "memory",
            primary=kind == "fp32" and key not in TWICE,
            ratio=True,
            target=log(PRINTED[f"{key}_lean_fp32"] / PRINTED[f"{key}_original_fp32"]),
            scales=("paper",),
        )
        for key in _PAIRS
        for kind in KINDS
    )
    + tuple(
        Comparison(f"{key}_lean_{kind}", f"{key}_original_{kind}", "less", metric="memory", ratio=True)
        for key in _PAIRS
        for kind in KINDS
    ),
    printed=PRINTED,
    shows="The memory of Tables 1, 2, 4 and 5 and Figures 6 and 7",
)
"""The memory columns: what a training step holds, in float32 with attention maps and in bfloat16 without.

    manyheads run memory --scale smoke     toy models, a second a run
    manyheads run memory --scale small     the pairs at their small size
    manyheads run memory --scale paper     all rows of Tables 1, 2, 4 and 5 as audited, at the batches of one of 8 GPUs

Each run measures any model on any machine (`spec.measurements.Footprint`): PyTorch's tracker counts a step of fake
tensors; at smoke the formula takes its place. Printed is one GPU's share of the tables' figures, in
GB. It has an overhead of about 3 GB that no tensor explains, and so a ratio nearer to 1 than what is tracked."""
