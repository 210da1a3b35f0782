"""The layer that most transformers repeat: attention, then MLP, each a residual branch."""

from __future__ import annotations

from typing import Any

from jaxtyping import Float
from torch import Tensor, nn

from manyheads.spec.arch import Arch, layers
from manyheads.spec.parts import Attention, Layer, Mlp
from manyheads.spec.rates import Rates

from .attention import SoftmaxAttention
from .branch import Branch
from .drop_path import rising
from .mlp import MlpBlock


class Block(nn.Module):
    """Softmax attention and MLP. What else attention needs (a mask, rotary positions) is handed through."""

    def __init__(self, width: int, layer: Layer, rates: Rates, path: float, *, twice: bool) -> None:
        super().__init__()
        attention, mlp = layer
        assert isinstance(attention.op, Attention)
        assert isinstance(mlp.op, Mlp)
        self.attention = Branch(width, attention, SoftmaxAttention(width, attention.op, rates), path)
        self.mlp = Branch(width, mlp, MlpBlock(width, mlp.op, rates, twice=twice), path)

    def forward(self, x: Float[Tensor, "batch tokens width"], *args: Any) -> Float[Tensor, "batch tokens width"]:
        return self.mlp(self.attention(x, *args))


def all_layers(arch: Arch) -> list[tuple[int, Layer]]:
    """Width and record of every layer, in order."""
    return [(stage.width, layer) for stage in arch.stages for _ in range(stage.depth) for layer in layers(stage)]


def blocks(arch: Arch, rates: Rates, *, twice: bool = True) -> nn.ModuleList:
    """A block for every layer of `arch`, drop path rising linearly with depth; `twice` as in `MlpBlock`."""
    found = all_layers(arch)
    paths = rising(rates.path, len(found))
    return nn.ModuleList(
        Block(width, layer, rates, path, twice=twice) for (width, layer), path in zip(found, paths, strict=True)
    )
