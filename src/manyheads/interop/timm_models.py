"""The classes of our image models in timm: each family's own class, with timm's methods in front."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from manyheads.models.davit import DaViT
from manyheads.models.tnt import TNT
from manyheads.models.vit import ViT
from manyheads.models.volo import VOLO
from manyheads.models.xcit import XCiT
from manyheads.nn.block import StageBlocks
from manyheads.spec.arch import class_attentions

from .timm_methods import TimmMethods


class TimmViT(TimmMethods, ViT):  # type: ignore[misc]  # which also takes patches to hide
    """ViT and DeiT: features after every block."""

    def start(self, images: Tensor) -> Tensor:
        """Class tokens and patches."""
        return self.drop(self.embed(images))

    def points(self) -> list[nn.Module]:
        """All blocks."""
        return list(self.blocks)

    def keep(self, count: int, *, head: bool) -> None:
        """Drop the blocks after the first `count`."""
        self.blocks = self.blocks[:count]


class TimmTNT(TimmMethods, TNT):
    """TNT: features of the patches after every block; a state is pixels and patches."""

    def start(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Pixels, and class token and patches."""
        pixels, patches = self.embed(images)
        return pixels, self.drop(patches)

    def points(self) -> list[nn.Module]:
        """All blocks."""
        return list(self.blocks)

    def advance(self, point: nn.Module, state: tuple[Tensor, Tensor]) -> Any:
        """Pixels and patches after a block."""
        return point(*state)

    def tokens_of(self, state: tuple[Tensor, Tensor]) -> Tensor:
        """Class token and patches."""
        return state[1]

    def keep(self, count: int, *, head: bool) -> None:
        """Drop the blocks after the first `count`."""
        self.blocks = self.blocks[:count]


class TimmXCiT(TimmMethods, XCiT):
    """XCiT: features of the patches after every block before the class token joins."""

    def start(self, images: Tensor) -> Tensor:
        """Patches."""
        return self.drop(self.embed(images))

    def points(self) -> list[nn.Module]:
        """The blocks of patches."""
        return list(self.blocks)

    def finish(self, state: Tensor) -> Tensor:
        """Class token and patches after the class blocks."""
        x = torch.cat((self.class_token.expand(state.shape[0], -1, -1), state), dim=1)
        for block in self.class_blocks:
            x = block(x)
        return x

    def keep(self, count: int, *, head: bool) -> None:
        """Drop the blocks after the first `count`, and without a head the class blocks."""
        self.blocks = self.blocks[:count]
        if not head:
            self.class_blocks = nn.ModuleList()


class TimmDaViT(TimmMethods, DaViT):
    """DaViT: features after every stage."""

    per_stage = True

    def start(self, images: Tensor) -> Tensor:
        """The stem's tokens."""
        return self.embed(images)

    def points(self) -> list[nn.Module]:
        """All stages."""
        return list(self.stages)

    def keep(self, count: int, *, head: bool) -> None:
        """Drop the stages after the first `count`."""
        self.stages = self.stages[:count]


def _of_class(stage: nn.Module) -> bool:
    """Whether the attention of a stage is the class token's."""
    assert isinstance(stage, StageBlocks)
    return bool(class_attentions(stage.spec))


class TimmVOLO(TimmMethods, VOLO):
    """VOLO: features after every stage before the class token joins."""

    per_stage = True

    def start(self, images: Tensor) -> Tensor:
        """The stem's tokens."""
        return self.embed(images)

    def points(self) -> list[nn.Module]:
        """The stages of patches."""
        return [stage for stage in self.stages if not _of_class(stage)]

    def finish(self, state: Tensor) -> Tensor:
        """Class token and patches after the stage of class attention."""
        for stage in self.stages:
            if _of_class(stage):
                state = stage(state)
        return state

    def keep(self, count: int, *, head: bool) -> None:
        """Drop the stages of patches after the first `count`, and without a head that of class attention."""
        kept = self.points()[:count]
        others = [stage for stage in self.stages if head and _of_class(stage)]
        self.stages = nn.ModuleList([*kept, *others])


CLASSES: dict[type[nn.Module], type[TimmMethods]] = {
    ViT: TimmViT,
    TNT: TimmTNT,
    XCiT: TimmXCiT,
    DaViT: TimmDaViT,
    VOLO: TimmVOLO,
}
