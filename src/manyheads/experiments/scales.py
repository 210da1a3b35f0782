"""What experiments share at a scale: seeds, recipes and images, and the twin of ViT-B (a smaller model of the same
proportions) on which section 4.1 of the first paper is repeated.

At scale small a vision model is trained for 2,000 steps of 512 images, 20 epochs of CIFAR-10. At paper scale recipe and
task are those of Table 6 (`recipes`)."""

from __future__ import annotations

from typing import Any

from manyheads.arch import zoo
from manyheads.arch.families import vit
from manyheads.spec.arch import Arch
from manyheads.spec.images import Augment, Images, crop_after_resize
from manyheads.spec.recipe import Basis, Recipe
from manyheads.spec.schedule import Schedule

from .recipes import TABLE6, table6_task

WARM = Schedule("cosine", warmup=0.1)

BRIEF: dict[str, Any] = {"log_every": 10, "evaluate_every": 0.5, "probe_every": 0.5, "checkpoint_every": 0}
"""Fields of every smoke run's recipe."""
SMOKE = Recipe(batch=16, basis=Basis("steps", 30), lr=3e-3, schedule=WARM, probe_samples=4, **BRIEF)
SMALL = Recipe(
    batch=512,
    basis=Basis("steps", 2000),
    lr=1e-3,
    weight_decay=0.05,
    schedule=Schedule("cosine", warmup=0.05),
    evaluate_every=0.1,
    probe_every=0.1,
    probe_samples=64,
    checkpoint_every=0.25,
)
RECIPES = {"smoke": SMOKE, "small": SMALL, "paper": TABLE6}
SEEDS = {"smoke": (0,), "small": (0, 1, 2), "paper": (0, 1, 2)}
ONCE = {"once": Recipe()}  # of a measurement, which trains nothing


def cifar(size: int) -> Images:
    """CIFAR-10 at `size` pixels: padded by an eighth on every side and cut to size, mirrored, labels smoothed."""
    augment = Augment(crop=size // 8, flip=True)
    return crop_after_resize(Images("cifar10", size=size, label_smoothing=0.1, augment=augment))


def fashion(size: int) -> Images:
    """A few of the embedded images, for runs that take seconds."""
    return Images("fashion_mnist", size=size, limit=1000, test_limit=200)


TASKS = {"smoke": fashion(28), "small": cifar(28), "paper": table6_task()}  # of section 4.1
TWIN: dict[str, Arch] = {
    "smoke": vit(72, 12, 12, 6, 288, image=28, patch=7, channels=1, classes=10),
    "small": vit(192, 12, 12, 16, 768, image=28, patch=4, classes=10),
    "paper": zoo.get("vit_b"),
}
"""ViT-B and its twins: 12 layers of 12 heads. inner / tokens is 3.9 (3.8 at small, 4.2 at smoke), so that the peak of
kappa, inner = tokens, lies at 3 heads at every scale."""
