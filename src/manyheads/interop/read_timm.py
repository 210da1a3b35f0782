"""A timm model as a record, read off the module itself. A part that a record cannot describe is refused by name.

Classes are recognised by qualified name, so that nothing of timm is imported, and attributes that only some versions
of a class have are read with `getattr`. The result is checked: the record has exactly as many parameters as the module.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from manyheads.arch import families as f
from manyheads.arch.count import params
from manyheads.conditioning.taps import qualified
from manyheads.spec.arch import Arch
from manyheads.spec.errors import UserError, nearest, optional

from .read_timm_vit import folded_away, read_vit, require


def named(name: str) -> Arch:
    """The record of a timm model by its name, without downloading or allocating weights. A backbone without classes is
    read as a classifier of ImageNet's 1000 classes, unless attention pools its tokens (SigLIP)."""
    timm = optional("timm", "manyheads[vision]")
    if not timm.is_model(name):
        raise UserError(
            f"timm {timm.__version__} has no model {name!r}{nearest(name.split('.')[0], timm.list_models())}"
        )
    with torch.device("meta"):
        model = timm.create_model(name, pretrained=False)
        if not getattr(model, "num_classes", 1) and getattr(model, "global_pool", "") != "map":
            model = timm.create_model(name, pretrained=False, num_classes=1000)
    return read(model, name)


def known(model: nn.Module) -> bool:
    """Whether the model's class is one that `read` reads."""
    return any(qualified(base) in READERS for base in type(model).__mro__)


def read(model: nn.Module, name: str = "", image: int | None = None) -> Arch:
    """The record of a timm module. `image` is the size of its images, for a module that does not keep it."""
    name = name or type(model).__name__
    reader = next((READERS[qualified(base)] for base in type(model).__mro__ if qualified(base) in READERS), None)
    if reader is None:
        families = ", ".join(key.rsplit(".", maxsplit=1)[-1] for key in READERS)
        raise UserError(
            f"timm's {name} is a {type(model).__name__}, which manyheads does not build; it reads {families}"
        )
    settings: dict[str, Any] = getattr(model, "pretrained_cfg", None) or {}
    arch = reader(model, image or settings.get("input_size", (3, 224, 224))[-1])
    counted, actual = params(arch).total, sum(p.numel() for p in model.parameters()) - folded_away(model)
    if counted != actual:
        raise UserError(
            f"timm's {name} has {actual:,} parameters and the record read off it {counted:,}: the model has parts "
            f"that a record of family {arch.family!r} cannot describe"
        )
    return arch


def _common(blocks: Any, sizes: Callable[[Any], Any]) -> Any:
    """The sizes that all blocks share."""
    values = {sizes(block) for block in blocks}
    require(len(values) == 1, "layers that differ")
    return values.pop()


def _xcit(model: Any, image: int) -> Arch:
    heads, mlp = _common(model.blocks, lambda b: (b.attn.num_heads, b.mlp.fc1.out_features))
    width = model.embed_dim
    class_blocks = model.cls_attn_blocks
    require(
        bool(len(class_blocks)) and bool(class_blocks[0].tokens_norm),
        "class attention that norms its class token alone",
    )
    require(model.pos_embed is not None and model.global_pool == "token", "no positions or another pooling")
    depth = len(model.blocks)
    # layer scale starts at 1 in models of 12 layers and at 1e-5 in those of 24; the module does not keep the number
    scaled = 1.0 if depth <= 12 else 1e-5
    return f.xcit(
        width,
        depth,
        heads,
        width // heads,
        mlp,
        image=image,
        patch=model.patch_embed.patch_size,
        channels=model.in_chans,
        classes=model.num_classes,
        class_layers=len(class_blocks),
        scaled=scaled,
    )


def _tnt(model: Any, image: int) -> Arch:
    outer, inner, mlp, pixel_mlp = _common(
        model.blocks,
        lambda b: (b.attn_out.num_heads, b.attn_in.num_heads, b.mlp.fc1.out_features, b.mlp_in.fc1.out_features),
    )
    pixel = model.pixel_embed
    return f.tnt(
        model.embed_dim,
        len(model.blocks),
        outer,
        model.embed_dim // outer,
        mlp,
        pixel_width=pixel.in_dim,
        pixel_heads=inner,
        pixel_head_dim=pixel.in_dim // inner,
        pixel_mlp_dim=pixel_mlp,
        image=pixel.img_size[0],
        patch=pixel.patch_size[0],
        channels=model.in_chans,
        stride=pixel.proj.stride[0],
        classes=model.num_classes,
        legacy=pixel.legacy,
    )


def _dims(block: Any) -> tuple[int, int, int]:
    """Width, heads and MLP width of a block."""
    return block.norm1.normalized_shape[0], block.attn.num_heads, block.mlp.fc1.out_features


def _volo(model: Any, image: int) -> Arch:
    stages = [part for part in model.network if isinstance(part, nn.Sequential)]
    kinds = [type(stage[0].attn).__name__ for stage in stages]
    require(kinds == ["OutlookAttention"] + ["Attention"] * (len(kinds) - 1), "stages in another order")
    rows = [_common(stage, _dims) for stage in stages]
    widths, heads, mlps = (tuple(column) for column in zip(*rows, strict=True))
    proj = model.patch_embed.proj
    dims = [width // count for width, count in zip(widths, heads, strict=True)]
    return f.volo(
        widths,
        [len(stage) for stage in stages],
        heads,
        dims,
        mlps,
        image=image,
        stem=model.patch_embed.conv[0].out_channels,
        patch=2 * proj.kernel_size[0],
        channels=model.in_chans,
        classes=model.num_classes,
        class_layers=len(model.post_network or ()),
        aux=model.aux_head is not None,
    )


def _davit(model: Any, image: int) -> Arch:
    first = model.stages[0].blocks[0]
    kinds = [type(layer.attn).__name__ for layer in first]
    require(kinds == ["WindowAttention", "ChannelAttention"], f"stages of {' and '.join(kinds)}")
    rows = [_common([layer for pair in stage.blocks for layer in pair], _dims) for stage in model.stages]
    widths, heads, mlps = (tuple(column) for column in zip(*rows, strict=True))
    window = first[0].window_size
    return f.davit(
        widths,
        [len(stage.blocks) for stage in model.stages],
        heads,
        [w // h for w, h in zip(widths, heads, strict=True)],
        mlps,
        window=window[0] if isinstance(window, tuple) else window,
        image=image,
        channels=model.in_chans,
        classes=model.num_classes,
    )


READERS: dict[str, Callable[[Any, int], Arch]] = {
    "timm.models.vision_transformer.VisionTransformer": read_vit,  # and its subclass, DeiT's distilled transformer
    "timm.models.xcit.Xcit": _xcit,
    "timm.models.tnt.TNT": _tnt,
    "timm.models.volo.VOLO": _volo,
    "timm.models.davit.DaVit": _davit,
}
