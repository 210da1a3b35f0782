"""What low rank costs when nothing is trained: how many heads a layer needs (`rank_growth`), and two layers that vote
(`rank_vote`).

    manyheads run rank_growth --scale laptop    4 to 8 dimensions, up to 512 heads, 5 seeds, 2 cores
    manyheads run rank_vote --scale laptop      16 dimensions, 65 to 4,097 heads, 5 seeds, a minute
    manyheads run rank_growth --scale smoke     few heads

`rank_growth` asks which of two points is nearer to a query. Heads compare projections on random directions of rank d/2
(rounded down), and their values are the best there are (`spec.measurements.WrittenDown`), so that the heads needed are an
upper bound on those that the best directions would need. `plain` is the question itself (Theorem 2), `biased` an
alternating sum of five questions with biases (Theorem 3). plain_d6_h8 has 8 heads of rank 3 in 6 dimensions; `full` has
full rank: one head for a plain question, one for each bias. The heads needed are those at which half of the error of
always answering with the mean of both points is left.

Two limits, known before the runs. Theorem 2 promises exponentially many heads for errors below about 1/d; half of a
constant's error is above that, and there the number of heads may well not depend on d at all. A stricter `share` stands
beside it. And with the 2 d^2 + 1 biases of Theorem 3, heads of half the rank do no better than a constant at any number
that fits on a computer (`constructions` has that contrast), so that five biases are asked here."""

from __future__ import annotations

from manyheads.arch.families import nearest_neighbor
from manyheads.spec.experiment import Arm, Comparison, Experiment, Growth, Setting
from manyheads.spec.measurements import WrittenDown

from .scales import ONCE

SIZES = (4, 5, 6, 7, 8)
BIASES = 5
FEW = {"smoke": 3, "laptop": 0}  # numbers of heads at smoke: the first so many
HEADS = {"plain": (1, 2, 4, 8, 16, 32, 64), "biased": (16, 32, 64, 128, 256, 512)}
SEEDS = {"smoke": (0,), "laptop": (0, 1, 2, 3, 4)}


def heads_of(kind: str, scale: str) -> tuple[int, ...]:
    """The numbers of heads that are tried."""
    return HEADS[kind][: FEW[scale] or None]


def growth_arm(kind: str, dim: int, heads: int, rank: int) -> Arm:
    """So many heads of a rank on one target."""
    biases = BIASES if kind == "biased" else 0
    name = f"{kind}_d{dim}_" + ("full" if rank == dim else f"h{heads}")
    arch = nearest_neighbor(dim, 1, heads, rank, dim, tokens=3)
    return Arm(name, arch, f"{heads} heads of rank {rank}", {"network": "drawn", "biases": biases})


def growth_arms(scale: str) -> tuple[Arm, ...]:
    """Full rank, and every number of heads of half the rank, for each target and number of dimensions."""
    out = []
    for kind in HEADS:
        for dim in SIZES:
            out.append(growth_arm(kind, dim, BIASES if kind == "biased" else 1, dim))
            out += [growth_arm(kind, dim, heads, dim // 2) for heads in heads_of(kind, scale)]
    return tuple(out)


def growths(scale: str) -> tuple[Growth, ...]:
    """What is expected of the heads needed."""
    sizes = {
        kind: {dim: tuple(f"{kind}_d{dim}_h{heads}" for heads in heads_of(kind, scale)) for dim in SIZES}
        for kind in HEADS
    }
    full = {kind: {dim: f"{kind}_d{dim}_full" for dim in SIZES} for kind in HEADS}
    return (
        Growth("heads of half the rank", sizes["plain"], claim="A2", primary=True, enough=full["plain"]),
        Growth("heads of half the rank, a smaller error", sizes["plain"], share=0.3, claim="A2", enough=full["plain"]),
        Growth(
            "heads of half the rank, biased questions", sizes["biased"], claim="A7", primary=True, enough=full["biased"]
        ),
    )


RANK_GROWTH = Experiment(
    name="rank_growth",
    title="Heads that low rank needs",
    question="Does the number of low-rank heads that one layer needs grow exponentially with the dimension?",
    settings={
        scale: Setting(growth_arms(scale), SEEDS[scale], WrittenDown(), ONCE, growths=growths(scale)) for scale in FEW
    },
    comparisons=tuple(
        Comparison(f"{kind}_d{dim}_full", f"{kind}_d{dim}_h{HEADS[kind][0]}", "less", margin=0.1)
        for kind in HEADS
        for dim in SIZES
    ),
)

VOTERS = {"smoke": (65, 257), "laptop": (65, 257, 1025, 4097)}  # odd, so that no vote is a tie
VOTE_DIMS = {"smoke": 8, "laptop": 16}


def vote_arms(scale: str) -> tuple[Arm, ...]:
    """The vote and its law for every number of heads."""
    dim = VOTE_DIMS[scale]
    return tuple(
        Arm(
            f"{network}_h{heads}",
            nearest_neighbor(dim, 2, heads, 1, dim, tokens=3),
            f"{heads} heads of rank 1 {what}",
            {"network": network},
        )
        for heads in VOTERS[scale]
        for network, what in (("vote", "vote"), ("law", "by the law"))
    )


RANK_VOTE = Experiment(
    name="rank_vote",
    title="Two layers that vote",
    question="Does the vote of two layers of rank-1 heads follow its law, 2/pi atan(pi/2 sqrt(d / heads))?",
    settings={scale: Setting(vote_arms(scale), SEEDS[scale], WrittenDown(samples=16384), ONCE) for scale in VOTERS},
    comparisons=tuple(
        Comparison(
            f"vote_h{heads}",
            f"law_h{heads}",
            "equal",
            0.14,  # of the logarithm: 15 %
            "A8",
            primary=True,
            ratio=True,
            scales=tuple(scale for scale, voters in VOTERS.items() if heads in voters),
        )
        for heads in VOTERS["laptop"]
    ),
)
