"""Each arm at its own best learning rate: a design that only likes another rate than the original's is no worse design.

    manyheads run lr --scale smoke     three toy ViTs at three rates
    manyheads run lr --scale small     original, lean and depth_only of the ViT pair at five rates, 4 seeds
    manyheads run lr --scale paper     the same for ViT-B on ImageNet

lean_x2 is lean at twice the recipe's rate. The setting's `bests` say which arms are one design: its rate is the one that
is best at the first seed, and that seed then counts no more (`statistics.choose`)."""

from __future__ import annotations

from manyheads.arch.controls import depth_only
from manyheads.spec.experiment import Arm, Best, Comparison, Experiment, Setting

from .pairs import TASKS, pair, task
from .vision_parts import RECIPES

KEY = "vit_b"
FACTORS = {"smoke": (0.25, 1, 4), "small": (0.25, 0.5, 1, 2, 4), "paper": (0.1, 0.25, 0.5, 1, 2)}
DESIGNS = ("original", "lean", "depth_only")


def arms(scale: str) -> tuple[Arm, ...]:
    """Every design at every rate."""
    made = pair(KEY, scale)
    archs = dict(zip(DESIGNS, (made.original, made.lean, depth_only(made.original, made.lean).arch), strict=True))
    rate = RECIPES[scale]["lr"]
    return tuple(
        Arm(
            f"{name}_x{factor:g}",
            archs[name],
            f"learning rate {rate * factor:g}",
            task(KEY, scale),
            {"lr": rate * factor},
        )
        for name in DESIGNS
        for factor in FACTORS[scale]
    )


BESTS = {
    scale: tuple(Best(name, tuple(f"{name}_x{factor:g}" for factor in FACTORS[scale])) for name in DESIGNS)
    for scale in FACTORS
}

LR = Experiment(
    name="lr",
    title="Every arm at its own learning rate",
    question="Does lean still do as well as the original, and better than depth alone, when each has its best rate?",
    settings={
        scale: Setting(
            arms(scale),
            (0, 1) if scale == "smoke" else (0, 1, 2, 3),
            TASKS[scale],
            {"steps": RECIPES[scale]},
            BESTS[scale],
        )
        for scale in TASKS
    },
    comparisons=(
        Comparison("lean_x1", "original_x1", "no_loss", margin=0.005, claim="L9"),
        Comparison("lean_x1", "depth_only_x1", "more", claim="M1"),
    ),
)
