"""manyheads models for timm: after `import manyheads.interop.timm`, `timm.create_model` builds them.

    timm.create_model("manyheads_vit_b", depth=7, heads=16, mlp_dim=1536)      an original of the zoo, redesigned
    timm.create_model("manyheads", arch="lean.json")                           any record
    timm.create_model("local-dir:FOLDER")                                      what `manyheads plan --emit timm` wrote

The models honour num_classes, img_size, in_chans, global_pool, features_only and the drop rates, and have the methods
that timm's tools call (`timm_methods`, `timm_features`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from manyheads.arch import zoo
from manyheads.arch.redesign import at_image, redesign
from manyheads.models.build import build
from manyheads.models.resize import resize, tables
from manyheads.spec import serialise as record
from manyheads.spec.arch import Arch
from manyheads.spec.datasets import IMAGENET_MEAN, IMAGENET_STD
from manyheads.spec.errors import UserError, optional
from manyheads.spec.parts import Classify, ConvStem, Patch, Pixel
from manyheads.spec.recipe import Rates

from .timm_features import describe, prefix_tokens
from .timm_methods import POOLS, TimmMethods, same_pool, square, takes_conv_weights
from .timm_models import CLASSES

timm: Any = optional("timm", "manyheads[vision]")
builder: Any = optional("timm.models", "manyheads[vision]")
FIRST = {Patch: "embed.proj", ConvStem: "embed.convs.0.conv", Pixel: "embed.conv"}  # what reads the image's channels
EDITS = ("depth", "heads", "head_dim", "mlp_dim", "policy", "kv_heads")
RATES = {"proj_drop_rate": "dropout", "attn_drop_rate": "attention", "drop_path_rate": "path"}  # timm's name -> ours


def make(
    arch: Arch,
    num_classes: int | None = None,
    img_size: int | tuple[int, int] | None = None,
    in_chans: int | None = None,
    drop_rate: float = 0.0,
    global_pool: str | None = None,
    device: Any = None,
    dtype: Any = None,
    **kwargs: Any,
) -> nn.Module:
    """The module of a record, with the methods and the arguments of a timm model."""
    _, head = _image_classifier(arch)
    same_pool(head, global_pool, num_classes)
    rates = Rates(**{RATES[name]: float(kwargs.pop(name)) for name in list(kwargs) if name in RATES})
    dynamic = [kwargs.pop(name, False) for name in ("dynamic_img_size", "dynamic_img_pad")]
    if any(dynamic):
        raise UserError(
            "dynamic_img_size: a manyheads model takes images of one size; write img_size, or call set_input_size later"
        )
    if kwargs:
        raise UserError(
            f"create_model was given {', '.join(kwargs)}; a manyheads model takes num_classes, img_size, in_chans, "
            f"drop_rate, {', '.join(RATES)}, and for a redesign {', '.join(EDITS)}"
        )
    if img_size is not None:
        arch = at_image(arch, square(img_size))
    if in_chans is not None:
        embed: Any = arch.embed
        arch = replace(arch, embed=replace(embed, channels=in_chans))
    if num_classes:
        arch = replace(arch, head=replace(head, classes=num_classes))
    model: Any = build(arch, rates, device=device)
    model = model if dtype is None else model.to(dtype)
    model.__class__ = CLASSES[model.__class__]
    model.num_classes = head.classes if num_classes is None else num_classes
    model.num_features = model.embed_dim = arch.stages[-1].width
    model.num_prefix_tokens = prefix_tokens(arch)
    model.global_pool = POOLS[head.pool]
    model.feature_info = model.described()
    model.head.drop.p = drop_rate
    takes_conv_weights(model)
    if num_classes == 0:
        model.reset_classifier(0, global_pool)
    return model


def _image_classifier(arch: Arch) -> tuple[Patch | ConvStem | Pixel, Classify]:
    """Embedding and head of a record, or an error where timm has no place for such a model."""
    embed, head = arch.embed, arch.head
    if not isinstance(head, Classify) or not isinstance(embed, Patch | ConvStem | Pixel):
        raise UserError(
            f"timm holds image classifiers, and this record of family {arch.family!r} has a "
            f"{type(head).__name__} head; write --emit hf"
        )
    return embed, head


def pretrained_config(arch: Arch) -> dict[str, Any]:
    """What timm calls a pretrained_cfg: image size, normalisation, names of the classifiers."""
    embed, head = _image_classifier(arch)
    classifiers = ["head.out", *["head.distill"] * head.distill, *["head.aux"] * head.aux]
    return {
        "input_size": (embed.channels, embed.image, embed.image),
        "num_classes": head.classes,
        "mean": IMAGENET_MEAN,
        "std": IMAGENET_STD,
        "interpolation": "bicubic",
        "crop_pct": 0.9,
        "fixed_input_size": True,
        "first_conv": FIRST[type(embed)] if embed.channels == 3 else None,  # timm adapts weights of 3 channels alone
        "classifier": classifiers[0] if len(classifiers) == 1 else tuple(classifiers),
    }


def _fitted(state: Mapping[str, Tensor], model: nn.Module) -> dict[str, Tensor]:
    """Saved weights for the model's image size: learned positions are interpolated. The weights of patches get the form
    of a convolution's, which timm adapts to another number of channels."""
    arch = model.arch
    assert isinstance(arch, Arch)
    if isinstance(arch.embed, Patch) and "embed.proj.weight" in state:
        size, weight = arch.embed.patch, state["embed.proj.weight"]
        state = {**state, "embed.proj.weight": weight.reshape(weight.shape[0], -1, size, size)}
    step = arch.embed.patch if isinstance(arch.embed, Patch) else 8
    for image in range(step, 1025, step):  # find the image size of the saved weights by their number of positions
        try:
            before = at_image(arch, image)
        except UserError:
            continue
        rows = {name: count for name, _, count in tables(before)}
        if rows and all(name in state and state[name].shape[0] == count for name, count in rows.items()):
            return resize(state, before, arch)
    return dict(state)


def _create(name: str, arch: Arch, pretrained: bool, **kwargs: Any) -> nn.Module:
    _image_classifier(arch)
    edits = {edit: kwargs.pop(edit) for edit in EDITS if edit in kwargs}
    arch = redesign(arch, **edits) if edits else arch
    points = describe(arch, per_stage=arch.family in ("volo", "davit"))
    usual = len(points) if arch.family == "davit" else min(3, len(points))  # as timm's own models have it
    chosen = kwargs.pop("out_indices", usual)
    if not kwargs.get("pretrained_cfg"):
        kwargs["pretrained_cfg"] = pretrained_config(arch) | {"architecture": name}
    model: Any = builder.build_model_with_cfg(
        lambda **settings: make(arch, **settings),
        name,
        pretrained,
        pretrained_filter_fn=_fitted,
        feature_cfg={"out_indices": chosen, "feature_cls": "getter"},
        **kwargs,
    )
    whole = getattr(model, "model", model)  # inside what extracts features
    if not isinstance(whole, TimmMethods):
        return model
    model.pretrained_cfg |= {
        "input_size": pretrained_config(whole.arch)["input_size"],
        "num_classes": whole.num_classes,
    }
    return model


def manyheads(
    pretrained: bool = False, arch: Arch | Mapping[str, Any] | str | Path | None = None, **kwargs: Any
) -> nn.Module:
    """The model of any record: `arch` is the record, the path of an `arch.json`, or the contents of one."""
    if arch is None:
        raise UserError('create_model("manyheads") needs a record; write arch="arch.json"')
    if not isinstance(arch, Arch):
        arch = record.arch_from_dict(dict(arch)) if isinstance(arch, Mapping) else record.load(arch)
    return _create("manyheads", arch, pretrained, **kwargs)


def register(name: str, arch: Arch) -> str:
    """Make `timm.create_model(name)` build a record. Returns the name."""

    def entry(pretrained: bool = False, **kwargs: Any) -> nn.Module:
        return _create(name, arch, pretrained, **kwargs)

    _register(name, entry)
    return name


def _register(name: str, entry: Callable[..., nn.Module]) -> None:
    entry.__name__, entry.__module__ = name, __name__
    timm.models.register_model(entry)


def _image_models() -> list[str]:
    return [name for name in zoo.NAMES if isinstance(zoo.get(name).embed, Patch | ConvStem | Pixel)]


_register("manyheads", manyheads)
for _name in _image_models():
    register(f"manyheads_{_name}", zoo.get(_name))
