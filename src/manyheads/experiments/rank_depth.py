"""What does depth bring to low-rank heads (2407.16153)? By the number of points (`rank_n`), with positions to write
into (`rank_positions`), on data that repeats (`rank_replay`), and where training breaks (`rank_rate`)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from manyheads.arch.count import params
from manyheads.spec.arch import Arch
from manyheads.spec.experiment import Arm, Comparison, Experiment, Loses

from .rank_parts import SLOW, encoder, laptop, rank_name, recipe, scales, setting, task

RANKS_N = (1, 8, 16, 32, 64)
PRINTED_N = {  # L=2, multiplier 64, digitised: N: error at each of RANKS_N
    4: (0.023, 0.013, 0.004, 0.006, 0.006),
    16: (0.63, 0.415, 0.329, 0.231, 0.01),
    64: (0.81, 0.69, 0.60, 0.43, 0.02),
    256: (1.17, 0.81, 0.72, 0.54, 0.04),
}


def by_length(
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
                arch = encoder(dim, depth, multiplier, rank, tokens=tokens, mlp_dim=mlp_dim)
                out.append(Arm(name, arch, note, {"tokens": tokens}, own))
    return tuple(out)


RANK_N = Experiment(
    name="rank_n",
    title="Rank against length",
    question="Does depth make up for low rank, and does it still when there are many points?",
    settings=scales(
        setting(
            by_length(16, 256, 4, (4, 64), (1, 2), (16, 4), 1024),
            task(16, 4, held=1024),
            laptop(2500, 1, 0.005, **SLOW),
        ),
        setting(
            by_length(64, 2048, 8, (4, 16, 64, 256), (1, 2, 4), (64, 32, 16), 4096),
            task(64, 16),
            recipe(10_000, 1, 0.005, **SLOW),
        ),
        setting(
            by_length(64, 2048, 64, (4, 16, 64, 256), (2,), RANKS_N) + by_length(64, 2048, 64, (4, 64), (1,), (64, 16)),
            task(64, 16),
            recipe(200_000, 256, 0.005),
            seeds=5,
        ),
    ),
    comparisons=(
        Comparison("N4_L4_half", "N4_L1_half", "better", claim="A5", metric="skill", primary=True, scales=("small",)),
        Comparison(
            "N4_L4_half",
            "N4_L1_half",
            "better",
            claim="A6",
            metric="skill",
            beyond=("N256_L4_half", "N256_L1_half"),
            primary=True,
            controls=(Loses("N4_L1_full", "N4_L4_full"), Loses("N256_L1_full", "N256_L4_full")),
            scales=("small",),
        ),
        Comparison("N4_L2_quarter", "N4_L1_quarter", "better", claim="A5", metric="skill"),
        Comparison(
            "N4_L2_quarter",
            "N4_L1_quarter",
            "better",
            claim="A6",
            metric="skill",
            beyond=("N64_L2_quarter", "N64_L1_quarter"),
        ),
        Comparison("N64_L2_quarter", "N64_L2_full", "more", printed=0.58),
        Comparison("N64_L2_quarter", "N4_L2_quarter", "less", metric="skill"),
    ),
    printed={
        f"N{tokens}_L2_{rank_name(64, rank)}": value
        for tokens, row in PRINTED_N.items()
        for rank, value in zip(RANKS_N, row, strict=True)
    },
)
"""The sweep over the number of points: does depth make up for low rank, and does it still for long sequences?

    manyheads run rank_n --scale laptop       d=16, N=4 and 64, 1 and 2 layers
    manyheads run rank_n --scale small        d=64, N=4 to 256, 1, 2 and 4 layers, multiplier 8, 10,000 steps
    manyheads run rank_n --scale paper        d=64, N=4 to 256, 2 layers, multiplier 64, 200,000 steps

Below paper scale the batch shrinks as N grows, so that every step trains on the same number of answers. Errors of
different N are compared by skill, the share of the best linear guess's error that is gone."""

RANKS_POSITIONS = (1, 2, 4, 8, 16, 32, 64)
PRINTED_POSITIONS = {  # multiplier 8, digitised: error at each of RANKS_POSITIONS
    (1, "concat"): (0.748, 0.723, 0.683, 0.617, 0.497, 0.319, 0.00037),
    (3, "concat"): (0.130, 0.070, 0.0049, 0.0022, 0.0011, 0.00012, 0.00011),
    (3, "none"): (0.58, 0.39, 0.22, 0.11, 0.068, 0.036, 0.0069),
}


def by_positions(
    dim: int, tokens: int, mlp_dim: int, multiplier: int, depths: Iterable[int], ranks: Iterable[int]
) -> tuple[Arm, ...]:
    """None, added, concatenated, and none with the parameters of concatenated ones."""
    out = []
    for depth in depths:
        for rank in ranks:
            archs = {
                kind: encoder(
                    dim, depth, multiplier, rank, tokens=tokens, mlp_dim=mlp_dim, positions=kind, position_dim=dim
                )
                for kind in ("none", "add", "concat")
            }
            archs["matched"] = _matched(archs["concat"], dim, depth, 4 * multiplier, rank, tokens, 2 * mlp_dim)
            notes = {
                "none": "no positions",
                "add": "positions added",
                "concat": f"{dim} more coordinates",
                "matched": "no positions, parameters of concat",
            }
            out += [Arm(f"L{depth}_{kind}_{rank_name(dim, rank)}", arch, notes[kind]) for kind, arch in archs.items()]
    return tuple(out)


def _matched(concat: Arch, dim: int, depth: int, multiplier: int, rank: int, tokens: int, mlp_dim: int) -> Arch:
    """A model without positions that has the parameters of `concat`: attention by its multiplier, the rest by its
    MLP."""
    close = encoder(dim, depth, multiplier, rank, tokens=tokens, mlp_dim=mlp_dim)
    miss = params(concat).total - params(close).total
    return encoder(dim, depth, multiplier, rank, tokens=tokens, mlp_dim=mlp_dim + round(miss / depth / (2 * dim + 1)))


RANK_POSITIONS = Experiment(
    name="rank_positions",
    title="Positions as scratch space",
    question="Do layers of low-rank heads do better with coordinates of their own to write into, at equal parameters too?",
    settings=scales(
        setting(by_positions(16, 8, 256, 4, (1, 3), (4,)), task(16, 8, held=1024), laptop(1500, 128, 0.005, **SLOW)),
        setting(by_positions(64, 16, 2048, 8, (1, 3), (64, 16, 4)), task(64, 16), recipe(20_000, 256, 0.005, **SLOW)),
        setting(
            by_positions(64, 16, 2048, 8, (1, 3), RANKS_POSITIONS), task(64, 16), recipe(200_000, 256, 0.005), seeds=5
        ),
    ),
    comparisons=(
        Comparison("L3_concat_quarter", "L3_none_quarter", "less", printed=-0.067),  # no vote is looked for: not A8
        Comparison("L3_concat_quarter", "L3_matched_quarter", "less"),
        Comparison("L1_concat_quarter", "L1_matched_quarter", "less"),
    ),
    printed={
        f"L{depth}_{name}_{rank_name(64, rank)}": value
        for (depth, name), row in PRINTED_POSITIONS.items()
        for rank, value in zip(RANKS_POSITIONS, row, strict=True)
    },
)
"""Positions as scratch space: does a deep model of low-rank heads gain by coordinates of its own to write into?

    manyheads run rank_positions --scale laptop    d=16, N=8, 1 and 3 layers of rank 4
    manyheads run rank_positions --scale small     d=64, N=16, ranks 64, 16 and 4, 20,000 steps
    manyheads run rank_positions --scale paper     d=64, N=16, all ranks, 200,000 steps

Concatenated positions double the width: four times the attention's parameters, twice the MLP's, and rank 64 is half
rank there. The arms `matched` are the control that the paper lacks: no positions, and the same parameters."""


def by_data(
    dim: int, tokens: int, mlp_dim: int, depth: int, multiplier: int, rank: int, batches: int
) -> tuple[Arm, ...]:
    """The model of low rank twice, and one full-rank head in one layer, which has too few parameters to remember
    much."""
    low = encoder(dim, depth, multiplier, rank, tokens=tokens, mlp_dim=mlp_dim)
    full = encoder(dim, 1, 1, dim, tokens=tokens, mlp_dim=mlp_dim)
    again = {"replay": batches}
    return (
        Arm("fresh", low, "no sample twice"),
        Arm("replay", low, f"the same {batches} batches", again),
        Arm("full_fresh", full, "one full-rank head, no sample twice"),
        Arm("full_replay", full, f"one full-rank head, the same {batches} batches", again),
    )


RANK_REPLAY = Experiment(
    name="rank_replay",
    title="Fresh data and replayed data",
    question="How much of what depth brings to low-rank heads is memory of the same few batches?",
    settings=scales(
        setting(by_data(16, 8, 256, 3, 8, 4, 25), task(16, 8, held=2048), laptop(2000, 128, 0.005, **SLOW)),
        setting(by_data(64, 16, 2048, 3, 64, 4, 100), task(64, 16), recipe(30_000, 256, 0.01, **SLOW)),
        setting(by_data(64, 16, 2048, 3, 64, 4, 100), task(64, 16), recipe(100_000, 256, 0.01), seeds=5),
    ),
    comparisons=(
        Comparison("replay", "fresh", "less", metric="seen"),
        Comparison("replay", "fresh", "more"),  # against the published figure, not for or against depth
        Comparison("full_replay", "full_fresh", "no_loss", margin=0.05),
    ),
    printed={"replay": 0.055},  # Figure 1, L=3, d^3, rank 4: a training loss
)
"""Fresh data beside data that repeats: the published code draws the same 100 batches in every epoch, and reports the
loss on them.

    manyheads run rank_replay --scale laptop      d=16, N=8, 3 layers, 25 batches again and again
    manyheads run rank_replay --scale small       d=64, N=16, 3 layers of 1024 heads of 4, 30,000 steps
    manyheads run rank_replay --scale paper       the same, 100,000 steps

`seen` is the loss on samples that were trained on: what the published figures show. `loss` is held-out."""

RATES = (0.01, 0.003, 0.001)


def by_rate(dim: int, tokens: int, mlp_dim: int) -> tuple[Arm, ...]:
    """One layer at the paper's rate, three at every rate, both after a longer warm-up; heads of full and of half
    rank."""
    arms = []
    for name, rank in (("full", dim), ("half", dim // 2)):
        one, three = (encoder(dim, depth, 1, rank, tokens=tokens, mlp_dim=mlp_dim) for depth in (1, 3))
        for layers, arch, rates in (("L1", one, RATES[:1]), ("L3", three, RATES)):
            arms += [
                Arm(f"{layers}_{name}_lr{rate:g}", arch, f"learning rate {rate:g}", recipe={"lr": rate})
                for rate in rates
            ]
            arms.append(
                Arm(
                    f"{layers}_{name}_slow",
                    arch,
                    f"learning rate {RATES[0]:g}, warm-up of 25 %",
                    recipe={"lr": RATES[0], **SLOW},
                )
            )
    return tuple(arms)


RANK_RATE = Experiment(
    name="rank_rate",
    title="Depth and learning rate",
    question="Does depth fail to help because it does not help, or because training at this rate breaks?",
    settings=scales(
        setting(by_rate(16, 8, 256), task(16, 8, held=2048), laptop(1500, 128, 0.01), seeds=5),
        setting(by_rate(64, 16, 2048), task(64, 16), recipe(20_000, 256, 0.01), seeds=5),
        setting(by_rate(64, 16, 2048), task(64, 16), recipe(100_000, 256, 0.01), seeds=5),
    ),
    comparisons=(
        Comparison("L3_full_lr0.003", "L3_full_lr0.01", "less"),
        Comparison("L3_half_lr0.003", "L3_half_lr0.01", "less"),
        Comparison("L3_full_slow", "L3_full_lr0.01", "less"),
        Comparison("L3_half_slow", "L3_half_lr0.01", "less"),
        Comparison("L3_half_slow", "L1_half_slow", "better", claim="A5"),
    ),
)
"""Three layers at the paper's learning rate, below it, and after a longer warm-up: at d=16 and 0.01, runs end with an
output of zeros.

    manyheads run rank_rate --scale laptop     d=16, N=8, 5 seeds: about 7 minutes on 2 quiet cores
    manyheads run rank_rate --scale small      d=64, N=16, 20,000 steps
    manyheads run rank_rate --scale paper      the same, 100,000 steps

At the start an output is a unit vector that knows nothing, and its loss is 2, while zeros have 1: the scale s of the
last x s / |x| is a fast way down, and at s = 0 nothing before it has a gradient. The paper shows the best of 5 seeds,
which hides how many come back; and 5 % of its 100,000 steps are a warm-up of 5,000, of shorter runs a much faster one.
`slow` has 25 %: at small scale these are the paper's 5,000. What depth is worth can only be read where training
works."""
