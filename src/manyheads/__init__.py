"""manyheads: transformers with more heads and fewer layers, costed, conditioned, trained and judged.

    from manyheads import redesign, cost, zoo
    lean = redesign(zoo.get("vit_b"), depth=7, heads=16, mlp_dim=1536)
    cost(lean).params.total          # 40112872

Names are imported when first used: `import manyheads` loads neither torch nor numpy.
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
    "edit": "arch.redesign", "javascript": "arch.symbol", "resolve": "interop.resolve",
}
# fmt: on

# fmt: off
__all__ = [
    "Arch", "Budget", "Images", "Limits", "Probe", "Recipe", "Run", "RunSpec", "UserError", "audit", "build", "controls",
    "cost", "edit", "javascript", "plan", "probe", "redesign", "resolve", "zoo",
]
# fmt: on


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'manyheads' has no attribute {name!r}")
    home = import_module(f"manyheads.{_HOMES[name]}")
    return import_module("manyheads.arch.zoo") if name == "zoo" else getattr(home, name)
