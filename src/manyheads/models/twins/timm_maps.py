"""timm's Xcit, TNT, VOLO and DaVit, tensor by tensor; its VisionTransformer is in `timm_vit`."""

from __future__ import annotations

from collections.abc import Callable, Collection
from math import isqrt

from manyheads.spec.arch import Arch, attentions, class_attentions, side
from manyheads.spec.errors import UserError
from manyheads.spec.parts import (
    Attention,
    ClassAttention,
    Classify,
    ClassToken,
    ConvStem,
    Downsample,
    Nested,
    Op,
    Outlook,
    Stage,
)

from .tensors import Shape, TwinTensor, modules, same, stacked
from .timm_vit import BLOCK, HEAD, MLP, rows, vit

BATCH = ("weight", "bias", "running_mean", "running_var")


def xcit(arch: Arch) -> list[TwinTensor]:
    """The map between our XCiT and timm's Xcit with `tokens_norm`, which all its sizes but nano have."""
    assert isinstance(arch.embed, ConvStem)
    width, size = arch.stages[0].width, 2 * arch.embed.fourier
    tensors: list[TwinTensor] = []
    for i in range(len(arch.embed.convs)):  # every second entry there is an activation
        tensors += same(f"embed.convs.{i}.conv", f"patch_embed.proj.{2 * i}.0", ("weight",))
        tensors += same(f"embed.convs.{i}.norm", f"patch_embed.proj.{2 * i}.1", BATCH)
    kernel = Shape((width, size), (width, size, 1, 1))
    tensors += [
        TwinTensor("embed.positions.proj.weight", ("pos_embed.token_projection.weight",), kernel),
        TwinTensor("embed.positions.proj.bias", ("pos_embed.token_projection.bias",)),
        rows("class_token", "cls_token", 1, width),
    ]
    for i, op in enumerate(op for stage in arch.stages for op in stage.depth * attentions(stage)):
        tensors += _xcit_block(f"blocks.{i}", op.heads)
    for i, asks in enumerate(op for stage in arch.stages for op in stage.depth * class_attentions(stage)):
        tensors += _xcit_class_block(f"class_blocks.{i}", f"cls_attn_blocks.{i}", asks)
    return tensors + HEAD


def _xcit_block(at: str, heads: int) -> list[TwinTensor]:
    local = {"local.norm": "norm3", "local.op.first": "local_mp.conv1", "local.op.second": "local_mp.conv2"}
    return [
        *modules(at, at, BLOCK | local),
        *same(f"{at}.local.op.norm", f"{at}.local_mp.bn", BATCH),
        TwinTensor(f"{at}.attention.op.temperature", (f"{at}.attn.temperature",), Shape((heads,), (heads, 1, 1))),
        *_scales(at, at, ("attention", "mlp", "local")),
    ]


def _xcit_class_block(ours: str, theirs: str, op: ClassAttention) -> list[TwinTensor]:
    names = {"attention.norm": "norm1", "attention.op.q": "attn.q", "attention.op.out": "attn.proj"}
    keys_values = (f"{theirs}.attn.k", f"{theirs}.attn.v")
    return [
        *modules(ours, theirs, names | MLP),
        *stacked(f"{ours}.attention.op.kv", keys_values, (op.inner, op.inner)),
        *_scales(ours, theirs, ("attention", "mlp")),
    ]


def _scales(ours: str, theirs: str, branches: tuple[str, ...]) -> list[TwinTensor]:
    """Layer scales: gamma1, gamma2 and so on there."""
    return [TwinTensor(f"{ours}.{name}.scale", (f"{theirs}.gamma{i}",)) for i, name in enumerate(branches, 1)]


def tnt(arch: Arch) -> list[TwinTensor]:
    """The map between our TNT and timm's, in its current and its legacy block."""
    first = arch.stages[0]
    layers = [item for stage in arch.stages for item in stage.depth * stage.unit if isinstance(item, Nested)]
    grid = isqrt(layers[0].tokens)
    pixels = (layers[0].width, grid, grid)
    tensors = [
        *same("embed.conv", "pixel_embed.proj"),
        *same("embed.pixel_norm", "norm1_proj"),
        *same("embed.proj", "proj"),
        *same("embed.norm", "norm2_proj"),
        TwinTensor("embed.pixel_positions", ("pixel_pos",), Shape(pixels, (1, *pixels))),
        rows("embed.class_token", "cls_token", 1, first.width),
        rows("embed.positions", "patch_pos", first.tokens, first.width),
    ]
    for i, nested in enumerate(layers):
        at, legacy = f"blocks.{i}", nested.fuse.legacy
        tensors += _tnt_layer(at, "pixel_", "_in", nested.inner[0].op)
        tensors += _tnt_layer(at, "", "_out", nested.outer[0].op)
        tensors += same(f"{at}.fuse.pixel_norm", f"{at}.norm1_proj")
        tensors += same(f"{at}.fuse.proj", f"{at}.proj", ("weight", "bias") if legacy else ("weight",))
        tensors += [] if legacy else same(f"{at}.fuse.norm", f"{at}.norm2_proj")
    return tensors + HEAD


def _tnt_layer(at: str, ours: str, theirs: str, op: Op) -> list[TwinTensor]:
    """Attention and MLP over pixels (`_in` there) or patches (`_out`, which only the attention is called). Queries and
    keys are one matrix there and values another; here all three are one."""
    assert isinstance(op, Attention)
    attention, mlp = f"attn{theirs}", "mlp_in" if theirs == "_in" else "mlp"
    names = {"attention.norm": f"norm{theirs}", "attention.op.out": f"{attention}.proj", "mlp.norm": f"norm_{mlp}"}
    names |= {"mlp.op.inp": f"{mlp}.fc1", "mlp.op.out": f"{mlp}.fc2"}
    parts = (f"{at}.{attention}.qk", f"{at}.{attention}.v")
    return [
        *modules(at, at, {ours + name: its for name, its in names.items()}),
        *stacked(f"{at}.{ours}attention.op.qkv", parts, (2 * op.inner, op.inner), bias=op.qkv_bias),
    ]


def volo(arch: Arch) -> list[TwinTensor]:
    """The map between our VOLO and timm's, whose `network` counts stages and down-samplings in one row."""
    embed, head = arch.embed, arch.head
    assert isinstance(embed, ConvStem)
    assert isinstance(head, Classify)
    last = len(embed.convs) - 1
    tensors = same(f"embed.convs.{last}.conv", "patch_embed.proj")
    for i in range(last):
        tensors += same(f"embed.convs.{i}.conv", f"patch_embed.conv.{3 * i}", ("weight",))
        tensors += same(f"embed.convs.{i}.norm", f"patch_embed.conv.{3 * i + 1}", BATCH)
    row = 0
    for i, stage in enumerate(arch.stages):
        enter, width = f"stages.{i}.enter", stage.width
        match stage.enter:
            case Downsample():
                grid = side(stage.tokens)
                tensors += same(f"{enter}.conv", f"network.{row}.proj")
                shape = Shape((stage.tokens, width), (1, grid, grid, width))
                tensors.append(TwinTensor(f"{enter}.positions", ("pos_embed",), shape))
                row += 1
            case ClassToken():
                tensors.append(rows(f"{enter}.class_token", "cls_token", 1, width))
        theirs = "post_network" if isinstance(stage.enter, ClassToken) else f"network.{row}"
        for j in range(stage.depth):
            tensors += _volo_block(stage, f"stages.{i}.blocks.{j}", f"{theirs}.{j}")
        row += 1
    return tensors + HEAD + (same("head.aux", "aux_head") if head.aux else [])


def _volo_block(stage: Stage, ours: str, theirs: str) -> list[TwinTensor]:
    """One layer: outlook, softmax or class attention, and MLP."""
    tensors = modules(ours, theirs, {"attention.norm": "norm1", "attention.op.out": "attn.proj"} | MLP)
    names = ("qkv",)
    if not attentions(stage):
        names = ("q", "kv")
    elif isinstance(attentions(stage)[0].mix, Outlook):
        names = ("v",)
        tensors += same(f"{ours}.attention.op.weights", f"{theirs}.attn.attn")
    for name in names:
        tensors += same(f"{ours}.attention.op.{name}", f"{theirs}.attn.{name}", ("weight",))
    return tensors


def davit(arch: Arch) -> list[TwinTensor]:
    """The map between our DaViT and timm's DaVit, whose block j holds the layers of our unit j."""
    names = BLOCK | {"before_attention.op.conv": "cpe1.proj", "before_mlp.op.conv": "cpe2.proj"}
    tensors = same("embed.convs.0.conv", "stem.conv") + same("embed.convs.0.norm", "stem.norm")
    for i, stage in enumerate(arch.stages):
        if isinstance(stage.enter, Downsample):
            tensors += modules(f"stages.{i}.enter", f"stages.{i}.downsample", {"norm": "norm", "conv": "conv"})
        for j in range(stage.depth):
            for k in range(len(stage.unit)):
                tensors += modules(f"stages.{i}.blocks.{j * len(stage.unit) + k}", f"stages.{i}.blocks.{j}.{k}", names)
    return tensors + same("head.norm", "head.norm") + same("head.out", "head.fc")


def tensors_of(arch: Arch, theirs: Collection[str] = ()) -> list[TwinTensor]:
    """The map between our model of a record and timm's; `theirs` are the names of timm's tensors, as in `vit`."""
    if arch.family in ("vit", "deit"):
        return vit(arch, theirs)
    if arch.family not in MAPS:
        raise UserError(f"timm has no model of family {arch.family!r}; it has vit, deit, {', '.join(MAPS)}")
    return MAPS[arch.family](arch)


MAPS: dict[str, Callable[[Arch], list[TwinTensor]]] = {"xcit": xcit, "tnt": tnt, "volo": volo, "davit": davit}
