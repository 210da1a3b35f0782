"""What the two papers prove, measured: the theorem on kappa, the condition number of the concatenated heads
(`theorem`), and attention that is written down (`constructions`). Nothing is trained; each run is one measurement."""

from __future__ import annotations

from manyheads.arch.families import nearest_neighbor
from manyheads.spec.experiment import Arm, Comparison, Experiment, Loses, Setting
from manyheads.spec.measurements import HeadsKappa, WrittenDown

from .scales import ONCE, SEEDS

HEADS = (2, 3, 4, 6, 12, 24, 48, 96, 192)
ENTRIES = {
    "normal": "independent normal entries",
    "attention": "initial attention, normal tokens",
    "formula": "(sqrt inner + sqrt tokens) / (sqrt inner - sqrt tokens)",
}
SIZES = {"smoke": (17, 6), "small": (50, 16), "paper": (197, 64)}  # tokens, head_dim: the twins of ViT-B


def theorem_arms(scale: str) -> tuple[Arm, ...]:
    """Every number of heads, three ways. The model is one layer of ViT-B's proportions: width is 12 heads'."""
    tokens, head_dim = SIZES[scale]
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


LOG = "log_kappa"
SQUARE_IS_WORSE = (Loses("normal_h3", "normal_h12"),)  # inner is about the number of tokens
THEOREM = Experiment(
    name="theorem",
    title="What the theorem says of kappa",
    question="Is kappa of concatenated heads what Theorem 3.2 says, for its own matrices and for real attention?",
    settings={
        scale: Setting(theorem_arms(scale), SEEDS[scale], HeadsKappa(samples=samples), ONCE)
        for scale, samples in (("smoke", 8), ("small", 64), ("paper", 64))
    },
    comparisons=(
        *(
            Comparison(
                f"normal_h{heads}",
                f"formula_h{heads}",
                "equal",
                0.05,
                "L1",
                LOG,
                primary=True,
                controls=SQUARE_IS_WORSE,
            )
            for heads in (6, 12, 24, 48)  # inner is about 2, 4, 8 and 16 times the tokens
        ),
        *(Comparison(f"normal_h{heads}", f"formula_h{heads}", "equal", 0.05, "L1", LOG) for heads in (96, 192)),
        Comparison("normal_h192", "normal_h12", "less", claim="L2", metric=LOG, primary=True),
        Comparison("normal_h192", "formula_h192", "equal", 0.05, "L2", LOG, primary=True),
        Comparison("attention_h192", "attention_h12", "less", claim="L2", metric=LOG),
        Comparison("attention_h192", "formula_h192", "equal", 0.05, "L2", LOG),
        Comparison("normal_h3", "normal_h2", "more", metric=LOG),  # towards the peak
        Comparison("attention_h3", "attention_h2", "more", metric=LOG),
        *(
            Comparison(f"normal_h{heads}", f"formula_h{heads}", "equal", 1e-6, "L3", "deficient", primary=True)
            for heads in (2, 12, 192)
        ),
        Comparison("attention_h12", "formula_h12", "equal", 1e-6, "L3", "deficient"),
        Comparison("attention_h192", "formula_h192", "equal", 1e-6, "L3", "deficient"),
    ),
)
"""Theorem 3.2 and Lemma 3.3 of the first paper, measured (`spec.measurements.HeadsKappa`).

    manyheads run theorem --scale smoke     17 tokens, heads of 6
    manyheads run theorem --scale small     50 tokens, heads of 16
    manyheads run theorem --scale paper     197 tokens, heads of 64: ViT-B's; minutes on a CPU

Each number of heads has three arms: `normal`, independent normal entries, as the theorem assumes; `attention`, what an
attention with initial weights makes of independent normal tokens; `formula`, what the theorem says. kappa has its peak
at inner = tokens (3 heads), so that between 2 and 12 heads it first rises. A seed draws other matrices."""

DIMS = {"smoke": 4, "small": 6, "paper": 8}
LENGTHS = (2, 16, 256)
RANKS = {"full": 1, "half": 2, "quarter": 4}


def construction_arms(scale: str) -> tuple[Arm, ...]:
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
    law = nearest_neighbor(dim, 1, 1, dim, dim, tokens=3)
    out.append(Arm("exact_law", law, "what is proved of one full-rank head: no error", {"network": "law"}))
    return tuple(out)


CONSTRUCTIONS = Experiment(
    name="constructions",
    title="Attention that is written down",
    question="Does one full-rank head find the nearest of any number of points, and do low-rank heads fail at biased ones?",
    settings={scale: Setting(construction_arms(scale), SEEDS[scale], WrittenDown(), ONCE) for scale in DIMS},
    comparisons=(
        *(
            Comparison(f"exact_N{tokens}", "exact_law", "equal", 1e-6, "A1", printed=0.0, primary=True)
            for tokens in LENGTHS
        ),
        Comparison("half_more", "full", "more", margin=0.1),
        Comparison("quarter_more", "full", "more", margin=0.1),
        Comparison("quarter_more", "quarter", "less"),
    ),
    printed={f"exact_N{tokens}": 0.0 for tokens in LENGTHS},
)
"""What the second paper proves to exist, or not to: attention whose weights are written down.

    manyheads run constructions --scale smoke     4 dimensions
    manyheads run constructions --scale small     6 dimensions
    manyheads run constructions --scale paper     8 dimensions

`exact_N` is one full-rank head among N points, and `exact_law` the error 0 that is proved for any N. The others answer
the sum of 2 d^2 + 1 biased questions (Theorem 3) with as many heads of full rank, half and a quarter of it, and the best
possible values; `more` are four times as many. Directions of low rank are random, so that their error is an upper bound;
an answer that is always the mean of both points has 0.5."""
