"""Three layers at the paper's learning rate and below it: many runs at 0.01 never leave an output of zeros.

    manyheads run rank_rate --scale laptop     d=16, N=8, 5 seeds: about 12 minutes on 2 quiet cores
    manyheads run rank_rate --scale small      d=64, N=16, 20,000 steps
    manyheads run rank_rate --scale paper      the same, 100,000 steps

At the start an output is a unit vector that knows nothing, and its loss is 2, while zeros have 1: the scale s of the last
x s / |x| is the fastest way down, and at s = 0 nothing before it has a gradient. The paper shows the best of 5 seeds, which
hides how many came back. What depth is worth can only be read where training works.
"""

from __future__ import annotations

from .experiment import Arm, Comparison, Experiment, Setting
from .rank_parts import brief, encoder, laptop, recipe, task

RATES = (0.01, 0.003, 0.001)


def arms(dim: int, tokens: int, mlp_dim: int) -> tuple[Arm, ...]:
    """One layer at the paper's rate, three at every rate; heads of full and of half rank."""
    made = []
    for name, rank in (("full", dim), ("half", dim // 2)):
        for depth, rates in ((1, RATES[:1]), (3, RATES)):
            arch = encoder(dim, depth, 1, rank, tokens=tokens, mlp_dim=mlp_dim)
            made += [Arm(f"L{depth}_{name}_lr{rate:g}", arch, f"learning rate {rate:g}", recipe={"lr": rate})
                     for rate in rates]  # fmt: skip
    return tuple(made)


RATE = Experiment(
    name="rank_rate",
    title="Depth and learning rate",
    question="Does depth fail to help because it does not help, or because training at this rate breaks?",
    settings={
        **brief(Setting(arms(16, 8, 256), (0, 1, 2, 3, 4), task(16, 8, held=2048), {"steps": laptop(1500, 128, 0.01)})),
        "small": Setting(arms(64, 16, 2048), (0, 1, 2, 3, 4), task(64, 16), {"steps": recipe(20_000, 256, 0.01)}),
        "paper": Setting(arms(64, 16, 2048), (0, 1, 2, 3, 4), task(64, 16), {"steps": recipe(100_000, 256, 0.01)}),
    },
    comparisons=(
        Comparison("L3_full_lr0.003", "L3_full_lr0.01", "less"),
        Comparison("L3_half_lr0.003", "L3_half_lr0.01", "less"),
        Comparison("L3_half_lr0.003", "L1_half_lr0.01", "less", claim="A5"),
    ),
)  # fmt: skip
