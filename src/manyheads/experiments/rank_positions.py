"""Positions as scratch space: does a deep model of low-rank heads do better with coordinates of its own to write into?

    manyheads run rank_positions --scale laptop    d=16, N=8, 1 and 3 layers of rank 4
    manyheads run rank_positions --scale small     d=64, N=16, ranks 64, 16 and 4, 20,000 steps
    manyheads run rank_positions --scale paper     d=64, N=16, all ranks, 200,000 steps

Concatenated positions double the width: four times the attention's parameters, twice the MLP's, and rank 64 is half
rank there. The arms `matched` are the control that the paper lacks: no positions, and the same parameters."""

from __future__ import annotations

from collections.abc import Iterable

from manyheads.arch.params import params
from manyheads.spec.arch import Arch
from manyheads.spec.experiment import Arm, Comparison, Experiment, Setting

from .rank_parts import SLOW, brief, encoder, laptop, rank_name, recipe, task

RANKS = (1, 2, 4, 8, 16, 32, 64)
PRINTED = {  # multiplier 8, digitised: error at each of RANKS
    (1, "concat"): (0.748, 0.723, 0.683, 0.617, 0.497, 0.319, 0.00037),
    (3, "concat"): (0.130, 0.070, 0.0049, 0.0022, 0.0011, 0.00012, 0.00011),
    (3, "none"): (0.58, 0.39, 0.22, 0.11, 0.068, 0.036, 0.0069),
}


def arms(
    dim: int, tokens: int, mlp_dim: int, multiplier: int, depths: Iterable[int], ranks: Iterable[int]
) -> tuple[Arm, ...]:
    """None, added, concatenated, and none with the parameters of concatenated ones."""
    out = []
    for depth in depths:
        for rank in ranks:
            made = {
                kind: encoder(
                    dim, depth, multiplier, rank, tokens=tokens, mlp_dim=mlp_dim, positions=kind, position_dim=dim
                )
                for kind in ("none", "add", "concat")
            }
            made["matched"] = _matched(made["concat"], dim, depth, 4 * multiplier, rank, tokens, 2 * mlp_dim)
            notes = {
                "none": "no positions",
                "add": "positions added",
                "concat": f"{dim} more coordinates",
                "matched": "no positions, parameters of concat",
            }
            out += [Arm(f"L{depth}_{kind}_{rank_name(dim, rank)}", arch, notes[kind]) for kind, arch in made.items()]
    return tuple(out)


def _matched(concat: Arch, dim: int, depth: int, multiplier: int, rank: int, tokens: int, mlp_dim: int) -> Arch:
    """A model without positions that has the parameters of `concat`: attention by its multiplier, the rest by its
    MLP."""
    close = encoder(dim, depth, multiplier, rank, tokens=tokens, mlp_dim=mlp_dim)
    miss = params(concat).total - params(close).total
    return encoder(dim, depth, multiplier, rank, tokens=tokens, mlp_dim=mlp_dim + round(miss / depth / (2 * dim + 1)))


POSITIONS = Experiment(
    name="rank_positions",
    title="Positions as scratch space",
    question="Do layers of low-rank heads do better with coordinates of their own to write into, at equal parameters too?",
    settings={
        **brief(
            Setting(
                arms(16, 8, 256, 4, (1, 3), (4,)),
                (0, 1, 2),
                task(16, 8, held=1024),
                {"steps": laptop(1500, 128, 0.005, **SLOW)},
            )
        ),
        "small": Setting(
            arms(64, 16, 2048, 8, (1, 3), (64, 16, 4)),
            (0, 1, 2),
            task(64, 16),
            {"steps": recipe(20_000, 256, 0.005, **SLOW)},
        ),
        "paper": Setting(
            arms(64, 16, 2048, 8, (1, 3), RANKS), (0, 1, 2, 3, 4), task(64, 16), {"steps": recipe(200_000, 256, 0.005)}
        ),
    },
    comparisons=(
        Comparison("L3_concat_quarter", "L3_none_quarter", "less", claim="A8", printed=-0.067),
        Comparison("L3_concat_quarter", "L3_matched_quarter", "less", claim="A8"),
        Comparison("L1_concat_quarter", "L1_matched_quarter", "less"),
    ),
    printed={
        f"L{depth}_{name}_{rank_name(64, rank)}": value
        for (depth, name), row in PRINTED.items()
        for rank, value in zip(RANKS, row, strict=True)
    },
)
