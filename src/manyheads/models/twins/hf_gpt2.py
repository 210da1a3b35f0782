"""transformers' GPT2LMHeadModel, tensor by tensor. Its linear maps are kept as input x output."""

from __future__ import annotations

from manyheads.spec.arch import Arch
from manyheads.spec.parts import Lm

from .entry import Entry, Transpose, same


def entries(arch: Arch) -> list[Entry]:
    """The map between our GPT-2 and transformers'."""
    head = arch.head
    assert isinstance(head, Lm)
    found = [
        Entry("embed.vocab.weight", ("transformer.wte.weight",)),
        Entry("embed.positions.weight", ("transformer.wpe.weight",)),
    ]
    for i in range(sum(stage.depth for stage in arch.stages)):
        ours, theirs = f"blocks.{i}", f"transformer.h.{i}"
        found += same(f"{ours}.attention.norm", f"{theirs}.ln_1")
        found += _conv1d(f"{ours}.attention.op.qkv", f"{theirs}.attn.c_attn")
        found += _conv1d(f"{ours}.attention.op.out", f"{theirs}.attn.c_proj")
        found += same(f"{ours}.mlp.norm", f"{theirs}.ln_2")
        found += _conv1d(f"{ours}.mlp.op.inp", f"{theirs}.mlp.c_fc")
        found += _conv1d(f"{ours}.mlp.op.out", f"{theirs}.mlp.c_proj")
    found += same("head.norm", "transformer.ln_f")
    if not head.tied:
        found.append(Entry("head.weight", ("lm_head.weight",)))
    return found


def repeats(arch: Arch) -> dict[str, str]:
    """Names there that show another tensor once more -> the name of that tensor."""
    assert isinstance(arch.head, Lm)
    return {"lm_head.weight": "transformer.wte.weight"} if arch.head.tied else {}


def _conv1d(ours: str, theirs: str) -> list[Entry]:
    return [Entry(f"{ours}.weight", (f"{theirs}.weight",), Transpose()), Entry(f"{ours}.bias", (f"{theirs}.bias",))]
