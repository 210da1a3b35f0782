"""What Tables 4 and 5 leave open: are a lean ViT's heads the reason (`controls`), does each arm need its own learning
rate (`lr`), does it matter whether more heads keep their size or share the inner width (`policy`)?"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import replace

from manyheads.arch.controls import controls, depth_only, fixed, mlp_dims
from manyheads.arch.count import params, training_flops
from manyheads.arch.redesign import redesign
from manyheads.spec.arch import Arch
from manyheads.spec.experiment import Arm, Best, Comparison, Expect, Experiment, Loses, Setting
from manyheads.spec.recipe import IMAGENET_IMAGES, Basis, Recipe

from .recipes import TABLE6_LARGE
from .scales import RECIPES, SEEDS
from .vision_pairs import LARGE, TASKS, arm, pair, task

KEY = "vit_b"
MARGIN = 0.005  # of top-1 accuracy
SECONDS = {"smoke": 0.5, "small": 60.0, "paper": 24 * 3600.0}


def control_arms(scale: str, key: str = KEY) -> tuple[Arm, ...]:
    """Original, lean and every control of a pair that is a model of its own."""
    both = pair(key, scale)
    own = task(key, scale)
    out = [
        Arm("original", both.original, "as published", own),
        Arm("lean", both.lean, "fewer layers, more heads, head_dim kept", own),
    ]
    for name, control in controls(both.original, both.lean).items():
        if not control.same_as:
            out.append(Arm(name, control.arch, f"matches {control.matches}, {control.residual:+.2%}", own))
    return tuple(out)


def bases(scale: str, original: Arm) -> dict[str, Recipe]:
    """The recipe on equal steps, equal FLOPs and equal seconds."""
    recipe = RECIPES[scale]
    samples = recipe.basis.amount * (IMAGENET_IMAGES if recipe.basis.kind == "epochs" else recipe.batch)
    flops = float(f"{samples * training_flops(original.arch):.3g}")
    return {
        "steps": recipe,
        "flops": replace(recipe, basis=Basis("flops", flops)),
        "seconds": replace(recipe, basis=Basis("seconds", SECONDS[scale])),
    }


def setting(scale: str) -> Setting:
    """All arms on all bases."""
    arms = control_arms(scale)
    return Setting(arms, SEEDS[scale], TASKS[scale], bases(scale, arms[0]))


DEPTH_LOSES = (Loses("depth_only", "original"),)
CONTROLS = Experiment(
    name="controls",
    title="Is it the heads?",
    question="Is the gain of a lean ViT its heads, or is less depth enough; and on which basis?",
    settings={scale: setting(scale) for scale in TASKS},
    comparisons=(
        Comparison("lean", "original", "no_loss", MARGIN, "L9", printed=0.003, controls=DEPTH_LOSES),
        Comparison("lean", "depth_only", "better", claim="M1", controls=DEPTH_LOSES),
        Comparison("lean", "mlp_matched", "better", claim="M1", controls=DEPTH_LOSES),
        Comparison("lean", "params_matched", "better", claim="M1", controls=DEPTH_LOSES),
        Comparison("lean", "split", "differ", MARGIN, "M2"),
        Comparison("heads_only", "original", "better", claim="L5", controls=DEPTH_LOSES),
        Comparison("lean", "original", "less", claim="L4", metric="log_kappa"),
        # L15 takes pairs of head_dims that kernels like alike; of the 12 heads of ViT-B, lean's inner makes 85
        Comparison("wide_heads", "lean", "equal", 0.1, metric="log_kappa"),
        Comparison("wide_heads", "lean", "differ", MARGIN),
    ),
    printed={"original": 0.801, "lean": 0.804},
)
"""The controls that nobody reports: do the heads of a lean ViT make up for its lost depth?

    manyheads run controls --scale smoke     the toy pair of ViT-B, all controls, three bases, a second a run
    manyheads run controls --scale small     the pair of table4 (7 of 12 layers, 4 of 3 heads), 3 seeds, 3 bases
    manyheads run controls --scale paper     ViT-B as audited, ImageNet

A note says what each control matches and by how much it misses (`arch.controls`). Equal steps favour large models,
equal FLOPs and equal seconds cheap ones: a claim that holds on one basis alone is a claim about that basis. The FLOP
budget is what the original needs for the steps. Seconds are 60 at small, a day at paper scale, of training alone; they
compare arms on one machine that runs one at a time."""

FACTORS = {"smoke": (0.25, 1, 4), "small": (0.25, 0.5, 1, 2, 4), "paper": (0.1, 0.25, 0.5, 1, 2)}
DESIGNS = ("original", "lean", "depth_only")


def rate_arms(scale: str) -> tuple[Arm, ...]:
    """Every design at every rate."""
    both = pair(KEY, scale)
    archs = dict(zip(DESIGNS, (both.original, both.lean, depth_only(both.original, both.lean).arch), strict=True))
    rate = RECIPES[scale].lr
    return tuple(
        Arm(
            f"{name}_x{factor:g}",
            archs[name],
            f"learning rate {rate * factor:g}",
            task(KEY, scale),
            {"lr": rate * factor},
        )
        for name in DESIGNS
        for factor in FACTORS[scale]
    )


BESTS = {
    scale: tuple(Best(name, tuple(f"{name}_x{factor:g}" for factor in FACTORS[scale])) for name in DESIGNS)
    for scale in FACTORS
}

X1_LOSES = (Loses("depth_only_x1", "original_x1"),)
LR = Experiment(
    name="lr",
    title="Every arm at its own learning rate",
    question="Does lean still do as well as the original, and better than depth alone, when each has its best rate?",
    settings={
        scale: Setting(
            rate_arms(scale),
            (0, 1) if scale == "smoke" else (0, 1, 2, 3),
            TASKS[scale],
            {"steps": RECIPES[scale]},
            BESTS[scale],
        )
        for scale in TASKS
    },
    comparisons=(
        Comparison("lean_x1", "original_x1", "no_loss", MARGIN, "L9", controls=X1_LOSES),
        Comparison("lean_x1", "depth_only_x1", "better", claim="M1", controls=X1_LOSES),
    ),
)
"""Each arm at its own best learning rate: a design that only needs another rate than the original is no worse.

    manyheads run lr --scale smoke     three toy ViTs at three rates
    manyheads run lr --scale small     original, lean and depth_only of the ViT pair at five rates, 4 seeds
    manyheads run lr --scale paper     the same for ViT-B on ImageNet

lean_x2 is lean at twice the recipe's rate. `BESTS` says which arms are one design: its rate is the one that is best at
the first seed, and that seed is left out of the comparison (`statistics.choose`)."""

FAMILIES = {"xcit": "xcit_l", "tnt": "tnt_b", "volo": "volo_d3", "davit": "davit_b"}
MORE = {"volo_d4": "volo_d4", "davit_l": "davit_l"}  # at paper scale; their twins are those of volo and davit


def thinned(wide: Arch, split: Arch) -> Arch:
    """`wide` with its MLPs cut in proportion until it has the parameters of `split`."""
    target, widths = params(split).total, mlp_dims(wide)

    def at(share: int) -> Arch:
        return redesign(wide, mlp_dim=[max(1, round(width * share / 2048)) for width in widths])

    above = bisect_left(range(1, 2048), target, key=lambda share: params(at(share)).total) + 1
    return min((at(above), at(max(1, above - 1))), key=lambda arch: abs(params(arch).total - target))


def policy_arms(scale: str) -> tuple[Arm, ...]:
    """Split, fixed, fixed_matched and depth_only of every family."""
    rows = FAMILIES | (MORE if scale == "paper" else {})
    out = []
    for name, key in rows.items():
        both = pair(key, scale)
        wide = fixed(both.original, both.lean).arch
        thin = thinned(wide, both.lean)
        miss = params(thin).total / params(both.lean).total - 1
        for role, arch, note in (
            ("split", both.lean, "inner kept, heads thinner"),
            ("fixed", wide, "head_dim kept, inner grows"),
            ("fixed_matched", thin, f"head_dim kept, MLP cut to split's parameters, {miss:+.2%}"),
            ("depth_only", depth_only(both.original, both.lean).arch, "the original heads"),
        ):
            own = {"batch": TABLE6_LARGE.batch} if scale == "paper" and key in LARGE else {}
            one = arm(key, scale, role, arch, note)
            out.append(Arm(f"{name}_{role}", one.arch, one.note, one.task, own))
    return tuple(out)


# fmt: off
EXPECTED: tuple[tuple[str, str, Expect, float, str, str], ...] = (  # arm, against, what, margin, claim, metric
    ("fixed", "split", "differ", MARGIN, "M2", ""), ("fixed_matched", "split", "differ", MARGIN, "M2", ""),
    ("split", "depth_only", "better", 0.0, "", ""), ("fixed", "split", "less", 0.0, "", "log_kappa"),
)
# fmt: on

POLICY = Experiment(
    name="policy",
    title="More heads: fixed or split",
    question="At equal depth, does it matter whether more heads keep their size or share the original's inner width?",
    settings={
        scale: Setting(policy_arms(scale), SEEDS[scale], TASKS[scale], {"steps": RECIPES[scale]}) for scale in TASKS
    },
    comparisons=tuple(
        Comparison(f"{name}_{one}", f"{name}_{other}", expect, margin, claim, metric)
        for name in FAMILIES
        for one, other, expect, margin, claim, metric in EXPECTED
    ),
)
"""Fixed against split at equal depth, for the families in which the paper most likely split.

    manyheads run policy --scale smoke     four toy families, four arms each
    manyheads run policy --scale small     the twins of XCiT-L, TNT-B, VOLO-d3 and DaViT-B, 3 seeds
    manyheads run policy --scale paper     those rows and VOLO-d4 and DaViT-L as audited, ImageNet

`split` is the lean record that was counted: more heads within the original's inner width. `fixed` is what the paper's
text prescribes, the same heads at the original's head_dim, which costs parameters. `fixed_matched` has fixed's heads
and split's parameters, its MLP cut for it: the other reading of the same count. `depth_only` has the original's heads.
(Crammed BERT and GPT-2 have arms for this in table1 and table2.)"""
