"""Figure 1 of the rank paper: error by rank per head, multiplier and depth.

    manyheads run rank_fig1 --scale laptop    d=16, N=8, 24 runs: about 6 minutes on 2 quiet cores
    manyheads run rank_fig1 --scale small     d=64, N=16, 48 runs of 20,000 steps: 8 minutes of an H200, see docs/sweep.md
    manyheads run rank_fig1 --scale paper     315 runs of 100,000 steps

Expected on a laptop: 0.06 at full rank and 0.57, 0.68, 0.74 at half, quarter and rank 1; the best linear guess has
0.765. The paper's numbers are digitised (2 %), the best of 5 seeds' lowest *training* loss on 100 batches that repeat;
ours are held-out on data that never does (see rank_replay)."""

from __future__ import annotations

from collections.abc import Iterable

from manyheads.spec.experiment import Arm, Comparison, Experiment, Setting

from .rank_parts import SLOW, brief, encoder, laptop, rank_name, recipe, task, width_name

RANKS = (1, 2, 4, 8, 16, 32, 64)
PRINTED = {  # d=64, N=16; depth, multiplier: error at each of RANKS
    (1, "d2"): (0.87, 0.87, 0.86, 0.84, 0.80, 0.695, 0.0153),
    (1, "d2.5"): (0.835, 0.817, 0.786, 0.734, 0.619, 0.432, 0.0069),
    (1, "d3"): (0.652, 0.615, 0.588, 0.573, 0.461, 0.307, 0.0019),
    (3, "d2"): (0.80, 0.796, 0.410, 0.217, 0.126, 0.052, 0.0032),
    (3, "d2.5"): (0.58, 0.39, 0.223, 0.108, 0.068, 0.036, 0.0070),
    (3, "d3"): (0.521, 0.382, 0.055, 0.042, 0.053, 0.056, 0.0008),
    (5, "d2"): (0.90, 0.88, 0.85, 0.78, 0.91, 0.69, 0.60),
    (5, "d2.5"): (0.41, 0.14, 0.063, 0.062, 0.045, 0.019, 0.0065),
    (5, "d3"): (0.424, 0.116, 0.061, 0.026, 0.022, 0.014, 0.0020),
}


def arms(
    dim: int, tokens: int, mlp_dim: int, depths: Iterable[int], multipliers: Iterable[int], ranks: Iterable[int]
) -> tuple[Arm, ...]:
    """The grid, row by row."""
    return tuple(
        Arm(
            f"L{depth}_{width_name(dim, multiplier)}_{rank_name(dim, rank)}",
            encoder(dim, depth, multiplier, rank, tokens=tokens, mlp_dim=mlp_dim),
            f"{multiplier * dim // rank} heads of {rank}",
        )
        for depth in depths
        for multiplier in multipliers
        for rank in ranks
    )


FIG1 = Experiment(
    name="rank_fig1",
    title="Rank against heads",
    question="At the same parameters, do more and thinner heads hurt; and do more heads help where their rank stays?",
    settings={
        **brief(
            Setting(
                arms(16, 8, 256, (1,), (1, 4), (16, 8, 4, 1)),
                (0, 1, 2),
                task(16, 8, held=2048),
                {"steps": laptop(3000, 128, 0.01)},
            )
        ),
        "small": Setting(
            arms(64, 16, 2048, (1, 3), (1, 8), (64, 32, 16, 4)),
            (0, 1, 2),
            task(64, 16),
            {"steps": recipe(20_000, 256, 0.01, **SLOW)},
        ),
        "paper": Setting(
            arms(64, 16, 2048, (1, 3, 5), (1, 8, 64), RANKS[::-1]),
            (0, 1, 2, 3, 4),
            task(64, 16),
            {"steps": recipe(100_000, 256, 0.01)},
        ),
    },
    comparisons=(
        Comparison("L1_d2_half", "L1_d2_full", "more", claim="A3", printed=0.68),
        Comparison("L1_d2_quarter", "L1_d2_half", "more", claim="A3", printed=0.105),
        Comparison("L1_d2.5_quarter", "L1_d2.5_half", "more", claim="A3", printed=0.187),
        Comparison("L1_d2.5_half", "L1_d2_half", "less", claim="A4", printed=-0.263),
        Comparison("L1_d2.5_quarter", "L1_d2_quarter", "less", claim="A4", printed=-0.181),
    ),
    printed={
        f"L{depth}_{width}_{rank_name(64, rank)}": value
        for (depth, width), row in PRINTED.items()
        for rank, value in zip(RANKS, row, strict=True)
    },
)
