"""One training loop: a single process, or torchrun with DDP or FSDP2; checkpoints from which a run resumes bit for bit.

from manyheads.train import Basis, Recipe, train
run = Run.create("runs/first", RunSpec(arch, Images(), Recipe(basis=Basis("steps", 500)), seed=0))
train(run)["score"]

To read it, begin with `loop`. `step` makes one step, in the numbers that `numerics` chooses; `budget` says when the run
ends; `training_state` is what a `checkpoint` stores; `results` has evaluation and the final record. `parallel` and
`sharding` are needed where several processes train one model, `finetune` where a run starts from trained weights.
"""

from typing import Any

from manyheads.spec.callable_room import make_callable

make_callable(__name__)


def __getattr__(name: str) -> Any:
    """`train`, `Recipe`, `Basis` and `Schedule`, imported when first used."""
    from importlib import import_module

    homes = {"train": "train.loop", "Recipe": "spec.recipe", "Basis": "spec.recipe", "Schedule": "spec.schedule"}
    if name not in homes:
        raise AttributeError(f"module 'manyheads.train' has no attribute {name!r}")
    return getattr(import_module(f"manyheads.{homes[name]}"), name)
