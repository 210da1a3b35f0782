"""The methods that timm and its tools call on a model, for ours: classifier, optimizer groups, image size, tracing.

The features that come before the head are in `timm_features`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from manyheads.arch.redesign import at_image
from manyheads.models.build import build
from manyheads.models.resize import resample, tables
from manyheads.nn.block import Block
from manyheads.nn.positions import PositionTable
from manyheads.nn.residual import DropPath
from manyheads.spec.arch import Arch, side
from manyheads.spec.errors import UserError, optional
from manyheads.spec.parts import Classify, Patch

from .timm_features import TimmFeatures

manipulate: Any = optional("timm.models._manipulate", "manyheads[vision]")
layers: Any = optional("timm.layers", "manyheads[vision]")
# our name -> timm's, which has no word for the last
POOLS = {"class": "token", "mean": "avg", "patches": "avg", "class_and_patches": "class_and_patches"}
GRIDS = ("spec", "grid")  # what a module keeps of the image size
layers.register_notrace_module(DropPath)  # torch.fx cannot follow how it makes its mask from the number of dimensions


class TimmMethods(TimmFeatures):
    """The methods that timm calls on a model, put in front of the class of a manyheads model."""

    num_classes: int
    num_features: int
    global_pool: str  # timm's word for how tokens are pooled; "" where they are not
    distilled_training = False

    # ------------------------------------------------------------------------------------------------------------- head
    def forward_head(self, x: Tensor, pre_logits: bool = False) -> Tensor:
        """Logits from what `forward_features` returns; with `pre_logits`, or for a model without classes, the
        classifier's input, which of a distilled model is the mean of its two tokens."""
        head = self.head
        if self.num_classes and not pre_logits:
            return self._voted(head.logits(x))
        if not self.global_pool:
            return head.norm(x) if head.spec.norm_last else x
        pooled: Tensor = head.pooled(x)
        return head.drop((pooled + x[:, 1]) / 2 if head.spec.distill else pooled)

    def forward(self, x: Tensor) -> Tensor:
        """Logits; for a model without classes the pooled tokens, or with `global_pool=""` all of them."""
        if not self.num_classes:
            return self.forward_head(self.forward_features(x))
        return self._voted(self.head(self.features(x)))

    def _voted(self, logits: Tensor) -> Tensor:
        """One row of logits a sample, unless both classifiers of a distilled model are trained."""
        both = self.head.distill is not None and self.training
        return logits.mean(dim=0) if both and not self.distilled_training else logits

    def set_distilled_training(self, enable: bool = True) -> None:
        """Choose whether a distilled model in training returns both classifiers' logits, stacked, or their mean."""
        self.distilled_training = enable

    def get_classifier(self) -> nn.Module | tuple[nn.Module, nn.Module]:
        """The last linear layer; the two of a distilled model."""
        head = self.head
        return head.out if head.distill is None else (head.out, head.distill)

    def reset_classifier(self, num_classes: int, global_pool: str | None = None) -> None:
        """Replace the classifier by a new, initialised one. With 0 classes the model returns the pooled tokens, or with
        `global_pool=""` all of them."""
        head, spec = self.head, self.head.spec
        pool = self.global_pool or POOLS[spec.pool] if global_pool is None else global_pool
        same_pool(spec, pool, num_classes)
        self.num_classes, self.global_pool = num_classes, pool
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
                setattr(head, name, fresh.train(self.training))

    @property
    def head_hidden_size(self) -> int:
        """Width of the classifier's input."""
        spec = self.head.spec
        return spec.hidden or self.num_features * (2 if spec.pool == "class_and_patches" else 1)

    # --------------------------------------------------------------------------------------------------------- training
    def no_weight_decay(self) -> set[str]:
        """Names of the parameters without weight decay: positions, class tokens and registers."""
        ends = ("positions", "class_token", "class_tokens", "registers")
        return {name for name, _ in self.named_parameters() if name.endswith(ends)}

    def group_matcher(self, coarse: bool = False) -> dict[str, Any]:
        """Layers in order, for layer-wise learning rates: the embedding, then every block, or every stage (`coarse`)."""
        last = (99_999,)  # class attention comes after every other block
        stages = (r"^stages\.(\d+)", None) if coarse else (r"^stages\.(\d+)\.blocks\.(\d+)", None)
        entering = [] if coarse else [(r"^stages\.(\d+)\.enter", (0,))]
        blocks = [stages, *entering, (r"^blocks\.(\d+)", None), (r"^class_blocks\.(\d+)", last), (r"^head\.norm", last)]
        return {"stem": r"^embed|^class_token", "blocks": blocks}

    def set_grad_checkpointing(self, enable: bool = True) -> None:
        """Recompute the activations of every block in the backward pass, or keep them."""
        for part in self.modules():
            if isinstance(part, Block):
                part.recompute = manipulate.checkpoint if enable else None

    @property
    def grad_checkpointing(self) -> bool:
        """Whether blocks recompute their activations."""
        return any(part.recompute is not None for part in self.modules() if isinstance(part, Block))

    # ------------------------------------------------------------------------------------------------------- image size
    @torch.no_grad()
    def set_input_size(
        self, img_size: int | Sequence[int] | None = None, patch_size: int | Sequence[int] | None = None
    ) -> None:
        """Take images of another size from now on; learned positions are interpolated."""
        _same_patch(self.arch, patch_size)
        if img_size is None:
            return
        arch = at_image(self.arch, square(img_size))
        twin = build(arch, device="meta")
        rows = {name: (front, count) for name, front, count in tables(arch)}
        for at, part in self.named_modules():
            if at.startswith("head"):
                continue  # it keeps nothing of the image size
            other = twin.get_submodule(at)
            for name in GRIDS:
                if name in vars(other):
                    setattr(part, name, getattr(other, name))
            for name, parameter in list(part.named_parameters(recurse=False)):
                front, count = rows.get(f"{at}.{name}", (0, 0))
                if count and count != parameter.shape[0]:
                    fresh = resample(parameter, front, side(count - front)).contiguous()
                    setattr(part, name, nn.Parameter(fresh, requires_grad=parameter.requires_grad))
            if isinstance(part, PositionTable):
                assert isinstance(other, PositionTable)
                part.table = part.table.new_empty(other.table.shape)
                part.reset()
        self.arch = replace(arch, head=self.arch.head)
        self.feature_info = self.described()
        config = getattr(self, "pretrained_cfg", None)
        if config:
            config["input_size"] = (arch.embed.channels, arch.embed.image, arch.embed.image)  # type: ignore[union-attr]

    # ----------------------------------------------------------------------------------------------------------- script
    def __prepare_scriptable__(self) -> nn.Module:
        raise UserError(
            "torch.jit.script cannot compile a manyheads model, whose modules are chosen by its record; take "
            "torch.jit.trace, torch.export or torch.compile"
        )


def same_pool(spec: Classify, pool: str | None, classes: int | None = None) -> None:
    """Refuse another pooling than the record's; without classes, tokens may also be left as they are ("")."""
    if pool == "" and classes == 0:
        return
    if pool not in (None, POOLS[spec.pool]):
        without = 'with num_classes=0 also "", which returns the tokens' if classes != 0 else '"" returns the tokens'
        raise UserError(
            f"global_pool {pool!r}: this design pools by {POOLS[spec.pool]!r}; write that or leave it out ({without})"
        )


def square(size: int | Sequence[int]) -> int:
    """The side of square images, from one number or two."""
    sides = (size, size) if isinstance(size, int) else tuple(size)
    if len(sides) != 2 or sides[0] != sides[1]:
        raise UserError(f"img_size {size}: these models take square images; write one number")
    return int(sides[0])


def _same_patch(arch: Arch, size: int | Sequence[int] | None) -> None:
    if size is None:
        return
    patch = getattr(arch.embed, "patch", None)
    if size not in (patch, (patch, patch)):
        raise UserError(f"patch_size {size}: the patches of this model stay as they are; leave patch_size out")


def conv_weights(
    module: nn.Module, state: dict[str, Tensor], prefix: str, *_: Any
) -> None:  # a hook before weights are loaded
    """Weights of patches as a convolution has them become the matrix that our embedding has."""
    name = f"{prefix}proj.weight"
    if name in state and state[name].ndim == 4:
        state[name] = state[name].flatten(1)


def takes_conv_weights(model: nn.Module) -> None:
    """Let patches be loaded from a convolution's weights, which is the form that timm adapts to other channels."""
    if isinstance(model.arch.embed, Patch):  # type: ignore[union-attr]
        model.embed.register_load_state_dict_pre_hook(conv_weights)  # type: ignore[union-attr]
