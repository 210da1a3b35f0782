"""The MLP: width -> mlp_dim -> width, plain or gated."""

from __future__ import annotations

from collections.abc import Callable

from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from manyheads.spec.parts import Act, Mlp
from manyheads.spec.rates import Rates

ACTS: dict[Act, Callable[[Tensor], Tensor]] = {
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "relu": F.relu,
    "silu": F.silu,
    "tanh": lambda x: x.tanh(),
}


class MlpBlock(nn.Module):
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
