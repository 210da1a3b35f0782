"""manyheads: transformers with more heads and fewer layers, costed, conditioned, trained and judged.

    from manyheads import redesign, cost
    lean = redesign("vit_b", depth=7, heads=16, mlp_dim=1536)
    cost(lean).params.total          # 40112872

    from manyheads import compare
    print(*compare("vit_b", lean, data="photos", epochs=20, no_loss=0.005).verdicts, sep="\n")

Names are imported when first used: `import manyheads` loads neither torch nor numpy. A model is its record or a name:
a zoo name, `timm:NAME`, `hf:FOLDER` or whatever else `resolve` knows.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

# fmt: off
_HOMES = {
    "Arch": "spec.arch", "UserError": "spec.errors", "zoo": "arch", "cost": "arch.count", "redesign": "arch.redesign",
    "controls": "arch.controls", "audit": "paper.audit",
    "build": "models.build", "probe": "conditioning.probe", "Probe": "conditioning.monitor",
    "plan": "planner", "Budget": "planner", "Limits": "planner", "Recipe": "spec.recipe",
    "Run": "runs", "RunSpec": "runs", "Images": "tasks",
    "compare": "interop.compare", "edit": "arch.redesign", "javascript": "arch.symbol", "resolve": "interop.resolve",
}
_ROOMS = ("train", "report")  # packages that can be called
_MODELS = {"cost": 1, "redesign": 1, "controls": 2, "plan": 1, "build": 1}  # how many first arguments are models
# fmt: on

# fmt: off
__all__ = [
    "Arch", "Budget", "Images", "Limits", "Probe", "Recipe", "Run", "RunSpec", "UserError", "audit", "build", "compare",
    "controls", "cost", "edit", "javascript", "plan", "probe", "redesign", "report", "resolve", "train", "zoo",
]
# fmt: on


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return import_module(f"manyheads.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'manyheads' has no attribute {name!r}")
    home = import_module(f"manyheads.{_HOMES[name]}")
    if name == "zoo":
        return import_module("manyheads.arch.zoo")
    value = getattr(home, name)
    if name in _MODELS:
        value = import_module("manyheads.interop.by_name").by_name(value, _MODELS[name])
    globals()[name] = value  # the same object every time
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
