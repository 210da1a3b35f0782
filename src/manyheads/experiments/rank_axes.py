"""Both papers' axes from one design: thinner heads, more heads, wider heads; error and kappa beside each other.

    manyheads run rank_axes --scale laptop    from 4 heads of 4 at d=16, N=8
    manyheads run rank_axes --scale small     from 4 heads of 16 at d=64, N=16, 20,000 steps
    manyheads run rank_axes --scale paper     the same, 100,000 steps and 5 seeds

`whole`, `original` and `split*` have the same parameters and the same inner width; so have `fixed4`, `wide4` and
`thin4`, four times the original's. A number is the factor. kappa by theory depends on inner alone; the error does not.
"""

from __future__ import annotations

from manyheads.arch.families import nearest_neighbor
from manyheads.spec.experiment import Arm, Comparison, Experiment, Setting

from .rank_parts import brief, laptop, recipe, task

# fmt: off
SHAPES = {  # heads and head_dim, as factors of the original's 4 heads of dim/4
    "original": (1, 1), "whole": (1 / 4, 4), "split2": (2, 1 / 2), "split4": (4, 1 / 4), "fixed2": (2, 1), "fixed4": (4, 1),
    "wide2": (1, 2), "wide4": (1, 4), "thin4": (16, 1 / 4),
}
# fmt: on


def arms(dim: int, tokens: int, mlp_dim: int) -> tuple[Arm, ...]:
    """Every shape, one layer."""
    out = []
    for name, (more, larger) in SHAPES.items():
        heads, head_dim = round(4 * more), round(dim / 4 * larger)
        made = nearest_neighbor(dim, 1, heads, head_dim, mlp_dim, tokens=tokens)
        out.append(Arm(name, made, f"{heads} heads of {head_dim}, inner {heads * head_dim}"))
    return tuple(out)


AXES = Experiment(
    name="rank_axes",
    title="Two ways of having more heads",
    question="From one design: thinner heads, more heads, wider heads. Which lowers the error, which lowers kappa?",
    settings={
        **brief(Setting(arms(16, 8, 256), (0, 1, 2), task(16, 8, held=2048), {"steps": laptop(2000, 128, 0.01)})),
        "small": Setting(arms(64, 16, 2048), (0, 1, 2), task(64, 16), {"steps": recipe(20_000, 256, 0.01)}),
        "paper": Setting(arms(64, 16, 2048), (0, 1, 2, 3, 4), task(64, 16), {"steps": recipe(100_000, 256, 0.01)}),
    },
    comparisons=(
        Comparison("split4", "original", "more", claim="A3"),
        Comparison("fixed4", "original", "less", claim="A4"),
        Comparison("wide4", "fixed4", "less", claim="A3"),
        Comparison("fixed4", "split4", "differ", claim="M2"),
        Comparison("fixed4", "original", "less", claim="L2", metric="log_kappa"),
        Comparison("split4", "original", "differ", margin=0.1, metric="log_kappa"),
        Comparison("wide4", "fixed4", "differ", margin=0.1, metric="log_kappa"),
    ),
)
