"""timm's VOLO, tensor by tensor."""

from __future__ import annotations

from manyheads.spec.arch import Arch, attentions, side
from manyheads.spec.parts import Classify, ClassToken, ConvStem, Downsample, Outlook, Stage

from .entry import Entry, Shape, same

BATCH = ("weight", "bias", "running_mean", "running_var")


def entries(arch: Arch) -> list[Entry]:
    """The map between our VOLO and timm's: its `network` counts stages and down-samplings in one row."""
    embed, head = arch.embed, arch.head
    assert isinstance(embed, ConvStem)
    assert isinstance(head, Classify)
    last = len(embed.convs) - 1
    found = same(f"embed.convs.{last}.conv", "patch_embed.proj")
    for i in range(last):
        found += same(f"embed.convs.{i}.conv", f"patch_embed.conv.{3 * i}", ("weight",))
        found += same(f"embed.convs.{i}.norm", f"patch_embed.conv.{3 * i + 1}", BATCH)
    row = 0
    for i, stage in enumerate(arch.stages):
        enter, width = f"stages.{i}.enter", stage.width
        match stage.enter:
            case Downsample():
                grid = side(stage.tokens)
                found += same(f"{enter}.conv", f"network.{row}.proj")
                shape = Shape((stage.tokens, width), (1, grid, grid, width))
                found.append(Entry(f"{enter}.positions", ("pos_embed",), shape))
                row += 1
            case ClassToken():
                found.append(Entry(f"{enter}.class_token", ("cls_token",), Shape((1, width), (1, 1, width))))
        theirs = "post_network" if isinstance(stage.enter, ClassToken) else f"network.{row}"
        for j in range(stage.depth):
            found += block(stage, f"stages.{i}.blocks.{j}", f"{theirs}.{j}")
        row += 1
    found += same("head.norm", "norm") + same("head.out", "head")
    return found + same("head.aux", "aux_head") if head.aux else found


def block(stage: Stage, ours: str, theirs: str) -> list[Entry]:
    """One layer: outlook, softmax or class attention, and MLP."""
    found = same(f"{ours}.attention.norm", f"{theirs}.norm1") + same(f"{ours}.attention.op.out", f"{theirs}.attn.proj")
    if not attentions(stage):
        found += same(f"{ours}.attention.op.q", f"{theirs}.attn.q", ("weight",))
        found += same(f"{ours}.attention.op.kv", f"{theirs}.attn.kv", ("weight",))
    elif isinstance(attentions(stage)[0].mix, Outlook):
        found += same(f"{ours}.attention.op.v", f"{theirs}.attn.v", ("weight",))
        found += same(f"{ours}.attention.op.weights", f"{theirs}.attn.attn")
    else:
        found += same(f"{ours}.attention.op.qkv", f"{theirs}.attn.qkv", ("weight",))
    found += same(f"{ours}.mlp.norm", f"{theirs}.norm2")
    return found + same(f"{ours}.mlp.op.inp", f"{theirs}.mlp.fc1") + same(f"{ours}.mlp.op.out", f"{theirs}.mlp.fc2")
