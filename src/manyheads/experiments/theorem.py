"""Theorem 3.2 and Lemma 3.3 measured: nothing is trained, each run is one measurement (`tasks.heads_kappa`).

    manyheads run theorem --scale smoke     17 tokens, heads of 6
    manyheads run theorem --scale small     50 tokens, heads of 16
    manyheads run theorem --scale paper     197 tokens, heads of 64: ViT-B's; minutes on a CPU

For every number of heads three arms: `normal`, independent normal entries, as the theorem assumes; `attention`, what an
attention with initial weights makes of independent normal tokens; `formula`, what the theorem says. kappa has its peak
at inner = tokens (3 heads), so that it falls from 2 heads to 12 only by way of that peak. A seed draws other matrices.
"""

from __future__ import annotations

from manyheads.arch.families import nearest_neighbor
from manyheads.spec.experiment import Arm, Comparison, Experiment, Setting

from .vision_parts import SEEDS

HEADS = (2, 3, 4, 6, 12, 24, 48, 96, 192)
ENTRIES = {
    "normal": "independent normal entries",
    "attention": "initial attention, normal tokens",
    "formula": "(sqrt inner + sqrt tokens) / (sqrt inner - sqrt tokens)",
}
SHAPES = {"smoke": (17, 6), "small": (50, 16), "paper": (197, 64)}  # tokens, head_dim: the twins of ViT-B


def arms(scale: str) -> tuple[Arm, ...]:
    """Every number of heads, three ways. The model is one layer of ViT-B's proportions: width is 12 heads'."""
    tokens, head_dim = SHAPES[scale]
    return tuple(
        Arm(
            f"{name}_h{heads}",
            nearest_neighbor(12 * head_dim, 1, heads, head_dim, head_dim, tokens=tokens),
            f"{heads} heads: {note}",
            {"entries": name},
        )
        for heads in HEADS
        for name, note in ENTRIES.items()
    )


THEOREM = Experiment(
    name="theorem",
    title="What the theorem says of kappa",
    question="Is kappa of concatenated heads what Theorem 3.2 says, for its own matrices and for real attention?",
    settings={
        scale: Setting(arms(scale), SEEDS[scale], {"is": "HeadsKappa", "samples": samples}, {"once": {}})
        for scale, samples in (("smoke", 8), ("small", 64), ("paper", 64))
    },
    comparisons=(
        Comparison("normal_h96", "formula_h96", "no_loss", margin=0.05, claim="L1", metric="log_kappa"),
        Comparison("normal_h192", "formula_h192", "no_loss", margin=0.05, claim="L1", metric="log_kappa"),
        Comparison("normal_h192", "normal_h12", "less", claim="L2", metric="log_kappa"),
        Comparison("attention_h192", "attention_h12", "less", claim="L2", metric="log_kappa"),
        Comparison("attention_h192", "formula_h192", "no_loss", margin=0.05, claim="L2", metric="log_kappa"),
        Comparison("normal_h3", "normal_h2", "more", metric="log_kappa"),  # towards the peak
        Comparison("attention_h3", "attention_h2", "more", metric="log_kappa"),
        Comparison("normal_h12", "formula_h12", "no_loss", margin=1e-6, claim="L3", metric="deficient"),
        Comparison("attention_h12", "formula_h12", "no_loss", margin=1e-6, claim="L3", metric="deficient"),
        Comparison("attention_h192", "formula_h192", "no_loss", margin=1e-6, claim="L3", metric="deficient"),
    ),
)
