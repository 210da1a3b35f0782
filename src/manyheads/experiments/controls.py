"""The controls that nobody reports: is it the heads of a lean ViT that make up for its lost depth?

    manyheads run controls --scale smoke     the toy pair of ViT-B, all controls, three bases, a second a run
    manyheads run controls --scale small     the pair of table4 (7 of 12 layers, 4 of 3 heads), 3 seeds, 3 bases
    manyheads run controls --scale paper     ViT-B as audited, ImageNet

`depth_only`, `heads_only`, `split`, `wide_heads`, `mlp_matched`, `params_matched` are those of `arch.controls`; a note
says what each matches and by how much it misses. Equal steps favour what is large, equal FLOPs and equal seconds what
is cheap: a claim that holds on one basis alone is a claim about that basis. A FLOP budget is what the original needs
for the steps. Seconds are 60 at small, a day at paper scale, of training alone; they compare arms on one machine, run
one at a time."""

from __future__ import annotations

from typing import Any

from manyheads.arch.controls import controls
from manyheads.arch.flops import training_flops
from manyheads.spec.experiment import Arm, Comparison, Experiment, Setting
from manyheads.spec.recipe import IMAGENET_IMAGES

from .pairs import TASKS, pair, task
from .vision_parts import RECIPES, SEEDS

KEY = "vit_b"
SECONDS = {"smoke": 0.5, "small": 60.0, "paper": 24 * 3600.0}


def arms(scale: str, key: str = KEY) -> tuple[Arm, ...]:
    """Original, lean and every control of a pair that is a model of its own."""
    made = pair(key, scale)
    own = task(key, scale)
    out = [
        Arm("original", made.original, "as published", own),
        Arm("lean", made.lean, "fewer layers, more heads, head_dim kept", own),
    ]
    for name, control in controls(made.original, made.lean).items():
        if not control.same_as:
            out.append(Arm(name, control.arch, f"matches {control.matches}, {control.residual:+.2%}", own))
    return tuple(out)


def bases(scale: str, original: Arm) -> dict[str, dict[str, Any]]:
    """The recipe on equal steps, equal FLOPs and equal seconds."""
    recipe = RECIPES[scale]
    kind, amount = recipe["basis"]["kind"], recipe["basis"]["amount"]
    samples = amount * (IMAGENET_IMAGES if kind == "epochs" else recipe["batch"])
    flops = float(f"{samples * training_flops(original.arch):.3g}")
    return {
        "steps": recipe,
        "flops": recipe | {"basis": {"kind": "flops", "amount": flops}},
        "seconds": recipe | {"basis": {"kind": "seconds", "amount": SECONDS[scale]}},
    }


def setting(scale: str) -> Setting:
    """All arms on all bases."""
    made = arms(scale)
    return Setting(made, SEEDS[scale], TASKS[scale], bases(scale, made[0]))


CONTROLS = Experiment(
    name="controls",
    title="Is it the heads?",
    question="Is the gain of a lean ViT its heads, or is less depth enough; and on which basis?",
    settings={scale: setting(scale) for scale in TASKS},
    comparisons=(
        Comparison("lean", "original", "no_loss", margin=0.005, claim="L9", printed=0.003),
        Comparison("lean", "depth_only", "more", claim="M1"),
        Comparison("lean", "mlp_matched", "more", claim="M1"),
        Comparison("lean", "params_matched", "more", claim="M1"),
        Comparison("lean", "split", "differ", claim="M2"),
        Comparison("heads_only", "original", "more", claim="L5"),
        Comparison("lean", "original", "less", claim="L4", metric="log_kappa"),
        Comparison("wide_heads", "lean", "no_loss", margin=0.1, claim="L15", metric="log_kappa"),
        Comparison("wide_heads", "lean", "less", claim="L15", metric="rate"),  # of images, while training
        Comparison("wide_heads", "lean", "differ"),
    ),
    printed={"original": 0.801, "lean": 0.804},
)
