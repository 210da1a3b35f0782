"""A residual branch and what it is made of besides attention: norms, the MLP, drop path and layer scale."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from manyheads.spec.parts import Act, Mlp, Norm, Residual
from manyheads.spec.recipe import Rates

from . import Part


def gelu_tanh(x: Tensor) -> Tensor:
    """GELU by its formula with tanh. A function with a name, so that a module that holds it pickles."""
    return F.gelu(x, approximate="tanh")


def quick_gelu(x: Tensor) -> Tensor:
    """x sigmoid(1.702 x), CLIP's approximation of GELU, written with SiLU, which keeps one tensor less for backward."""
    return F.silu(1.702 * x) / 1.702


def relu_squared(x: Tensor) -> Tensor:
    """The square of ReLU."""
    return F.relu(x).square()


ACTS: dict[Act, Callable[[Tensor], Tensor]] = {
    "gelu": F.gelu,
    "gelu_tanh": gelu_tanh,
    "quick_gelu": quick_gelu,
    "relu": F.relu,
    "relu_squared": relu_squared,
    "silu": F.silu,
    "tanh": torch.tanh,
}


class UnitNorm(Part):
    """x s / |x| with one learned scalar s, in place of LayerNorm in the rank experiments."""

    group = "norm"

    def __init__(self, eps: float) -> None:
        super().__init__()
        self.eps = eps
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, x: Tensor) -> Tensor:
        return x * (self.scale / x.norm(dim=-1, keepdim=True).clamp_min(self.eps))


class RmsNorm(nn.RMSNorm):
    """RMS norm in its weight's precision: given a half-precision residual stream, PyTorch's would leave the fused
    kernel."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.to(self.weight.dtype))


class RmsNormPlusOne(nn.RMSNorm):
    """RMS norm times 1 + weight, in float32 at least: added to 1, a half-precision weight would lose its digits."""

    def reset_parameters(self) -> None:
        """A factor of 1."""
        nn.init.zeros_(self.weight)

    def forward(self, x: Tensor) -> Tensor:
        wide = torch.promote_types(self.weight.dtype, torch.float32)
        y = F.rms_norm(x.to(wide), self.normalized_shape, 1 + self.weight.to(wide), self.eps)
        return y.to(self.weight.dtype)


class LayerNormPlusOne(nn.LayerNorm):
    """Layer norm times 1 + weight, plus bias."""

    def reset_parameters(self) -> None:
        """A factor of 1 and a bias of 0."""
        nn.init.zeros_(self.weight)
        nn.init.zeros_(self.bias)

    def forward(self, x: Tensor) -> Tensor:
        wide = torch.promote_types(self.weight.dtype, torch.float32)
        weight, bias = 1 + self.weight.to(wide), self.bias.to(wide)
        return F.layer_norm(x.to(wide), self.normalized_shape, weight, bias, self.eps).to(self.weight.dtype)


NORMS = (nn.LayerNorm, nn.RMSNorm, nn.BatchNorm2d, UnitNorm)


def make_norm(norm: Norm | None, width: int) -> nn.Module:
    """The module a `Norm` describes, over the last dimension (`batch`: over channels of an image); None: identity."""
    if norm is None:
        return nn.Identity()
    match norm.kind:
        case "layer":
            return nn.LayerNorm(width, eps=norm.eps)
        case "rms":
            return RmsNorm(width, eps=norm.eps)
        case "batch":
            return nn.BatchNorm2d(width, eps=norm.eps)
        case "unit":
            return UnitNorm(norm.eps)
        case "layer_no_bias":
            return nn.LayerNorm(width, eps=norm.eps, bias=False)
        case "layer_plain":
            return nn.LayerNorm(width, eps=norm.eps, elementwise_affine=False)
        case "layer_plus_one":
            return LayerNormPlusOne(width, eps=norm.eps)
        case "rms_plus_one":
            return RmsNormPlusOne(width, eps=norm.eps)


class MlpBlock(Part):
    """out(act(in(x))), or out(act(gate) * value) where `in` gives gate and value side by side.

    Dropout falls on the result and, with `twice`, on the hidden units as well: vision models and the LRA models do
    that, GPT-2 and BERT do not."""

    group = "mlp"

    def __init__(self, width: int, spec: Mlp, rates: Rates = Rates(), *, twice: bool = True) -> None:
        super().__init__()
        self.spec = spec
        self.act = ACTS[spec.act]
        self.inp = nn.Linear(width, 2 * spec.mlp_dim if spec.gated else spec.mlp_dim, bias=spec.bias)
        self.hidden_drop = nn.Dropout(rates.dropout if twice else 0.0)
        self.drop = nn.Dropout(rates.dropout)
        self.out = nn.Linear(spec.mlp_dim, width, bias=spec.bias)

    def forward(self, x: Float[Tensor, "... tokens width"]) -> Float[Tensor, "... tokens width"]:
        hidden = self.inp(x)
        if self.spec.gated:
            gate, value = hidden.chunk(2, dim=-1)
            hidden = self.act(gate) * value
        else:
            hidden = self.act(hidden)
        return self.drop(self.out(self.hidden_drop(hidden)))


class DropPath(nn.Module):
    """Stochastic depth: zeroes a residual branch for whole samples with probability `rate`, and scales up the rest."""

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = rate

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or self.rate == 0.0:
            return x
        keep = torch.empty((x.shape[0],) + (1,) * (x.ndim - 1), device=x.device, dtype=x.dtype)
        return x * keep.bernoulli_(1 - self.rate).div_(1 - self.rate)


def rising(rate: float, layers: int) -> list[float]:
    """Drop-path rates that rise linearly from 0 at the first layer to `rate` at the last."""
    return [rate * i / max(1, layers - 1) for i in range(layers)]


class Branch(Part):
    """x + change(norm(x)) for a pre-norm branch, norm(x + change(x)) for a post-norm one; change(y) is
    drop_path(scale * times * after(op(y)))."""

    group = "norm"  # of the layer scale, the only parameter it owns itself

    def __init__(self, width: int, spec: Residual, op: nn.Module, path: float = 0.0) -> None:
        super().__init__()
        self.spec = spec
        self.norm = make_norm(spec.norm, width)
        self.op = op
        self.after = make_norm(spec.after, width)
        self.path = DropPath(path)
        self.scale = None if spec.scaled is None else nn.Parameter(torch.full((width,), float(spec.scaled)))

    def scaled(self, y: Tensor) -> Tensor:
        """`y` times the layer scale, where the branch has one."""
        return y if self.scale is None else y * self.scale

    def forward(self, x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        post = self.spec.place == "post"
        x = x + self.change(x if post else self.norm(x), *args, **kwargs)
        return self.norm(x) if post else x

    def change(self, y: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        """What the branch adds to the residual stream. `y` is what its operation reads."""
        added = self.after(self.op(y, *args, **kwargs))
        return self.path(self.scaled(added if self.spec.times == 1.0 else added * self.spec.times))
