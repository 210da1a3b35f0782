"""Attention over few tokens by our kernels: PyTorch's numbers, interpreted here, compiled on a GPU."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

GPU = pytest.mark.gpu
# batch, heads, tokens, head_dim
SHAPES = [(3, 2, 16, 16), (2, 3, 5, 4), (1, 2, 16, 1), (2, 2, 32, 40), (2, 1, 17, 64)]


def results(f: object, q: Tensor, k: Tensor, v: Tensor, scale: float | None, dtype: torch.dtype) -> list[Tensor]:
    """Value and gradients along a direction that `dtype` can hold."""
    given = [t.detach().requires_grad_() for t in (q, k, v)]
    y = f(*given, scale=scale)
    probe = torch.randn(y.shape, generator=torch.Generator().manual_seed(9)).to(dtype).to(y)
    return [y.detach(), *torch.autograd.grad(y, given, probe)]


def checked(device: str, shape: tuple[int, ...], dtype: torch.dtype, limit: float, scale: float | None) -> None:
    from manyheads.nn.short_kernels import short

    batch, heads, tokens, dim = shape
    draw = torch.Generator().manual_seed(0)
    parts = torch.randn(batch, tokens, 3, heads, dim, generator=draw).to(dtype).permute(2, 0, 3, 1, 4)
    expected = results(F.scaled_dot_product_attention, *parts.double(), scale, dtype)
    for a, b in zip(results(short, *parts.to(device), scale, dtype), expected, strict=True):
        assert a.dtype == dtype
        assert a.shape == b.shape
        assert (a.double().cpu() - b).abs().max() <= limit * b.abs().max(), shape


@pytest.mark.skipif(find_spec("triton") is None, reason="Triton comes with PyTorch for CUDA only")
def test_kernels_are_their_formulas_when_interpreted() -> None:
    """Triton decides at import whether to interpret, hence a process of its own."""
    env = os.environ | {"TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"}
    subprocess.run([sys.executable, "-P", str(Path(__file__))], env=env, check=True)


def test_a_cpu_leaves_it_to_pytorch() -> None:
    from manyheads.nn.sdpa import backend

    assert backend(torch.zeros(1, 1, 16, 16)) == "torch"


@GPU
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("dtype", "limit"), [(torch.float32, 2e-5), (torch.bfloat16, 3e-2)])
def test_kernels_are_their_formulas(shape: tuple[int, ...], dtype: torch.dtype, limit: float) -> None:
    checked("cuda", shape, dtype, limit, None)
    checked("cuda", shape, dtype, limit, 0.3)


@pytest.mark.unchecked
@GPU
def test_attention_chooses_it_for_few_tokens_and_compiles() -> None:
    from manyheads.nn.attention import SoftmaxAttention
    from manyheads.nn.sdpa import backend
    from manyheads.spec.parts import Attention

    x = torch.randn(8, 16, 32, device="cuda")
    assert backend(x[:, None]) == "short"
    assert backend(x[:, None], causal=True) != "short"
    assert backend(x[:, None], keys=17) != "short"
    assert backend(torch.zeros(1, 1, 33, 16, device="cuda")) != "short"
    torch.manual_seed(0)
    made = SoftmaxAttention(32, Attention(4, 8)).cuda()
    expected = made.double()(x.double()).float()
    made.float()
    assert (made(x) - expected).abs().max() < 1e-4
    assert (torch.compile(made, fullgraph=True)(x) - expected).abs().max() < 1e-2


if __name__ == "__main__":
    for shape in SHAPES:
        checked("cpu", shape, torch.float32, 1e-5, None)
        checked("cpu", shape, torch.float32, 1e-5, 0.3)
