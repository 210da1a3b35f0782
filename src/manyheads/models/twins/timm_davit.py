"""timm's DaVit, tensor by tensor."""

from __future__ import annotations

from manyheads.spec.arch import Arch
from manyheads.spec.parts import Downsample

from .entry import Entry, same


def entries(arch: Arch) -> list[Entry]:
    """The map between our DaViT and timm's: its block j holds the layers of our unit j."""
    found = same("embed.convs.0.conv", "stem.conv") + same("embed.convs.0.norm", "stem.norm")
    for i, stage in enumerate(arch.stages):
        if isinstance(stage.enter, Downsample):
            found += same(f"stages.{i}.enter.norm", f"stages.{i}.downsample.norm")
            found += same(f"stages.{i}.enter.conv", f"stages.{i}.downsample.conv")
        for j in range(stage.depth):
            for k in range(len(stage.unit)):
                ours, theirs = f"stages.{i}.blocks.{j * len(stage.unit) + k}", f"stages.{i}.blocks.{j}.{k}"
                found += same(f"{ours}.before_attention.op.conv", f"{theirs}.cpe1.proj")
                found += same(f"{ours}.attention.norm", f"{theirs}.norm1")
                found += same(f"{ours}.attention.op.qkv", f"{theirs}.attn.qkv")
                found += same(f"{ours}.attention.op.out", f"{theirs}.attn.proj")
                found += same(f"{ours}.before_mlp.op.conv", f"{theirs}.cpe2.proj")
                found += same(f"{ours}.mlp.norm", f"{theirs}.norm2")
                found += same(f"{ours}.mlp.op.inp", f"{theirs}.mlp.fc1")
                found += same(f"{ours}.mlp.op.out", f"{theirs}.mlp.fc2")
    return found + same("head.norm", "head.norm") + same("head.out", "head.fc")
