"""Fresh data beside data that repeats: the published code draws the same 100 batches every epoch, and reports their
loss.

    manyheads run rank_replay --scale laptop      d=16, N=8, 3 layers, 25 batches again and again
    manyheads run rank_replay --scale small       d=64, N=16, 3 layers of 1024 heads of 4, 30,000 steps
    manyheads run rank_replay --scale paper       the same, 100,000 steps

`seen` is the loss on samples that were trained on: what the published figures show. `loss` is held-out.
"""

from __future__ import annotations

from manyheads.spec.experiment import Arm, Comparison, Experiment, Setting

from .rank_parts import SLOW, brief, encoder, laptop, recipe, task


def arms(dim: int, tokens: int, mlp_dim: int, depth: int, multiplier: int, rank: int, batches: int) -> tuple[Arm, ...]:
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


REPLAY = Experiment(
    name="rank_replay",
    title="Fresh data and replayed data",
    question="How much of what depth brings to low-rank heads is memory of the same few batches?",
    settings={
        **brief(
            Setting(
                arms(16, 8, 256, 3, 8, 4, 25),
                (0, 1, 2),
                task(16, 8, held=2048),
                {"steps": laptop(2000, 128, 0.005, **SLOW)},
            )
        ),
        "small": Setting(
            arms(64, 16, 2048, 3, 64, 4, 100), (0, 1, 2), task(64, 16), {"steps": recipe(30_000, 256, 0.01, **SLOW)}
        ),
        "paper": Setting(
            arms(64, 16, 2048, 3, 64, 4, 100), (0, 1, 2, 3, 4), task(64, 16), {"steps": recipe(100_000, 256, 0.01)}
        ),
    },
    comparisons=(
        Comparison("replay", "fresh", "less", metric="seen"),
        Comparison("replay", "fresh", "more", claim="A5"),
        Comparison("full_replay", "full_fresh", "no_loss", margin=0.05),
    ),
    printed={"replay": 0.055},  # Figure 1, L=3, d^3, rank 4: a training loss
)
