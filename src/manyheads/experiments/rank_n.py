"""The sweep over the number of points, with depth: does depth make up for low rank, and does it still for long
sequences?

    manyheads run rank_n --scale laptop       d=16, N=4 and 64, 1 and 2 layers
    manyheads run rank_n --scale small        d=64, N=4 to 256, 1, 2 and 4 layers, multiplier 8, 10,000 steps
    manyheads run rank_n --scale paper        d=64, N=4 to 256, 2 layers, multiplier 64, 200,000 steps

The batch shrinks as N grows at smoke and small, so that a step always trains on as many answers. Errors of different N
are compared by skill, the share of the best linear guess's error that is gone."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from manyheads.spec.experiment import Arm, Comparison, Experiment, Setting

from .rank_parts import SLOW, brief, encoder, laptop, rank_name, recipe, task

RANKS = (1, 8, 16, 32, 64)
PRINTED = {  # L=2, multiplier 64, digitised: N: error at each of RANKS
    4: (0.023, 0.013, 0.004, 0.006, 0.006),
    16: (0.63, 0.415, 0.329, 0.231, 0.01),
    64: (0.81, 0.69, 0.60, 0.43, 0.02),
    256: (1.17, 0.81, 0.72, 0.54, 0.04),
}


def arms(
    dim: int,
    mlp_dim: int,
    multiplier: int,
    lengths: Iterable[int],
    depths: Iterable[int],
    ranks: Iterable[int],
    answers: int = 0,
) -> tuple[Arm, ...]:
    """N by N; each step trains on `answers` of them where that is stated."""
    out = []
    for tokens in lengths:
        own: dict[str, Any] = {"batch": answers // tokens} if answers else {}
        for depth in depths:
            for rank in ranks:
                name, note = f"N{tokens}_L{depth}_{rank_name(dim, rank)}", f"{multiplier * dim // rank} heads of {rank}"
                made = encoder(dim, depth, multiplier, rank, tokens=tokens, mlp_dim=mlp_dim)
                out.append(Arm(name, made, note, {"tokens": tokens}, own))
    return tuple(out)


RANK_N = Experiment(
    name="rank_n",
    title="Rank against length",
    question="Does depth make up for low rank, and does it still when there are many points?",
    settings={
        **brief(
            Setting(
                arms(16, 256, 4, (4, 64), (1, 2), (16, 4), 1024),
                (0, 1, 2),
                task(16, 0, held=1024),
                {"steps": laptop(2500, 1, 0.005, **SLOW)},
            )
        ),
        "small": Setting(
            arms(64, 2048, 8, (4, 16, 64, 256), (1, 2, 4), (64, 32, 16), 4096),
            (0, 1, 2),
            task(64, 0),
            {"steps": recipe(10_000, 1, 0.005, **SLOW)},
        ),
        "paper": Setting(
            arms(64, 2048, 64, (4, 16, 64, 256), (2,), RANKS) + arms(64, 2048, 64, (4, 64), (1,), (64, 16)),
            (0, 1, 2, 3, 4),
            task(64, 0),
            {"steps": recipe(200_000, 256, 0.005)},
        ),
    },
    comparisons=(
        Comparison("N4_L2_quarter", "N4_L1_quarter", "less", claim="A5"),
        Comparison("N64_L2_quarter", "N64_L2_full", "more", claim="A6", printed=0.58),
        Comparison("N64_L2_quarter", "N4_L2_quarter", "less", claim="A6", metric="skill"),
    ),
    printed={
        f"N{tokens}_L2_{rank_name(64, rank)}": value
        for tokens, row in PRINTED.items()
        for rank, value in zip(RANKS, row, strict=True)
    },
)
