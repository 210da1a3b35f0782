"""Fixed against split at equal depth, for the families in which the paper most likely split.

    manyheads run policy --scale smoke     four toy families, four arms each
    manyheads run policy --scale small     the twins of XCiT-L, TNT-B, VOLO-d3 and DaViT-B, 3 seeds
    manyheads run policy --scale paper     those rows and VOLO-d4 and DaViT-L as audited, ImageNet

`split` is the lean record that was counted: more heads of the original's inner width. `fixed` is what the paper's text
prescribes, the same heads at the original's head_dim, which costs parameters. `fixed_matched` has fixed's heads and
split's parameters, its MLP cut for it: the other reading of the same count. `depth_only` has the original's heads.
(Crammed BERT and GPT-2 have their own arms for this in table1 and table2.)"""

from __future__ import annotations

from bisect import bisect_left

from manyheads.arch.controls import depth_only, fixed, mlp_dims
from manyheads.arch.params import params
from manyheads.arch.redesign import redesign
from manyheads.spec.arch import Arch
from manyheads.spec.experiment import Arm, Comparison, Expect, Experiment, Setting

from .pairs import LARGE, TASKS, arm, pair
from .vision_parts import RECIPES, SEEDS, TABLE6_LARGE

FAMILIES = {"xcit": "xcit_l", "tnt": "tnt_b", "volo": "volo_d3", "davit": "davit_b"}
MORE = {"volo_d4": "volo_d4", "davit_l": "davit_l"}  # at paper scale; their twins are those of volo and davit


def thinned(wide: Arch, split: Arch) -> Arch:
    """`wide` with its MLPs cut in proportion until it has the parameters of `split`."""
    target, widths = params(split).total, mlp_dims(wide)

    def at(share: int) -> Arch:
        return redesign(wide, mlp_dim=[max(1, round(width * share / 2048)) for width in widths])

    above = bisect_left(range(1, 2048), target, key=lambda share: params(at(share)).total) + 1
    return min((at(above), at(max(1, above - 1))), key=lambda arch: abs(params(arch).total - target))


def arms(scale: str) -> tuple[Arm, ...]:
    """Split, fixed, fixed_matched and depth_only of every family."""
    rows = FAMILIES | (MORE if scale == "paper" else {})
    out = []
    for name, key in rows.items():
        made = pair(key, scale)
        wide = fixed(made.original, made.lean).arch
        thin = thinned(wide, made.lean)
        miss = params(thin).total / params(made.lean).total - 1
        for role, arch, note in (
            ("split", made.lean, "inner kept, heads thinner"),
            ("fixed", wide, "head_dim kept, inner grows"),
            ("fixed_matched", thin, f"head_dim kept, MLP cut to split's parameters, {miss:+.2%}"),
            ("depth_only", depth_only(made.original, made.lean).arch, "the original heads"),
        ):
            own = {"batch": TABLE6_LARGE["batch"]} if scale == "paper" and key in LARGE else {}
            one = arm(key, scale, role, arch, note)
            out.append(Arm(f"{name}_{role}", one.arch, one.note, one.task, own))
    return tuple(out)


# fmt: off
EXPECTED: tuple[tuple[str, str, Expect, str, str], ...] = (  # arm, against, what, claim, metric
    ("fixed", "split", "differ", "M2", ""), ("fixed_matched", "split", "differ", "M2", ""),
    ("split", "depth_only", "more", "M1", ""), ("fixed", "split", "less", "", "log_kappa"),
)
# fmt: on

POLICY = Experiment(
    name="policy",
    title="More heads: fixed or split",
    question="At equal depth, does it matter whether more heads keep their size or share the original's inner width?",
    settings={scale: Setting(arms(scale), SEEDS[scale], TASKS[scale], {"steps": RECIPES[scale]}) for scale in TASKS},
    comparisons=tuple(
        Comparison(f"{name}_{one}", f"{name}_{other}", expect, claim=claim, metric=metric)
        for name in FAMILIES
        for one, other, expect, claim, metric in EXPECTED
    ),
)
