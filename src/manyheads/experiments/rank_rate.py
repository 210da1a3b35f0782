"""Three layers at the paper's learning rate, below it, and after a longer warm-up: at d=16 and 0.01 runs end at zeros.

    manyheads run rank_rate --scale laptop     d=16, N=8, 5 seeds: about 7 minutes on 2 quiet cores
    manyheads run rank_rate --scale small      d=64, N=16, 20,000 steps
    manyheads run rank_rate --scale paper      the same, 100,000 steps

At the start an output is a unit vector that knows nothing, and its loss is 2, while zeros have 1: the scale s of the
last x s / |x| is a fast way down, and at s = 0 nothing before it has a gradient. The paper shows the best of 5 seeds,
which hides how many come back; and 5 % of its 100,000 steps are a warm-up of 5,000, of shorter runs a much faster one.
`slow` has 25 %: at small scale these are the paper's 5,000. What depth is worth can only be read where training works.
"""

from __future__ import annotations

from manyheads.spec.experiment import Arm, Comparison, Experiment, Setting

from .rank_parts import SLOW, brief, encoder, laptop, recipe, task

RATES = (0.01, 0.003, 0.001)


def arms(dim: int, tokens: int, mlp_dim: int) -> tuple[Arm, ...]:
    """One layer at the paper's rate, three at every rate, both after a longer warm-up; heads of full and of half
    rank."""
    made = []
    for name, rank in (("full", dim), ("half", dim // 2)):
        one, three = (encoder(dim, depth, 1, rank, tokens=tokens, mlp_dim=mlp_dim) for depth in (1, 3))
        for layers, arch, rates in (("L1", one, RATES[:1]), ("L3", three, RATES)):
            made += [
                Arm(f"{layers}_{name}_lr{rate:g}", arch, f"learning rate {rate:g}", recipe={"lr": rate})
                for rate in rates
            ]
            made.append(
                Arm(
                    f"{layers}_{name}_slow",
                    arch,
                    f"learning rate {RATES[0]:g}, warm-up of 25 %",
                    recipe={"lr": RATES[0], **SLOW},
                )
            )
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
        Comparison("L3_full_slow", "L3_full_lr0.01", "less"),
        Comparison("L3_half_slow", "L3_half_lr0.01", "less"),
        Comparison("L3_half_slow", "L1_half_slow", "less", claim="A5"),
    ),
)
