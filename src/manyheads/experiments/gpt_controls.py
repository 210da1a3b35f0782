"""Is it the heads? A GPT on Wikipedia with every control, each design at its own learning rate.

    manyheads run gpt_rates --scale small       five designs at three rates, one seed
    manyheads run gpt_controls --scale small    twelve designs at the rates that gpt_rates chose, three other seeds
    manyheads run gpt_controls --scale smoke    the same twelve designs at width 32 on the embedded stories
    manyheads run gpt_time --scale small        two of these designs, each run alone on its device

Scale small: width 512, heads of 64, 256 tokens of context, 3,000 steps of 128 sequences (98 M tokens, two epochs). An
arm is called after its layers and heads: L4_h16 has 4 layers of 16 heads. `d32` and `d128` are its head_dim, where that
is not 64. L12_h8 is the original. L4_h8_mlp and L12_narrow have the parameters of L4_h16: one by a wider MLP, the other
has all 12 layers at a smaller width. L2, L4, L6 and L9 with 8 heads show what lost depth costs, which has to be seen
before heads can be said to make up for it.

Rates are chosen on the last 100 training articles (`choose`), which are neither trained nor reported on; losses are
reported on other articles (`valid`). The tokenizer is a BPE of 8,192 that is trained on the training articles alone:

    manyheads tokenize enwiki2015_train.txt.xz --out DATA/wiki8k --learn bpe:8192 --between blank --but-last 100 \\
        --without enwiki2015_valid.txt.xz
    manyheads tokenize enwiki2015_train.txt.xz --out DATA/wiki8k --tokenizer DATA/wiki8k --split choose \\
        --between blank --only-last 100
    manyheads tokenize enwiki2015_valid.txt.xz --out DATA/wiki8k --tokenizer DATA/wiki8k --split valid --between blank

Claim L15, that larger heads have the same kappa and train more slowly, is decided by `gpt_time`, since runs of
`gpt_controls` share their device. Its runs evaluate and probe less, so that they are runs of their own."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from manyheads.arch.controls import mlp_dims, mlp_matched, params_matched
from manyheads.arch.count import params
from manyheads.arch.families import gpt2
from manyheads.arch.redesign import redesign
from manyheads.spec.arch import Arch
from manyheads.spec.experiment import Arm, Best, Comparison, Experiment, Loses, Setting, Trend
from manyheads.spec.recipe import Basis, Recipe
from manyheads.spec.schedule import Schedule
from manyheads.spec.text import LanguageModel

from .scales import BRIEF

RATES = {"L12_h8": 1e-3, "L6_h16": 1e-3, "L4_h8": 1e-3, "L4_h16": 1e-3, "L4_h16_d32": 1e-3}
"""The learning rate of each design that gpt_rates tries. It has not been run yet: all have the rate in the middle."""
NEAREST = {
    "L2_h8": "L4_h8",
    "L6_h8": "L6_h16",
    "L9_h8": "L12_h8",
    "L12_h16": "L12_h8",
    "L4_h8_mlp": "L4_h8",
    "L12_narrow": "L12_h8",
    "L4_h8_d128": "L4_h16",
}
"""The other designs, each with the one whose rate it takes: the nearest in depth, then in inner (heads x head_dim)."""
FACTORS = (0.5, 1, 2)
MIDDLE = 1e-3

GPT = Recipe(
    batch=128,
    basis=Basis("steps", 3000),
    lr=MIDDLE,
    schedule=Schedule("cosine", warmup=0.05, end=0.1),
    betas=(0.9, 0.95),
    weight_decay=0.1,
    clip=1.0,
    evaluate_every=0.1,
    probe_every=0.25,
    probe_samples=32,
    checkpoint_every=0,
)
RECIPES = {"smoke": replace(GPT, **BRIEF | {"batch": 4, "basis": Basis("steps", 10), "probe_samples": 2}), "small": GPT}
TASKS = {
    "smoke": LanguageModel("tinystories", tokens=32, test_limit=16),
    "small": LanguageModel("shards:wiki8k", tokens=256, vocab=8192),
}
CHOICE = {"smoke": TASKS["smoke"], "small": replace(TASKS["small"], held_split="choose")}
ORIGINALS = {
    "smoke": gpt2(32, 12, 8, 64, 128, vocab=2048, tokens=32, positions=32),
    "small": gpt2(512, 12, 8, 64, 2048, vocab=8192, tokens=256, positions=256),
}


def in_eights(arch: Arch) -> Arch:
    """`arch` with MLPs of a multiple of 8, which the fast matrix products of a GPU need."""
    return redesign(arch, mlp_dim=[8 * round(units / 8) for units in mlp_dims(arch)])


def designs(scale: str) -> dict[str, tuple[Arch, str]]:
    """Every design by its arm's name, with a note."""
    original = ORIGINALS[scale]
    lean = redesign(original, depth=4, heads=16)
    wide, narrow = (in_eights(make(original, lean).arch) for make in (mlp_matched, params_matched))
    out = {"L12_h8": (original, "the original")}
    for depth in (2, 4, 6, 9):
        out[f"L{depth}_h8"] = (redesign(original, depth=depth), "fewer layers, the original's heads")
    out["L12_h16"] = (redesign(original, heads=16), "the original's depth, twice the heads")
    out["L6_h16"] = (redesign(original, depth=6, heads=16), "half the layers, twice the heads")
    out["L4_h16"] = (lean, "a third of the layers, twice the heads")
    out["L4_h16_d32"] = (
        redesign(original, depth=4, heads=16, policy="split"),
        "twice the heads, split from the original's inner width",
    )
    for name, arch, note in (
        ("L4_h8_mlp", wide, "more MLP in place of more heads"),
        ("L12_narrow", narrow, "narrower in place of shallower"),
    ):
        out[name] = (arch, f"{note}: the parameters of L4_h16, {params(arch).total / params(lean).total - 1:+.2%}")
    out["L4_h8_d128"] = (redesign(original, depth=4, head_dim=128), "the inner width of L4_h16 in 8 larger heads")
    return out


def control_arms(scale: str) -> tuple[Arm, ...]:
    """Every design at its rate."""
    return tuple(
        Arm(name, arch, note, recipe={"lr": RATES[NEAREST.get(name, name)]})
        for name, (arch, note) in designs(scale).items()
    )


def rate_arms(scale: str) -> tuple[Arm, ...]:
    """The designs whose rate is chosen, at every rate: L4_h16_x2 is L4_h16 at twice the middle rate."""
    made = designs(scale)
    return tuple(
        Arm(f"{name}_x{factor:g}", made[name][0], f"learning rate {factor * MIDDLE:g}", recipe={"lr": factor * MIDDLE})
        for name in RATES
        for factor in FACTORS
    )


BESTS = tuple(Best(name, tuple(f"{name}_x{factor:g}" for factor in FACTORS)) for name in RATES)
GPT_RATES = Experiment(
    name="gpt_rates",
    title="The learning rates of a GPT's designs",
    question="Which learning rate is best for each design, on articles that are neither trained nor reported on?",
    settings={
        scale: Setting(rate_arms(scale), (0,), CHOICE[scale], {"steps": RECIPES[scale]}, BESTS) for scale in TASKS
    },
)

DEPTH_PAYS = (Loses("L4_h8", "L12_h8"),)
NO_LOSS = 0.005  # nats
GPT_CONTROLS = Experiment(
    name="gpt_controls",
    title="A GPT on Wikipedia with every control",
    question="Is the gain of more heads and fewer layers the heads, and does kappa predict the loss of a design?",
    settings={
        "smoke": Setting(control_arms("smoke"), (1,), TASKS["smoke"], {"steps": RECIPES["smoke"]}),
        "small": Setting(control_arms("small"), (1, 2, 3), TASKS["small"], {"steps": RECIPES["small"]}),
    },
    comparisons=(
        Comparison("L4_h16", "L4_h8_mlp", "better", claim="M1", primary=True, controls=DEPTH_PAYS),
        Comparison("L4_h16", "L4_h8", "better", claim="M1", controls=DEPTH_PAYS),
        Comparison("L4_h16", "L12_narrow", "better", claim="M1", controls=DEPTH_PAYS),
        Comparison("L4_h16", "L4_h16_d32", "differ", NO_LOSS, "M2", primary=True),
        # log_kappa is a logarithm: within 0.1 of each other is within 10 %
        Comparison("L4_h8_d128", "L4_h16", "equal", 0.1, "L15", "log_kappa"),
        Comparison("L12_h16", "L12_h8", "better", claim="L5", controls=DEPTH_PAYS),
        Comparison("L6_h16", "L12_h8", "no_loss", NO_LOSS, "L6", controls=(Loses("L6_h8", "L12_h8"),)),
        Comparison("L4_h16", "L4_h8_mlp", "better", claim="L7", controls=DEPTH_PAYS),
        Comparison("L4_h16", "L12_h8", "no_loss", NO_LOSS, "L8", controls=DEPTH_PAYS),
    ),
    trends=(Trend("log_kappa", "loss", "more", claim="M3", primary=True),),
    pooled=True,
)

SELDOM: dict[str, Any] = {"evaluate_every": 0.5, "probe_every": 0.99}
SLOWER = 0.05  # of the logarithm of the rate: 5 %
GPT_TIME = Experiment(
    name="gpt_time",
    title="Larger heads or more of them, each alone on the device",
    question="Do 8 heads of 128 have the kappa of 16 heads of 64, and train more slowly?",
    settings={
        scale: Setting(
            tuple(arm for arm in control_arms(scale) if arm.name in ("L4_h16", "L4_h8_d128")),
            seeds,
            TASKS[scale],
            {"steps": replace(RECIPES[scale], **SELDOM)},
        )
        for scale, seeds in (("smoke", (1,)), ("small", (1, 2, 3)))
    },
    comparisons=(
        Comparison("L4_h8_d128", "L4_h16", "equal", 0.1, "L15", "log_kappa", primary=True),
        Comparison("L4_h8_d128", "L4_h16", "less", SLOWER, "L15", "rate", primary=True, ratio=True),
    ),
    alone=True,
)
