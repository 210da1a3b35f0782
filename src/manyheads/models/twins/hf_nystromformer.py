"""transformers' NystromformerForSequenceClassification, tensor by tensor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from manyheads.spec.arch import Arch, attentions
from manyheads.spec.parts import Nystrom

from .entry import Copy, Entry, Shape, Stack, same


@dataclass(frozen=True)
class After(Copy):
    """The rows after the first `skipped` ones, which that model has and never reads; back again they are 0."""

    skipped: int = 0

    def into(self, theirs: Sequence[Tensor]) -> Tensor:
        """Theirs, without those rows."""
        return theirs[0][self.skipped :].contiguous()

    def back(self, ours: Tensor) -> list[Tensor]:
        """Ours, behind rows of 0."""
        return [torch.cat((ours.new_zeros(self.skipped, *ours.shape[1:]), ours))]


def entries(arch: Arch) -> list[Entry]:
    """The map between our post-norm Nyströmformer and transformers', whose positions start at 2."""
    found = [
        Entry("embed.vocab.weight", ("nystromformer.embeddings.word_embeddings.weight",)),
        Entry("embed.positions.weight", ("nystromformer.embeddings.position_embeddings.weight",), After(2)),
        Entry("embed.types.weight", ("nystromformer.embeddings.token_type_embeddings.weight",)),
        *same("embed.norm", "nystromformer.embeddings.LayerNorm"),
    ]
    layers = [op for stage in arch.stages for _ in range(stage.depth) for op in attentions(stage)]
    for i, op in enumerate(layers):
        ours, theirs = f"blocks.{i}", f"nystromformer.encoder.layer.{i}"
        for name in ("weight", "bias"):
            parts = tuple(f"{theirs}.attention.self.{part}.{name}" for part in ("query", "key", "value"))
            found.append(Entry(f"{ours}.attention.op.qkv.{name}", parts, Stack((op.inner,) * 3)))
        if isinstance(op.mix, Nystrom) and op.mix.conv:
            taps = Shape((op.heads, op.mix.conv), (op.heads, 1, op.mix.conv, 1))
            found.append(Entry(f"{ours}.attention.op.skip", (f"{theirs}.attention.self.conv.weight",), taps))
        found += same(f"{ours}.attention.op.out", f"{theirs}.attention.output.dense")
        found += same(f"{ours}.attention.norm", f"{theirs}.attention.output.LayerNorm")
        found += same(f"{ours}.mlp.op.inp", f"{theirs}.intermediate.dense")
        found += same(f"{ours}.mlp.op.out", f"{theirs}.output.dense")
        found += same(f"{ours}.mlp.norm", f"{theirs}.output.LayerNorm")
    return found + same("head.hidden", "classifier.dense") + same("head.out", "classifier.out_proj")
