"""The sweep over the dimension, for which the paper has a configuration and no figure: does the gap grow with d?

    manyheads run rank_dim --scale laptop     d=16 and 64, N=8, 1 layer
    manyheads run rank_dim --scale small      d=16 to 256, N=16, 2 layers, 10,000 steps
    manyheads run rank_dim --scale paper      d=16 to 256, N=16, 2 layers, 200,000 steps

Theorem 2 asks for exponentially many heads of rank r in d - r: what is kept here is either the rank (4) or its share of
the dimension (a quarter). Errors of different d are compared by skill."""

from __future__ import annotations

from collections.abc import Iterable

from manyheads.spec.experiment import Arm, Comparison, Experiment, Setting

from .rank_parts import SLOW, brief, encoder, laptop, recipe, task


def arms(dims: Iterable[int], tokens: int, depth: int, multiplier: int, mlp_dim: int) -> tuple[Arm, ...]:
    """Full rank, half, a quarter, and rank 4 for every dimension."""
    return tuple(
        Arm(
            f"d{dim}_r{rank}",
            encoder(dim, depth, multiplier, rank, tokens=tokens, mlp_dim=mlp_dim),
            f"{multiplier * dim // rank} heads of {rank}",
            {"dim": dim},
        )
        for dim in dims
        for rank in dict.fromkeys((dim, dim // 2, dim // 4, 4))
    )


RANK_DIM = Experiment(
    name="rank_dim",
    title="Rank against dimension",
    question="Does the loss from low rank grow with the dimension, at the same rank and at the same share of it?",
    settings={
        **brief(
            Setting(arms((16, 64), 8, 1, 2, 256), (0, 1, 2), task(0, 8, held=1024), {"steps": laptop(3000, 128, 0.005)})
        ),
        "small": Setting(
            arms((16, 64, 128, 256), 16, 2, 8, 2048),
            (0, 1, 2),
            task(0, 16),
            {"steps": recipe(10_000, 256, 0.005, **SLOW)},
        ),
        "paper": Setting(
            arms((16, 64, 128, 256), 16, 2, 8, 2048),
            (0, 1, 2, 3, 4),
            task(0, 16),
            {"steps": recipe(200_000, 256, 0.005)},
        ),
    },
    comparisons=(
        Comparison("d64_r4", "d16_r4", "less", claim="A2", metric="skill"),
        Comparison("d64_r16", "d16_r4", "less", claim="A2", metric="skill"),
        Comparison("d64_r16", "d64_r64", "more", claim="A3"),
    ),
)
