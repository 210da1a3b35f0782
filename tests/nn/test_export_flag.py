"""Kernels are for compiled programs and not for exported ones: the two must be told apart while tracing."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from manyheads.nn.launch import exporting


class Telling(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x + (1 if exporting() else 2)


def test_a_compiled_program_is_not_an_exported_one() -> None:
    x = torch.zeros(3)
    assert torch.equal(Telling()(x), x + 2)
    assert torch.equal(torch.compile(Telling(), backend="eager", fullgraph=True)(x), x + 2)
    assert torch.equal(torch.export.export(Telling(), (x,)).module()(x), x + 1)
