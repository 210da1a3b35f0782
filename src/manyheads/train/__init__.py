"""One loop: a single process, torchrun with DDP or FSDP2, checkpoints that resume to the bit.

from manyheads.train import Basis, Recipe, train
run = Run.create("runs/first", RunSpec(arch, to_dict(Images()), Recipe(basis=Basis("steps", 500)).to_dict(), seed=0))
train(run)["score"]
"""

from typing import Any


def __getattr__(name: str) -> Any:
    """`train`, `Recipe`, `Basis` and `Schedule`, imported when first used."""
    from importlib import import_module

    homes = {"train": "loop", "Recipe": "recipe", "Basis": "recipe", "Schedule": "schedule"}
    if name not in homes:
        raise AttributeError(f"module 'manyheads.train' has no attribute {name!r}")
    return getattr(import_module(f"manyheads.train.{homes[name]}"), name)
