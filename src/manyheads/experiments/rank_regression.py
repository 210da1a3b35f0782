"""In-context linear regression, split into more and thinner heads: the rank argument on a less synthetic task.

    manyheads run rank_regression --scale laptop      7 unknowns, 16 examples, 2 layers of width 32
    manyheads run rank_regression --scale small       7 unknowns, 16 examples, 3 layers of width 64, 20,000 steps
    manyheads run rank_regression --scale paper       20 unknowns, 40 examples, 12 layers of width 256, 500,000 steps

The paper's appendix is said to find that fewer and larger heads are better; no number of it was at hand, and its model
(GPT-2, causal, two tokens an example) is not this encoder. The best loss possible is 0: more examples than unknowns.
"""

from __future__ import annotations

from collections.abc import Iterable

from manyheads.spec.experiment import Arm, Comparison, Experiment, Setting

from .rank_parts import brief, encoder, laptop, recipe


def arms(dim: int, tokens: int, width: int, depth: int, heads: Iterable[int]) -> tuple[Arm, ...]:
    """The same parameters, split into so many heads; positions make up the width."""
    return tuple(
        Arm(
            f"h{count}",
            encoder(
                dim + 1,
                depth,
                1,
                width // count,
                tokens=tokens,
                mlp_dim=4 * width,
                positions="concat",
                position_dim=width - dim - 1,
            ),
            f"{count} heads of {width // count}",
        )
        for count in heads
    )


def _task(dim: int, examples: int, queries: int) -> dict[str, object]:
    return {"is": "Regression", "dim": dim, "examples": examples, "queries": queries, "held": 2048}


REGRESSION = Experiment(
    name="rank_regression",
    title="Linear regression in the context",
    question="Do more and thinner heads hurt where a linear function has to be learnt from examples in the context?",
    settings={
        **brief(
            Setting(
                arms(7, 24, 32, 2, (1, 2, 8, 32)),
                (0, 1, 2),
                _task(7, 16, 8),
                {"steps": laptop(1500, 64, 0.003, clip=1.0)},
            )
        ),
        "small": Setting(
            arms(7, 24, 64, 3, (1, 2, 8, 16, 32)),
            (0, 1, 2),
            _task(7, 16, 8),
            {"steps": recipe(20_000, 256, 0.001, clip=1.0)},
        ),
        "paper": Setting(
            arms(20, 60, 256, 12, (1, 2, 8, 16, 32)),
            (0, 1, 2),
            _task(20, 40, 20),
            {"steps": recipe(500_000, 64, 1e-4, clip=1.0)},
        ),
    },
    comparisons=(Comparison("h8", "h1", "more", claim="A3"), Comparison("h32", "h8", "more", claim="A3")),
)
