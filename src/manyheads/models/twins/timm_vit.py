"""timm's VisionTransformer (and its distilled DeiT), tensor by tensor."""

from __future__ import annotations

from manyheads.spec.arch import Arch
from manyheads.spec.parts import Classify, Patch

from .entry import Entry, Rows, Shape, same


def entries(arch: Arch) -> list[Entry]:
    """The map between our ViT and timm's."""
    embed, head, width = arch.embed, arch.head, arch.stages[0].width
    assert isinstance(embed, Patch)
    assert isinstance(head, Classify)
    tokens = arch.stages[0].tokens - (0 if embed.class_positions else embed.class_tokens)
    kernel = (width, embed.channels, embed.patch, embed.patch)
    flat = (width, embed.channels * embed.patch**2)
    found = [
        Entry("embed.proj.weight", ("patch_embed.proj.weight",), Shape(flat, kernel)),
        Entry("embed.proj.bias", ("patch_embed.proj.bias",)),
        Entry("embed.positions", ("pos_embed",), Shape((tokens, width), (1, tokens, width))),
    ]
    if embed.class_tokens == 1:
        found.append(Entry("embed.class_tokens", ("cls_token",), Shape((1, width), (1, 1, width))))
    if embed.class_tokens == 2:
        found.append(Entry("embed.class_tokens", ("cls_token", "dist_token"), Rows(2)))
    for i in range(sum(stage.depth for stage in arch.stages)):
        found += same(f"blocks.{i}.attention.norm", f"blocks.{i}.norm1")
        found += same(f"blocks.{i}.attention.op.qkv", f"blocks.{i}.attn.qkv")
        found += same(f"blocks.{i}.attention.op.out", f"blocks.{i}.attn.proj")
        found += same(f"blocks.{i}.mlp.norm", f"blocks.{i}.norm2")
        found += same(f"blocks.{i}.mlp.op.inp", f"blocks.{i}.mlp.fc1")
        found += same(f"blocks.{i}.mlp.op.out", f"blocks.{i}.mlp.fc2")
    found += same("head.norm", "norm") + same("head.out", "head")
    if head.distill:
        found += same("head.distill", "head_dist")
    return found
