"""manyheads models for timm: after `import manyheads.interop.timm`, `timm.create_model` builds them.

    timm.create_model("manyheads_vit_b", depth=7, heads=16, mlp_dim=1536)      an original of the zoo, redesigned
    timm.create_model("manyheads", arch="lean.json")                           any record
    timm.create_model("local-dir:FOLDER")                                      what `manyheads plan --emit timm` wrote

The models honour num_classes, img_size, in_chans and the drop rates, and have the methods that timm's tools call
(forward_features, forward_head, get_classifier, group_matcher, ...).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from manyheads.arch import zoo
from manyheads.arch.redesign import at_image, redesign
from manyheads.models.build import build
from manyheads.models.resize import resize, tables
from manyheads.nn.residual import ACTS
from manyheads.spec import serialise as record
from manyheads.spec.arch import Arch
from manyheads.spec.datasets import IMAGENET_MEAN, IMAGENET_STD
from manyheads.spec.errors import UserError, optional
from manyheads.spec.parts import Classify, ConvStem, Patch, Pixel
from manyheads.spec.recipe import Rates

timm: Any = optional("timm", "manyheads[vision]")
builder: Any = optional("timm.models", "manyheads[vision]")
EDITS = ("depth", "heads", "head_dim", "mlp_dim", "policy", "kv_heads")
RATES = {"proj_drop_rate": "dropout", "attn_drop_rate": "attention", "drop_path_rate": "path"}  # timm's name -> ours
POOLS = {"class": "token", "mean": "avg"}  # our name -> timm's


class TimmMethods(nn.Module):
    """The methods that timm calls on a model, put in front of the class of a manyheads model."""

    # what the model's own class has; torch types submodules as Tensor | Module
    arch: Any
    head: Any
    features: Any
    num_classes: int
    num_features: int
    distilled_training = False

    def forward_features(self, x: Tensor) -> Tensor:
        """Tokens after the last layer, before the head's norm."""
        return self.features(x)

    def forward_head(self, x: Tensor, pre_logits: bool = False) -> Tensor:
        """Logits from tokens; with `pre_logits`, or for a model without classes, the classifier's input."""
        if self.num_classes and not pre_logits:
            logits: Tensor = self.head(x)  # in training, a distilled head returns the logits of both classifiers
            return logits if logits.ndim == 2 or self.distilled_training else logits.mean(dim=0)
        head, spec = self.head, self.head.spec
        x = x if spec.norm_last else head.norm(x)
        pooled: Tensor = head.pool(x)
        pooled = head.norm(pooled) if spec.norm_last else pooled
        return pooled if head.hidden is None else ACTS[spec.act](head.hidden(pooled))

    def forward(self, x: Tensor) -> Tensor:
        return self.forward_head(self.forward_features(x))

    def set_distilled_training(self, enable: bool = True) -> None:
        """Choose whether a distilled model in training returns both classifiers' logits, stacked, or their mean."""
        self.distilled_training = enable

    def get_classifier(self) -> nn.Module:
        """The last linear layer."""
        return self.head.out

    def reset_classifier(self, num_classes: int, global_pool: str | None = None) -> None:
        """Replace the classifier by a new, initialised one. With 0 classes the model returns features."""
        head, spec = self.head, self.head.spec
        _same_pool(spec, global_pool)
        self.num_classes = num_classes
        if num_classes == 0:
            head.out, head.distill, head.aux = nn.Identity(), None, None
            return
        head.spec = replace(spec, classes=num_classes)
        self.arch = replace(self.arch, head=head.spec)
        like = next(self.parameters())
        for name, present in (("out", True), ("distill", spec.distill), ("aux", spec.aux)):
            if present:
                fresh = nn.Linear(self.head_hidden_size, num_classes, device=like.device, dtype=like.dtype)
                nn.init.trunc_normal_(fresh.weight, std=0.02)
                nn.init.zeros_(fresh.bias)
                setattr(head, name, fresh)

    @property
    def head_hidden_size(self) -> int:
        """Width of the classifier's input."""
        return self.head.spec.hidden or self.num_features

    def no_weight_decay(self) -> set[str]:
        """Names of the parameters without weight decay: positions and class tokens."""
        return {
            name for name, _ in self.named_parameters() if name.endswith(("positions", "class_token", "class_tokens"))
        }

    def group_matcher(self, coarse: bool = False) -> dict[str, Any]:
        """Layers in order, for layer-wise learning rates: the embedding, then every block."""
        last = (99_999,)  # class attention comes after every other block
        blocks = [(r"^stages\.(\d+)\.blocks\.(\d+)", None), (r"^blocks\.(\d+)", None), (r"^class_blocks\.(\d+)", last)]
        return {"stem": r"^embed|^class_token", "blocks": blocks}

    def set_grad_checkpointing(self, enable: bool = True) -> None:
        """Refused, because the models have no gradient checkpointing."""
        if enable:
            raise UserError("manyheads models have no gradient checkpointing; leave --grad-checkpointing out")


def _same_pool(spec: Classify, pool: str | None) -> None:
    if pool not in (None, POOLS[spec.pool]):
        raise UserError(f"global_pool {pool!r}: this design pools by {POOLS[spec.pool]!r}; write that or leave it out")


@cache
def _with_timm_methods(own: Any) -> Any:
    return type(f"Timm{own.__name__}", (TimmMethods, own), {"__doc__": own.__doc__})


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
    _same_pool(head, global_pool)
    rates = Rates(**{RATES[name]: float(kwargs.pop(name)) for name in list(kwargs) if name in RATES})
    edits = {name: kwargs.pop(name) for name in EDITS if name in kwargs}
    if kwargs:
        raise UserError(
            f"create_model was given {', '.join(kwargs)}; a manyheads model takes num_classes, img_size, in_chans, "
            f"drop_rate, {', '.join(RATES)}, and for a redesign {', '.join(EDITS)}"
        )
    if img_size is not None:
        sides = (img_size, img_size) if isinstance(img_size, int) else tuple(img_size)
        if sides[0] != sides[1]:
            raise UserError(f"img_size {img_size}: these models take square images; write one number")
        arch = at_image(arch, sides[0])
    if in_chans is not None:
        embed: Any = arch.embed
        arch = replace(arch, embed=replace(embed, channels=in_chans))
    if num_classes:
        arch = replace(arch, head=replace(head, classes=num_classes))
    arch = redesign(arch, **edits) if edits else arch
    model: Any = build(arch, rates, device=device)
    model = model if dtype is None else model.to(dtype)
    model.__class__ = _with_timm_methods(model.__class__)
    model.num_classes = head.classes if num_classes is None else num_classes
    model.num_features = arch.stages[-1].width
    model.head.drop.p = drop_rate
    if num_classes == 0:
        model.reset_classifier(0)
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
        "classifier": classifiers[0] if len(classifiers) == 1 else tuple(classifiers),
    }


def _fitted(state: Mapping[str, Tensor], model: nn.Module) -> dict[str, Tensor]:
    """Saved weights for the model's image size: learned positions are interpolated."""
    arch = model.arch
    assert isinstance(arch, Arch)
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
    if kwargs.pop("features_only", False):
        raise UserError("manyheads models have no features_only; call forward_features for the tokens")
    if not kwargs.get("pretrained_cfg"):
        kwargs["pretrained_cfg"] = pretrained_config(arch) | {"architecture": name}
    model: Any = builder.build_model_with_cfg(
        lambda **settings: make(arch, **settings), name, pretrained, pretrained_filter_fn=_fitted, **kwargs
    )
    model.pretrained_cfg |= {
        "input_size": pretrained_config(model.arch)["input_size"],
        "num_classes": model.num_classes,
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
