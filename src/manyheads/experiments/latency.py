"""Is a lean model faster? Nothing is trained, each run is one measurement (`tasks.speed`) of CPU and GPU.

    manyheads run latency --scale smoke     toy models, a second a run
    manyheads run latency --scale small     the pairs of the tables at their small size
    manyheads run latency --scale paper     the audited records: a few minutes each on a CPU

Milliseconds an example: alone (`cpu_1`, `gpu_1`), in a batch (`cpu_many`), in a training step (`cpu_train`). Run it
with one worker on a quiet machine; a seed measures again. `wide_heads` has lean's inner width from the original heads,
wider: the paper says that these train more slowly. Faster is one half of the claim: equal quality is what the tables
are about."""

from __future__ import annotations

from typing import Any

from manyheads.arch.controls import depth_only, wide_heads
from manyheads.spec.arch import Arch
from manyheads.spec.experiment import Arm, Comparison, Experiment, Setting

from .pairs import BASE, pair
from .table2 import models as gpt2
from .vision_parts import SEEDS

TASKS: dict[str, dict[str, Any]] = {
    "smoke": {"is": "Speed", "batch": 4, "gpu_batch": 16, "seconds": 0.05},
    "small": {"is": "Speed", "batch": 32, "gpu_batch": 512},
    "paper": {"is": "Speed", "batch": 8, "gpu_batch": 64},
}
KEYS = (*(key for key in BASE if key != "deit_b"), "vit_l", "xcit_l")  # DeiT-B is ViT-B; the other twins are in here
METRICS = ("cpu_1", "cpu_many", "gpu_1", "gpu_many")


def arms(scale: str) -> tuple[Arm, ...]:
    """Original and lean of every pair, some with depth_only and wide_heads. Of models that are the same, the first."""
    made: dict[str, tuple[Arch, str]] = {}
    for key in KEYS:
        one = pair(key, scale)
        made |= {f"{key}_original": (one.original, "as audited"), f"{key}_lean": (one.lean, f"heads {one.policy}")}
    base, (original, lean) = pair("vit_b", scale), gpt2(scale)
    made |= {
        "vit_b_depth_only": (depth_only(base.original, base.lean).arch, "lean's depth, the original's heads"),
        "vit_b_wide_heads": (wide_heads(base.original, base.lean).arch, "lean's inner width, the original's heads"),
        "gpt2_original": (original, "as audited"),
        "gpt2_lean": (lean, "heads split"),
        "gpt2_depth_only": (depth_only(original, lean).arch, "lean's depth, the original's heads"),
    }
    first: dict[Arch, Arm] = {}
    for name, (arch, note) in made.items():
        first.setdefault(arch, Arm(name, arch, note))
    return tuple(first.values())


LATENCY = Experiment(
    name="latency",
    title="How long they take",
    question="Is a lean model faster than its original, alone and in a batch, on a CPU and on a GPU?",
    settings={scale: Setting(arms(scale), SEEDS[scale], TASKS[scale], {"once": {}}) for scale in TASKS},
    alone=True,
    comparisons=(
        *(
            Comparison(f"{key}_lean", f"{key}_original", "less", claim="M4", metric=metric)
            for key in ("vit_b", "xcit_m", "tnt_b", "volo_d3", "davit_b", "vit_l", "gpt2")
            for metric in METRICS
        ),
        *(
            Comparison("vit_b_wide_heads", "vit_b_lean", "more", claim="L15", metric=metric)
            for metric in ("cpu_train", "gpu_train")
        ),
    ),
)
