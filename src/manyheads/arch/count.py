"""What a model costs, from its record alone: `cost(arch)` gathers parameters, operations and memory.

The formulas live in `params`, `flops` and `memory` and take whole numbers, arrays or symbols alike: the same functions
cost one design, a million at once, or are printed as JavaScript (`symbol.javascript`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from manyheads.spec.arch import Arch, Sketch, attentions

from .flops import forward_flops, training_flops
from .memory import activation_bytes, kv_bytes, state_bytes, training_bytes
from .params import Params, params

__all__ = [
    "Cost",
    "Params",
    "activation_bytes",
    "cost",
    "forward_flops",
    "head_layers",
    "kv_bytes",
    "params",
    "state_bytes",
    "training_bytes",
    "training_flops",
]


@dataclass(frozen=True)
class Cost:
    """Cost of one model for one example; memory in bytes, with attention maps kept (`unfused`) or not (`fused`)."""

    params: Params
    forward_flops: Any
    training_flops: Any
    activation_bytes_unfused_fp32: Any
    activation_bytes_fused_amp: Any
    state_bytes: Any
    kv_bytes_per_token: Any
    head_layers: Any


def head_layers(arch: Arch | Sketch) -> Any:
    """Attention heads summed over layers: what long context costs. Class attention is not counted."""
    return sum(stage.depth * op.heads for stage in arch.stages for op in attentions(stage))


def cost(arch: Arch | Sketch) -> Cost:
    """All costs of `arch`."""
    return Cost(
        params=params(arch),
        forward_flops=forward_flops(arch),
        training_flops=training_flops(arch),
        activation_bytes_unfused_fp32=activation_bytes(arch, precision="fp32", fused=False),
        activation_bytes_fused_amp=activation_bytes(arch, precision="amp", fused=True),
        state_bytes=state_bytes(arch),
        kv_bytes_per_token=kv_bytes(arch),
        head_layers=head_layers(arch),
    )
