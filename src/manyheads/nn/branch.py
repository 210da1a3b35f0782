"""A residual branch: the one place where norms, layer scale and drop path meet an operation."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from manyheads.spec.parts import Residual

from .drop_path import DropPath
from .norm import make_norm


class Branch(nn.Module):
    """x + drop_path(scale * op(norm(x))) for a pre-norm branch, norm(x + drop_path(op(x))) for a post-norm one."""

    group = "norm"  # of the layer scale, the only parameter it owns itself

    def __init__(self, width: int, spec: Residual, op: nn.Module, path: float = 0.0) -> None:
        super().__init__()
        self.spec = spec
        self.norm = make_norm(spec.norm, width)
        self.op = op
        self.path = DropPath(path)
        self.scale = None if spec.scaled is None else nn.Parameter(torch.full((width,), float(spec.scaled)))

    def forward(self, x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        post = self.spec.place == "post"
        y = self.op(x if post else self.norm(x), *args, **kwargs)
        if self.scale is not None:
            y = y * self.scale
        x = x + self.path(y)
        return self.norm(x) if post else x
