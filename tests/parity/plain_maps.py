"""Where each tensor of a plain model stands in ours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from manyheads.models.twins.tensors import Conversion, Shape, Stack, TwinTensor, same
from manyheads.spec.arch import Arch, attentions
from manyheads.spec.parts import Masked


@dataclass(frozen=True)
class HeadByHead(Conversion):
    """Rows there: q, k, v of the first head, of the second ...; here: all queries, all keys, all values."""

    heads: int
    head_dim: int

    def into(self, theirs: Sequence[Tensor]) -> Tensor:
        return theirs[0].unflatten(0, (self.heads, 3, self.head_dim)).transpose(0, 1).flatten(0, 2)

    def back(self, ours: Tensor) -> list[Tensor]:
        return [ours.unflatten(0, (3, self.heads, self.head_dim)).transpose(0, 1).flatten(0, 2)]


@dataclass(frozen=True)
class SwapHalves(Conversion):
    """The value above the gate there, the gate above the value here."""

    def into(self, theirs: Sequence[Tensor]) -> Tensor:
        return torch.cat(theirs[0].chunk(2)[::-1])

    def back(self, ours: Tensor) -> list[Tensor]:
        return [torch.cat(ours.chunk(2)[::-1])]


def crammed(arch: Arch) -> list[TwinTensor]:
    """Our Crammed BERT and the plain one."""
    op = attentions(arch.stages[0])[0]
    found = [
        TwinTensor("embed.vocab.weight", ("words.weight",)),
        TwinTensor("embed.sinusoid.scale", ("scale",), Shape((), (1,))),
        *same("embed.norm", "norm"),
        *same("head.norm", "final_norm"),
    ]
    for i in range(arch.stages[0].depth):
        ours, theirs = f"blocks.{i}", f"layers.{i}"
        found += same(f"{ours}.attention.norm", f"{theirs}.norm1")
        by_head = HeadByHead(op.heads, op.head_dim)
        found.append(TwinTensor(f"{ours}.attention.op.qkv.weight", (f"{theirs}.qkv.weight",), by_head))
        found += same(f"{ours}.attention.op.out", f"{theirs}.dense", ("weight",))
        found += same(f"{ours}.mlp.norm", f"{theirs}.norm2")
        found.append(TwinTensor(f"{ours}.mlp.op.inp.weight", (f"{theirs}.w1.weight",), SwapHalves()))
        found += same(f"{ours}.mlp.op.out", f"{theirs}.w2", ("weight",))
    if isinstance(arch.head, Masked):
        return found
    return found + same("head.hidden", "pooler") + same("head.out", "head")


def stories(arch: Arch) -> list[TwinTensor]:
    """Our GPT-2 in the TinyStories dialect and the plain one."""
    op = attentions(arch.stages[0])[0]
    found = [
        TwinTensor("embed.vocab.weight", ("words.weight",)),
        TwinTensor("embed.positions.weight", ("places.weight",)),
    ]
    for i in range(arch.stages[0].depth):
        ours, theirs = f"blocks.{i}", f"layers.{i}"
        found += same(f"{ours}.attention.norm", f"{theirs}.ln1")
        parts = [f"{theirs}.heads.{h}.{part}.weight" for part in ("query", "key", "value") for h in range(op.heads)]
        rows = Stack((op.head_dim,) * len(parts))
        found.append(TwinTensor(f"{ours}.attention.op.qkv.weight", tuple(parts), rows))
        found += same(f"{ours}.attention.op.out", f"{theirs}.proj")
        found += same(f"{ours}.mlp.norm", f"{theirs}.ln2")
        found += same(f"{ours}.mlp.op.inp", f"{theirs}.up")
        found += same(f"{ours}.mlp.op.out", f"{theirs}.down")
    return found + same("head.norm", "ln_f") + same("head", "lm_head")
