"""The demonstration: a small ViT, its lean redesign and two controls on the embedded images, in minutes on two cores.

    manyheads demo      about 3 minutes on 2 cores, offline; every arm near 84 % top-1, differences within the spread

28 px in patches of 7 make 17 tokens with the class token, so that inner is above tokens in every arm and the
conditioning argument applies: 64 columns in the original, 128 in lean. Were their entries independent and normal, kappa
would be 2.75 and 1.97; measured it is tens to hundreds of times that, and lowest in the two arms with 8 heads."""

from __future__ import annotations

from dataclasses import replace

from manyheads.arch.controls import depth_only, split
from manyheads.arch.families import vit
from manyheads.arch.redesign import redesign
from manyheads.spec.experiment import Arm, Comparison, Experiment, Setting
from manyheads.spec.images import Images
from manyheads.spec.recipe import Basis, Recipe
from manyheads.spec.schedule import Schedule

ORIGINAL = vit(64, 6, 4, 16, 128, image=28, patch=7, channels=1, classes=10)
LEAN = redesign(ORIGINAL, depth=3, heads=8)

ARMS = (
    Arm("original", ORIGINAL, "6 layers of 4 heads"),
    Arm("lean", LEAN, "half the layers, twice the heads, head_dim kept"),
    Arm("depth_only", depth_only(ORIGINAL, LEAN).arch, "half the layers, and the original heads"),
    Arm("split", split(ORIGINAL, LEAN).arch, "half the layers, twice the heads of half the size"),
)

RECIPE = Recipe(
    batch=64,
    basis=Basis("steps", 1000),
    lr=4e-3,
    weight_decay=0.05,
    betas=(0.9, 0.99),
    schedule=Schedule("cosine", warmup=0.1),
    evaluate_every=0.1,
    probe_every=0.1,
    probe_samples=32,
    checkpoint_every=0.25,
)

DEMO = Experiment(
    name="demo",
    run="manyheads demo",
    title="A small ViT, made leaner",
    question="Does a ViT with half the layers and twice the heads do as well as the original, and is it the heads?",
    settings={"smoke": Setting(arms=ARMS, seeds=(0, 1), task=Images("fashion_mnist"), recipes={"steps": RECIPE})},
    comparisons=(
        Comparison("lean", "original", "no_loss", margin=0.01, claim="L9"),
        Comparison("lean", "depth_only", "better", claim="M1"),
        Comparison("lean", "split", "differ", margin=0.005, claim="M2"),
        Comparison("lean", "original", "less", claim="L4", metric="log_kappa"),
    ),
)


def shortened(experiment: Experiment, steps: int) -> Experiment:
    """The same experiment with fewer (or more) training steps."""
    settings = {}
    for scale, setting in experiment.settings.items():
        recipes = {name: replace(recipe, basis=Basis("steps", steps)) for name, recipe in setting.recipes.items()}
        settings[scale] = replace(setting, recipes=recipes)
    return replace(experiment, settings=settings)
