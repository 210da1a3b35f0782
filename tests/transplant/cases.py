"""Small models with random weights for the exact statements: every tensor is drawn, in float64."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn

from manyheads.arch import families as f
from manyheads.models.build import build
from manyheads.spec.arch import Arch, with_residuals
from manyheads.spec.parts import Attention, Mlp, Residual, Rope
from tests.models.tiny import inputs


def _with(arch: Arch, *, scaled: float | None = None, biased: bool | None = None, gated: bool = False) -> Arch:
    def branch(residual: Residual) -> Residual:
        op = residual.op
        if isinstance(op, Attention) and biased is not None:
            op = replace(op, qkv_bias=biased, out_bias=biased)
        if isinstance(op, Mlp):
            op = replace(op, gated=gated or op.gated, bias=op.bias if biased is None else biased)
        return replace(residual, op=op, scaled=scaled)

    return with_residuals(arch, branch)


VIT = f.vit(32, 4, 2, 16, 64, image=32, patch=8, classes=7)
GPT2 = f.gpt2(32, 4, 2, 16, 64, vocab=50, tokens=12, positions=16)
LLAMA = f.llama(32, 4, 4, 16, 64, kv_heads=2, vocab=50, tokens=12, rope=Rope(), tied=False)
CASES: dict[str, Arch] = {
    "vit": VIT,
    "vit_scaled": _with(VIT, scaled=0.1),
    "vit_no_bias": _with(VIT, biased=False),
    "vit_gated": _with(VIT, scaled=0.1, gated=True),
    "gpt2": GPT2,
    "llama": LLAMA,
    "llama_biased": _with(LLAMA, biased=True),
    "llama_tied": f.llama(32, 4, 4, 16, 64, vocab=50, tokens=12, rope=Rope(), tied=True),
}


def trained(arch: Arch, seed: int = 0) -> nn.Module:
    """A model whose every tensor is drawn, also those that start at 0 or 1."""
    model = build(arch, seed=seed).double().eval()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for tensor in model.parameters():
            tensor.copy_(torch.randn(tensor.shape, generator=generator, dtype=torch.float64) * 0.3)
    return model


def rebuilt(arch: Arch, weights: dict[str, Tensor]) -> nn.Module:
    """The model of a record with these weights, in float64."""
    model = build(arch).double().eval()
    model.load_state_dict(weights)
    return model


def batch(arch: Arch) -> tuple[Tensor, ...]:
    """An input in float64, or ids."""
    return inputs(arch, dtype=torch.float64)


def agree(one: Tensor, other: Tensor) -> None:
    """Refuse outputs that differ by more than rounding."""
    assert torch.isfinite(one).all()
    assert (one - other).abs().max() <= 1e-11 * (1 + other.abs().max())
