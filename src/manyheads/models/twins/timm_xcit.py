"""timm's Xcit (with `tokens_norm`, as all its sizes but nano have it), tensor by tensor."""

from __future__ import annotations

from manyheads.spec.arch import Arch, attentions, class_attentions
from manyheads.spec.parts import ClassAttention, ConvStem

from .entry import Entry, Shape, Stack, same

BATCH = ("weight", "bias", "running_mean", "running_var")


def entries(arch: Arch) -> list[Entry]:
    """The map between our XCiT and timm's."""
    assert isinstance(arch.embed, ConvStem)
    width, size = arch.stages[0].width, 2 * arch.embed.fourier
    found: list[Entry] = []
    for i in range(len(arch.embed.convs)):  # every second entry there is an activation
        found += same(f"embed.convs.{i}.conv", f"patch_embed.proj.{2 * i}.0", ("weight",))
        found += same(f"embed.convs.{i}.norm", f"patch_embed.proj.{2 * i}.1", BATCH)
    found += [
        Entry(
            "embed.positions.proj.weight",
            ("pos_embed.token_projection.weight",),
            Shape((width, size), (width, size, 1, 1)),
        ),
        Entry("embed.positions.proj.bias", ("pos_embed.token_projection.bias",)),
        Entry("class_token", ("cls_token",), Shape((1, width), (1, 1, width))),
    ]
    for i, op in enumerate(op for stage in arch.stages for op in stage.depth * attentions(stage)):
        found += _block(f"blocks.{i}", op.heads)
    for i, asks in enumerate(op for stage in arch.stages for op in stage.depth * class_attentions(stage)):
        found += _class_block(f"class_blocks.{i}", f"cls_attn_blocks.{i}", asks)
    return found + same("head.norm", "norm") + same("head.out", "head")


def _block(at: str, heads: int) -> list[Entry]:
    found = same(f"{at}.attention.norm", f"{at}.norm1") + same(f"{at}.attention.op.qkv", f"{at}.attn.qkv")
    found.append(Entry(f"{at}.attention.op.temperature", (f"{at}.attn.temperature",), Shape((heads,), (heads, 1, 1))))
    found += same(f"{at}.attention.op.out", f"{at}.attn.proj")
    found += same(f"{at}.local.norm", f"{at}.norm3") + same(f"{at}.local.op.norm", f"{at}.local_mp.bn", BATCH)
    found += same(f"{at}.local.op.first", f"{at}.local_mp.conv1")
    found += same(f"{at}.local.op.second", f"{at}.local_mp.conv2")
    found += same(f"{at}.mlp.norm", f"{at}.norm2")
    found += same(f"{at}.mlp.op.inp", f"{at}.mlp.fc1") + same(f"{at}.mlp.op.out", f"{at}.mlp.fc2")
    scales = (("attention", "gamma1"), ("mlp", "gamma2"), ("local", "gamma3"))
    return found + [Entry(f"{at}.{ours}.scale", (f"{at}.{theirs}",)) for ours, theirs in scales]


def _class_block(ours: str, theirs: str, op: ClassAttention) -> list[Entry]:
    found = same(f"{ours}.attention.norm", f"{theirs}.norm1") + same(f"{ours}.attention.op.q", f"{theirs}.attn.q")
    for name in ("weight", "bias"):
        keys, values = f"{theirs}.attn.k.{name}", f"{theirs}.attn.v.{name}"
        found.append(Entry(f"{ours}.attention.op.kv.{name}", (keys, values), Stack((op.inner, op.inner))))
    found += same(f"{ours}.attention.op.out", f"{theirs}.attn.proj")
    found += same(f"{ours}.mlp.norm", f"{theirs}.norm2")
    found += same(f"{ours}.mlp.op.inp", f"{theirs}.mlp.fc1") + same(f"{ours}.mlp.op.out", f"{theirs}.mlp.fc2")
    scales = (("attention", "gamma1"), ("mlp", "gamma2"))
    return found + [Entry(f"{ours}.{name}.scale", (f"{theirs}.{gamma}",)) for name, gamma in scales]
