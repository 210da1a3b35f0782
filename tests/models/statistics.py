"""Does a model start as its original does? Mean and spread of every tensor, beside a freshly built twin's."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt

import torch
from torch import nn

from manyheads.models.twins.tensors import TwinTensor

SIGMAS = 5.0


def same_statistics(ours: nn.Module, twin: nn.Module, entries: Sequence[TwinTensor]) -> None:
    """Every tensor that `entries` map has the twin's mean and standard deviation, within the error of sampling both.

    A tensor that is constant there is the same constant here. Parts of a fused tensor (queries, keys, values) are
    compared one by one, so that a part drawn otherwise does not hide in the whole."""
    mine, theirs = ours.state_dict(), twin.state_dict()
    missing = sorted(mine.keys() - {entry.ours for entry in entries})
    assert all("num_batches" in name for name in missing), f"not covered by the map: {missing}"
    wrong = []
    for entry in entries:
        for part, name in zip(entry.how.back(mine[entry.ours]), entry.theirs, strict=True):
            fault = differ(part, theirs[name])
            if fault:
                wrong.append(f"{entry.ours} beside {name}: {fault}")
    assert not wrong, "\n".join(wrong)


def differ(a: torch.Tensor, b: torch.Tensor) -> str:
    """How two samples differ by more than sampling explains, or nothing."""
    assert a.shape == b.shape, f"{tuple(a.shape)} beside {tuple(b.shape)}"
    a, b = (inside(t.detach().double().flatten()) for t in (a, b))
    first, second = a.std(correction=0).item(), b.std(correction=0).item()
    if second == 0.0:
        return "" if torch.equal(a, b) else f"{a.mean():.3g} +- {first:.3g}, where {b[0]:.3g} is expected everywhere"
    pooled, n = max(first, second), min(a.numel(), b.numel())
    if abs((a.mean() - b.mean()).item()) > SIGMAS * pooled * sqrt(2 / n):
        return f"mean {a.mean():.3g} beside {b.mean():.3g}"
    # the spread of a normal sample is known to 1/sqrt(2n) of itself; uniform and truncated ones are known better
    if abs(first - second) > SIGMAS * pooled / sqrt(n):
        return f"standard deviation {first:.4g} beside {second:.4g}"
    return ""


def inside(x: torch.Tensor) -> torch.Tensor:
    """Without what lies beyond 8 standard deviations: timm's trunc_normal_ in float32 puts one number in 2^24 at its
    cut, which for N(0, 0.02) cut at +-2 is 100 of them, and moves the spread of a whole matrix by a percent."""
    return x[(x - x.mean()).abs() <= 8 * x.std(correction=0)]
