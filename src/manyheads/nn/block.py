"""The layer that most transformers repeat: attention, then MLP, each a residual branch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from jaxtyping import Float
from torch import Tensor, nn

from manyheads.spec.arch import Arch, layers
from manyheads.spec.parts import Attention, Layer, Mlp, Stage
from manyheads.spec.recipe import Rates

from .attention import SoftmaxAttention
from .residual import Branch, MlpBlock, rising


def branches(
    width: int, layer: Layer, rates: Rates, path: float = 0.0, *, mixer: nn.Module | None = None, twice: bool = True
) -> tuple[Branch, Branch]:
    """The two branches of a layer. `mixer` mixes the tokens, by default softmax attention; `twice` as in `MlpBlock`."""
    attention, mlp = layer
    assert isinstance(mlp.op, Mlp)
    if mixer is None:
        assert isinstance(attention.op, Attention)
        mixer = SoftmaxAttention(width, attention.op, rates)
    return (
        Branch(width, attention, mixer, path),
        Branch(width, mlp, MlpBlock(width, mlp.op, rates, twice=twice), path),
    )


class Block(nn.Module):
    """A layer of a model. What enters it can be watched, and its activations can be recomputed in the backward pass
    instead of kept.

    `recompute` calls the block in training, as `torch.utils.checkpoint.checkpoint` does; where `watched` is a list, the
    residual stream is added to it as it enters. `stream` says which argument that is."""

    stream: ClassVar[int] = 0
    recompute: Callable[..., Any] | None = None
    watched: list[Tensor] | None = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The layer's output, with all hooks."""
        if self.watched is not None:
            self.watched.append(args[self.stream])
        if self.recompute is not None and self.training:
            return self.recompute(super().__call__, *args, **kwargs)
        return super().__call__(*args, **kwargs)


class TransformerBlock(Block):
    """Attention and MLP. What else attention needs (a mask, rotary positions) is handed through."""

    def __init__(
        self, width: int, layer: Layer, rates: Rates, path: float, *, mixer: nn.Module | None = None, twice: bool = True
    ) -> None:
        super().__init__()
        self.attention, self.mlp = branches(width, layer, rates, path, mixer=mixer, twice=twice)

    def forward(self, x: Float[Tensor, "batch tokens width"], *args: Any) -> Float[Tensor, "batch tokens width"]:
        match self.mlp.spec.reads:
            case "stream":
                return self.mlp(self.attention(x, *args))
            case "layer":
                return self.attention(x, *args) + self.mlp.change(self.mlp.norm(x))
            case "normed":
                y = self.attention.norm(x)
                return x + self.attention.change(y, *args) + self.mlp.change(y)


def all_layers(arch: Arch) -> list[tuple[int, Layer]]:
    """Width and record of every layer, in order."""
    return [(stage.width, layer) for stage in arch.stages for _ in range(stage.depth) for layer in layers(stage)]


def blocks(arch: Arch, rates: Rates, *, twice: bool = True) -> nn.ModuleList:
    """A softmax block for every layer of `arch`, drop path rising linearly with depth; `twice` as in `MlpBlock`."""
    records = all_layers(arch)
    paths = rising(rates.path, len(records))
    return nn.ModuleList(
        TransformerBlock(width, layer, rates, path, twice=twice)
        for (width, layer), path in zip(records, paths, strict=True)
    )


class StageBlocks(nn.Module):
    """A stage of a model whose grid shrinks: how its tokens are made of those before, then its blocks."""

    def __init__(self, spec: Stage, enter: nn.Module, blocks: nn.ModuleList) -> None:
        super().__init__()
        self.spec = spec
        self.enter = enter
        self.blocks = blocks

    def forward(self, x: Float[Tensor, "batch before width_before"]) -> Float[Tensor, "batch tokens width"]:
        """Tokens of the stage before to tokens of this one."""
        x = self.enter(x)
        for block in self.blocks:
            x = block(x)
        return x
