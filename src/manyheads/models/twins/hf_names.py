"""What the maps to transformers' models share: names before names, queries, keys and values, poolers."""

from __future__ import annotations

from manyheads.spec.arch import Arch, attentions
from manyheads.spec.parts import Attention, Features, Pooler

from .tensors import TwinTensor, same, stacked


def prefix(arch: Arch, name: str) -> str:
    """What stands before the names of a model's body there: the name of the body, or nothing without a head."""
    return "" if isinstance(arch.head, Features) else f"{name}."


def attention_ops(arch: Arch) -> list[Attention]:
    """The attention of every layer, in order."""
    return [op for stage in arch.stages for _ in range(stage.depth) for op in attentions(stage)]


def qkv(ours: str, theirs: list[str], op: Attention) -> list[TwinTensor]:
    """Queries, keys and values, which are apart there."""
    return stacked(f"{ours}.attention.op.qkv", theirs, (op.inner, op.kv_inner, op.kv_inner), bias=op.qkv_bias)


def pooler(head: Features, name: str = "pooler.dense") -> list[TwinTensor]:
    """The linear map of a pooler, where the head has one."""
    spec = head.pooler
    if not isinstance(spec, Pooler) or spec.out is None:
        return []
    return same("head.pooler.out", name, ("weight", "bias")[: 1 + spec.bias])
