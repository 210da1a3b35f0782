"""timm's TNT, in its current and its legacy block, tensor by tensor."""

from __future__ import annotations

from math import isqrt

from manyheads.spec.arch import Arch
from manyheads.spec.parts import Attention, Nested, Op

from .entry import Entry, Shape, Stack, same


def entries(arch: Arch) -> list[Entry]:
    """The map between our TNT and timm's."""
    first = arch.stages[0]
    width, tokens = first.width, first.tokens
    layers = [item for stage in arch.stages for item in stage.depth * stage.unit if isinstance(item, Nested)]
    side = isqrt(layers[0].tokens)
    pixels = (layers[0].width, side, side)
    found = [
        *same("embed.conv", "pixel_embed.proj"),
        *same("embed.pixel_norm", "norm1_proj"),
        *same("embed.proj", "proj"),
        *same("embed.norm", "norm2_proj"),
        Entry("embed.pixel_positions", ("pixel_pos",), Shape(pixels, (1, *pixels))),
        Entry("embed.class_token", ("cls_token",), Shape((1, width), (1, 1, width))),
        Entry("embed.positions", ("patch_pos",), Shape((tokens, width), (1, tokens, width))),
    ]
    for i, nested in enumerate(layers):
        at, legacy = f"blocks.{i}", nested.fuse.legacy
        found += same(f"{at}.pixel_attention.norm", f"{at}.norm_in")
        found += _attention(f"{at}.pixel_attention.op", f"{at}.attn_in", nested.inner[0].op)
        found += same(f"{at}.pixel_mlp.norm", f"{at}.norm_mlp_in") + _mlp(f"{at}.pixel_mlp.op", f"{at}.mlp_in")
        found += same(f"{at}.fuse.pixel_norm", f"{at}.norm1_proj")
        found += same(f"{at}.fuse.proj", f"{at}.proj", ("weight", "bias") if legacy else ("weight",))
        found += [] if legacy else same(f"{at}.fuse.norm", f"{at}.norm2_proj")
        found += same(f"{at}.attention.norm", f"{at}.norm_out")
        found += _attention(f"{at}.attention.op", f"{at}.attn_out", nested.outer[0].op)
        found += same(f"{at}.mlp.norm", f"{at}.norm_mlp") + _mlp(f"{at}.mlp.op", f"{at}.mlp")
    return found + same("head.norm", "norm") + same("head.out", "head")


def _attention(ours: str, theirs: str, op: Op) -> list[Entry]:
    """Queries and keys are one matrix there and values another; here all three are one."""
    assert isinstance(op, Attention)
    names = ("weight", "bias") if op.qkv_bias else ("weight",)
    sizes = Stack((2 * op.inner, op.inner))
    found = [Entry(f"{ours}.qkv.{name}", (f"{theirs}.qk.{name}", f"{theirs}.v.{name}"), sizes) for name in names]
    return found + same(f"{ours}.out", f"{theirs}.proj")


def _mlp(ours: str, theirs: str) -> list[Entry]:
    return same(f"{ours}.inp", f"{theirs}.fc1") + same(f"{ours}.out", f"{theirs}.fc2")
