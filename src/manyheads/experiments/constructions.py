"""What the second paper proves to exist, or not to: attention that is written down, measured and not trained.

    manyheads run constructions --scale smoke     4 dimensions
    manyheads run constructions --scale small     6 dimensions
    manyheads run constructions --scale paper     8 dimensions

`exact_N` is one full-rank head among N points. The others answer the sum of 2 d^2 + 1 biased questions (Theorem 3) with
as many heads of full rank, half and a quarter of it, and the best values there are; `more` are four times as many.
Directions of low rank are random, so that their error is a bound from above; an answer that is always the mean of both
points has 0.5."""

from __future__ import annotations

from manyheads.arch.families import nearest_neighbor
from manyheads.spec.experiment import Arm, Comparison, Experiment, Setting

from .vision_parts import SEEDS

DIMS = {"smoke": 4, "small": 6, "paper": 8}
LENGTHS = (2, 16, 256)
RANKS = {"full": 1, "half": 2, "quarter": 4}


def arms(scale: str) -> tuple[Arm, ...]:
    """One exact head for some lengths; random heads of three ranks on two points."""
    dim = DIMS[scale]
    count = 2 * dim**2 + 1
    out = [
        Arm(
            f"exact_N{tokens}",
            nearest_neighbor(dim, 1, 1, dim, dim, tokens=tokens + 1),
            "one full-rank head",
            {"network": "exact", "tokens": tokens},
        )
        for tokens in LENGTHS
    ]
    for name, share in RANKS.items():
        rank = max(1, dim // share)
        for more, suffix in ((1, ""), (4, "_more"))[: 1 if name == "full" else 2]:
            heads = more * count
            out.append(
                Arm(
                    f"{name}{suffix}",
                    nearest_neighbor(dim, 1, heads, rank, dim, tokens=3),
                    f"{heads} heads of rank {rank}",
                    {"network": "drawn", "biases": count},
                )
            )
    return tuple(out)


CONSTRUCTIONS = Experiment(
    name="constructions",
    title="Attention that is written down",
    question="Does one full-rank head find the nearest of any number of points, and do low-rank heads fail at biased ones?",
    settings={scale: Setting(arms(scale), SEEDS[scale], {"is": "WrittenDown"}, {"once": {}}) for scale in DIMS},
    comparisons=(
        Comparison("exact_N16", "exact_N2", "no_loss", margin=1e-6, claim="A1", printed=0.0),
        Comparison("exact_N256", "exact_N2", "no_loss", margin=1e-6, claim="A1", printed=0.0),
        Comparison("half_more", "full", "more", margin=0.1, claim="A7"),
        Comparison("quarter_more", "full", "more", margin=0.1, claim="A7"),
        Comparison("quarter_more", "quarter", "less"),
    ),
    printed={f"exact_N{tokens}": 0.0 for tokens in LENGTHS},
)
