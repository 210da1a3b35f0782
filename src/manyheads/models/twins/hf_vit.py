"""transformers' ViTForImageClassification, tensor by tensor, by the names it has since transformers 5."""

from __future__ import annotations

from manyheads.spec.arch import Arch, attentions
from manyheads.spec.parts import Classify, Patch

from .entry import Entry, Shape, Stack, same


def entries(arch: Arch) -> list[Entry]:
    """The map between our ViT and transformers', which keeps queries, keys and values apart."""
    embed, width, tokens = arch.embed, arch.stages[0].width, arch.stages[0].tokens
    assert isinstance(embed, Patch)
    assert isinstance(arch.head, Classify)
    kernel = (width, embed.channels, embed.patch, embed.patch)
    flat = (width, embed.channels * embed.patch**2)
    found = [
        Entry("embed.proj.weight", ("vit.embeddings.patch_embeddings.projection.weight",), Shape(flat, kernel)),
        Entry("embed.proj.bias", ("vit.embeddings.patch_embeddings.projection.bias",)),
        Entry("embed.positions", ("vit.embeddings.position_embeddings",), Shape((tokens, width), (1, tokens, width))),
        Entry("embed.class_tokens", ("vit.embeddings.cls_token",), Shape((1, width), (1, 1, width))),
    ]
    layers = [op for stage in arch.stages for _ in range(stage.depth) for op in attentions(stage)]
    for i, op in enumerate(layers):
        ours, theirs = f"blocks.{i}", f"vit.layers.{i}"
        rows = Stack((op.inner, op.kv_inner, op.kv_inner))
        for name in ("weight", "bias") if op.qkv_bias else ("weight",):
            parts = tuple(f"{theirs}.attention.{part}_proj.{name}" for part in "qkv")
            found.append(Entry(f"{ours}.attention.op.qkv.{name}", parts, rows))
        found += same(f"{ours}.attention.norm", f"{theirs}.layernorm_before")
        found += same(f"{ours}.attention.op.out", f"{theirs}.attention.o_proj")
        found += same(f"{ours}.mlp.norm", f"{theirs}.layernorm_after")
        found += same(f"{ours}.mlp.op.inp", f"{theirs}.mlp.fc1")
        found += same(f"{ours}.mlp.op.out", f"{theirs}.mlp.fc2")
    return found + same("head.norm", "vit.layernorm") + same("head.out", "classifier")
