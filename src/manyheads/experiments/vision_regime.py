"""Where does depth pay, and do heads make up for it there? ViTs of width 192 with heads of 64, strongly augmented.

    manyheads run vision_dose --scale small    2, 4, 7 and 12 layers of 3 heads on two sets of images, 60 epochs, 3 seeds
    manyheads run vision_arms --scale small    eleven designs on the set that vision_dose chose, 4 seeds
    manyheads run vision_dose --scale smoke    toys of width 24 on a few embedded images, which stand in for both sets

A design with fewer layers and no loss says something only where fewer layers alone do lose. `vision_dose` looks for
such a setting: CIFAR-10 at 32 px in patches of 4 (`cifar`), and 100 classes of Tiny-ImageNet at their own 64 px in
patches of 8 (`tiny`, the folder tiny_imagenet_100 below the data root). Both settings are reported, whichever is used.

An arm of `vision_arms` is called after its layers and heads: L7_h12 has 7 layers of 12 heads. `d16` is its head_dim,
where that is not 64, `half` an MLP of half the units, and L7_h3_mlp has the parameters of L7_h12 by a wider MLP.
L12_h3 is the original. inner (heads x head_dim) is 192 or more on 65 tokens: past the peak of kappa."""

from __future__ import annotations

from dataclasses import replace

from manyheads.arch.controls import mlp_dims, mlp_matched
from manyheads.arch.count import params
from manyheads.arch.families import vit
from manyheads.arch.redesign import redesign
from manyheads.spec.arch import Arch
from manyheads.spec.experiment import Arm, Comparison, Experiment, Loses, Setting, Slope, Trend
from manyheads.spec.images import Augment, Images, Rand
from manyheads.spec.recipe import Basis, Recipe
from manyheads.spec.schedule import Schedule

from .scales import BRIEF, fashion

DEPTHS = (2, 4, 7, 12)
CHOSEN = "cifar"
"""The set of images of `vision_arms`. vision_dose has not been run yet: this is the one to expect more of."""
SEEDS = {"smoke": (0,), "small": (0, 1, 2)}
EPOCHS = Recipe(
    batch=512,
    basis=Basis("epochs", 60),
    lr=1e-3,
    schedule=Schedule("cosine", warmup=0.1),
    weight_decay=0.05,
    evaluate_every=0.1,
    probe_every=0.25,
    probe_samples=64,
    checkpoint_every=0,
)
RECIPES = {
    "smoke": replace(EPOCHS, **BRIEF | {"batch": 16, "basis": Basis("steps", 10), "probe_samples": 4}),
    "small": EPOCHS,
}


def strong(crop: int) -> Augment:
    """RandAugment, erasing, mixup and cutmix, as ViTs are trained from scratch."""
    return Augment(crop=crop, flip=True, rand=Rand(), erase=0.25, mixup=0.8, cutmix=1.0)


TASKS: dict[str, dict[str, Images]] = {
    "smoke": {"cifar": fashion(28), "tiny": fashion(32)},
    "small": {
        "cifar": Images("cifar10", size=32, label_smoothing=0.1, augment=strong(4)),
        "tiny": Images(
            "folder:tiny_imagenet_100", size=64, classes=100, label_smoothing=0.1, augment=strong(8), centre=1.0
        ),
    },
}
ORIGINALS: dict[str, dict[str, Arch]] = {
    "smoke": {
        "cifar": vit(24, 12, 3, 64, 96, image=28, patch=7, channels=1, classes=10),
        "tiny": vit(24, 12, 3, 64, 96, image=32, patch=8, channels=1, classes=10),
    },
    "small": {
        "cifar": vit(192, 12, 3, 64, 768, image=32, patch=4, classes=10),
        "tiny": vit(192, 12, 3, 64, 768, image=64, patch=8, classes=100),
    },
}


def dose_arms(scale: str) -> tuple[Arm, ...]:
    """Every depth on every set of images."""
    return tuple(
        Arm(f"{name}_L{depth}", redesign(original, depth=depth), f"{depth} layers of 3 heads", TASKS[scale][name])
        for name, original in ORIGINALS[scale].items()
        for depth in DEPTHS
    )


VISION_DOSE = Experiment(
    name="vision_dose",
    title="Where depth pays",
    question="On which images does a ViT with fewer layers lose accuracy, so that heads could be seen to make up for it?",
    settings={scale: Setting(dose_arms(scale), SEEDS[scale], None, {"epochs": RECIPES[scale]}) for scale in TASKS},
    comparisons=tuple(
        Comparison(f"{name}_L12", f"{name}_L{depth}", "better") for name in ORIGINALS["small"] for depth in (7, 4, 2)
    ),
    pooled=True,
)


def designs(scale: str) -> dict[str, tuple[Arch, str]]:
    """Every design by its arm's name, with a note."""
    original = ORIGINALS[scale][CHOSEN]
    (units,) = mlp_dims(original)
    half = units // 2
    many = redesign(original, depth=7, heads=12)
    wide = mlp_matched(original, many).arch
    wide = redesign(wide, mlp_dim=8 * round(mlp_dims(wide)[0] / 8))  # whole tiles of a GPU's matrix products
    match = f"the parameters of L7_h12 in the MLP, {params(wide).total / params(many).total - 1:+.2%}"
    return {
        "L12_h3": (original, "the original"),
        "L12_h6": (redesign(original, heads=6), "twice the heads"),
        "L7_h3": (redesign(original, depth=7), "seven layers of the original's heads"),
        "L7_h6": (redesign(original, depth=7, heads=6), "seven layers, twice the heads"),
        "L7_h12": (many, "seven layers, four times the heads"),
        "L7_h12_d16": (
            redesign(original, depth=7, heads=12, policy="split"),
            "four times the heads, split from the original's inner width",
        ),
        "L7_h3_mlp": (wide, match),
        "L7_h3_half": (redesign(original, depth=7, mlp_dim=half), "L7_h3 with half the MLP"),
        "L7_h4_half": (redesign(original, depth=7, heads=4, mlp_dim=half), "the first paper's ViT-B row at this size"),
        "L4_h3": (redesign(original, depth=4), "four layers of the original's heads"),
        "L4_h12": (redesign(original, depth=4, heads=12), "four layers, four times the heads"),
    }


def arms(scale: str) -> tuple[Arm, ...]:
    """Every design."""
    return tuple(Arm(name, arch, note) for name, (arch, note) in designs(scale).items())


NO_LOSS = 0.005  # of top-1 accuracy
SEVEN_LOSE = (Loses("L7_h3", "L12_h3"),)
FOUR_LOSE = (Loses("L4_h3", "L12_h3"),)
MLP_LOSES = (Loses("L7_h3_half", "L7_h3"),)
LEAN_DEPTH_LOSES = (Loses("L7_h3_half", "L12_h3"),)
LOG, LOSS = "log_kappa", "loss"
NATS = 0.02  # of validation loss that still count as no loss
ADDED = ("L12_h3", "L12_h6", "L7_h3", "L7_h6", "L7_h12", "L4_h3", "L4_h12")  # they differ in depth and heads alone
VISION_ARMS = Experiment(
    name="vision_arms",
    title="Heads where depth pays",
    question="In a setting in which lost depth costs accuracy, do more heads bring it back, and more than MLP units do?",
    settings={
        "smoke": Setting(arms("smoke"), (0,), TASKS["smoke"][CHOSEN], {"epochs": RECIPES["smoke"]}),
        "small": Setting(arms("small"), (0, 1, 2, 3), TASKS["small"][CHOSEN], {"epochs": RECIPES["small"]}),
    },
    comparisons=(
        Comparison("L7_h12", "L7_h3", "less", claim="L4", metric=LOG),
        Comparison("L12_h6", "L12_h3", "less", claim="L4", metric=LOG),
        Comparison("L4_h12", "L4_h3", "less", claim="L4", metric=LOG),
        Comparison("L7_h12", "L7_h6", "less", claim="L4", metric=LOG),
        Comparison("L7_h6", "L7_h3", "less", claim="L4", metric=LOG),
        Comparison("L12_h6", "L12_h3", "better", claim="L5", primary=True, controls=FOUR_LOSE),
        Comparison("L12_h6", "L12_h3", "better", claim="L5", metric=LOSS, controls=FOUR_LOSE),
        Comparison("L7_h6", "L12_h3", "better", claim="L6", primary=True, controls=SEVEN_LOSE),
        Comparison("L7_h6", "L12_h3", "better", claim="L6", metric=LOSS, controls=SEVEN_LOSE),
        Comparison("L7_h12", "L7_h3_mlp", "better", claim="L7", primary=True, controls=MLP_LOSES),
        Comparison("L7_h12", "L7_h3_mlp", "better", claim="L7", metric=LOSS, controls=MLP_LOSES),
        Comparison("L7_h12", "L7_h3_mlp", "better", claim="M1", controls=SEVEN_LOSE),
        Comparison("L4_h12", "L12_h3", "no_loss", NO_LOSS, "L8", primary=True, controls=FOUR_LOSE),
        Comparison("L4_h12", "L12_h3", "no_loss", NATS, "L8", LOSS, controls=FOUR_LOSE),
        Comparison("L7_h4_half", "L12_h3", "no_loss", NO_LOSS, "L9", primary=True, controls=LEAN_DEPTH_LOSES),
        Comparison("L7_h4_half", "L12_h3", "no_loss", NATS, "L9", LOSS, controls=LEAN_DEPTH_LOSES),
        Comparison("L7_h12", "L7_h12_d16", "differ", NO_LOSS, "M2"),
    ),
    trends=(Trend(LOG, LOSS, "more", claim="M3"),),
    slopes=(Slope(LOG, "heads", ADDED, "less", claim="L4", primary=True),),
    pooled=True,
)
