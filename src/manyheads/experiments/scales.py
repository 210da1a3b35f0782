"""What experiments share at a scale: seeds, recipes and images, and the twin of ViT-B (a smaller model of the same
proportions) on which section 4.1 of the first paper is repeated.

At scale small a vision model is trained for 2,000 steps of 512 images, 20 epochs of CIFAR-10. `cifar10_q5` are its
images with pixels in steps of 5; `on` gives an experiment the official ones. `TABLE6` and `IMAGENET` are the recipe
and the task of `train.table6`; a test compares them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from manyheads.arch import zoo
from manyheads.arch.families import vit
from manyheads.spec.arch import Arch
from manyheads.spec.experiment import Experiment

# fmt: off
BRIEF: dict[str, Any] = {  # of every smoke run
    "log_every": 10, "evaluate_every": 0.5, "probe_every": 0.5, "checkpoint_every": 0,
}
SMOKE: dict[str, Any] = BRIEF | {
    "batch": 16, "basis": {"kind": "steps", "amount": 30}, "lr": 3e-3, "schedule": {"kind": "cosine", "warmup": 0.1},
    "probe_samples": 4,
}
SMALL: dict[str, Any] = {
    "batch": 512, "basis": {"kind": "steps", "amount": 2000}, "lr": 1e-3, "weight_decay": 0.05,
    "schedule": {"kind": "cosine", "warmup": 0.05}, "evaluate_every": 0.1, "probe_every": 0.1, "probe_samples": 64,
    "checkpoint_every": 0.25,
}
TABLE6: dict[str, Any] = {
    "batch": 1024, "basis": {"kind": "epochs", "amount": 300}, "lr": 3e-3, "weight_decay": 0.3, "clip": 0.0,
    "schedule": {"kind": "cosine", "warmup": 20 / 300, "start": 1e-5 / 3e-3}, "rates": {"path": 0.1}, "precision": "tf32",
    "evaluate_every": 1 / 300, "probe_every": 50 / 300, "checkpoint_every": 1 / 300,
}
TABLE6_LARGE: dict[str, Any] = TABLE6 | {"batch": 512}

IMAGENET: dict[str, Any] = {
    "is": "Images", "data": "folder:imagenet", "size": 224, "classes": 1000, "label_smoothing": 0.1, "centre": 0.9,
    "normalise": "half",
    "augment": {"is": "Augment", "resized": [0.08, 1.0], "flip": True, "rand": {"is": "Rand"}, "mixup": 0.8, "cutmix": 1.0},
}
# fmt: on

RECIPES = {"smoke": SMOKE, "small": SMALL, "paper": TABLE6}
SEEDS = {"smoke": (0,), "small": (0, 1, 2), "paper": (0, 1, 2)}


def cifar(size: int) -> dict[str, Any]:
    """CIFAR-10 at `size` pixels: cut from a frame an eighth wider, mirrored, labels smoothed."""
    return {
        "is": "Images",
        "data": "cifar10_q5",
        "size": size,
        "label_smoothing": 0.1,
        "augment": {"is": "Augment", "crop": size // 8, "flip": True},
    }


def fashion(size: int) -> dict[str, Any]:
    """A few of the embedded images, for runs that take seconds."""
    return {"is": "Images", "data": "fashion_mnist", "size": size, "limit": 1000, "test_limit": 200}


TASKS = {"smoke": fashion(28), "small": cifar(28), "paper": IMAGENET}  # of section 4.1
TWIN: dict[str, Arch] = {
    "smoke": vit(72, 12, 12, 6, 288, image=28, patch=7, channels=1, classes=10),
    "small": vit(192, 12, 12, 16, 768, image=28, patch=4, classes=10),
    "paper": zoo.get("vit_b"),
}
"""ViT-B and its twins: 12 layers of 12 heads. inner / tokens is 3.9 (3.8 at small, 4.2 at smoke), so that the peak of
kappa, inner = tokens, lies at 3 heads at every scale."""


def on(experiment: Experiment, data: Mapping[str, str]) -> Experiment:
    """The same experiment on other datasets: those named are replaced, such as {"cifar10_q5": "cifar10"}."""

    def other(task: Mapping[str, Any]) -> Mapping[str, Any]:
        return {**task, "data": data[task["data"]]} if task.get("data") in data else task

    settings = {
        scale: replace(
            setting, task=other(setting.task), arms=tuple(replace(arm, task=other(arm.task)) for arm in setting.arms)
        )
        for scale, setting in experiment.settings.items()
    }
    return replace(experiment, settings=settings)
