"""What is counted (`Params` by group, operations, `Saved` activations) and the sums that all parts share.

The formulas of a part stand together: `attention_cost` has attention and its ways of mixing tokens, `layer_cost` the
other branches of a layer, `embed_cost` what makes tokens, `head_cost` what reads them. Each kind of part has one
function a quantity, and its line in its file's table says which. A number may be an int, an array or a symbol: only + -
* // touch it, and branches look at kinds, never at sizes. `tokens` has to be an int where a grid is needed (windows,
outlook, down-sampling).

Operations are counted as PyTorch's FlopCounterMode counts them: 2 per multiply-add of matrix products, convolutions and
attention; element-wise work, softmax and look-ups are free; a causal mask saves nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, Literal

from manyheads.spec.parts import Norm

Num = Any  # an int, an array or a symbol
Precision = Literal["fp32", "amp", "bf16"]
# bytes a number of the residual stream, of a product's input, of an attention map: autocast computes softmax in float32
# and keeps that beside its half-precision copy
BYTES: dict[Precision, tuple[int, int, int]] = {"fp32": (4, 4, 4), "amp": (4, 2, 6), "bf16": (2, 2, 2)}


@dataclass(frozen=True)
class Params:
    """Parameters by group: `embedding` (what makes tokens), `attention`, `mlp`, `norm` (norms and layer scales),
    `local` (convolutions between tokens, down-sampling, TNT's fusion) and `head` (what reads the result; a tied head
    adds nothing)."""

    embedding: Num = 0
    attention: Num = 0
    mlp: Num = 0
    norm: Num = 0
    local: Num = 0
    head: Num = 0

    @property
    def total(self) -> Num:
        """All parameters, each counted once."""
        return self.embedding + self.non_embedding + self.head

    @property
    def non_embedding(self) -> Num:
        """Parameters between the embedding and the head: what depth, heads and MLP width decide."""
        return self.attention + self.mlp + self.norm + self.local

    def __add__(self, other: Params) -> Params:
        return Params(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))

    def times(self, n: Num) -> Params:
        """These parameters, n times."""
        return Params(*(n * getattr(self, f.name) for f in fields(self)))


@dataclass(frozen=True)
class Saved:
    """Numbers that autograd keeps for the backward pass, tensor by tensor as an eager PyTorch module saves them, by
    what decides their precision: the residual `stream` and what norms read; what products `compute` with (their inputs,
    queries, keys, values, hidden units); attention `maps`."""

    stream: Num = 0
    compute: Num = 0
    maps: Num = 0

    def __add__(self, other: Saved) -> Saved:
        return Saved(self.stream + other.stream, self.compute + other.compute, self.maps + other.maps)

    def times(self, n: Num) -> Saved:
        """These numbers, n times."""
        return Saved(n * self.stream, n * self.compute, n * self.maps)

    def in_compute(self) -> Saved:
        """The same with the residual stream in the precision of products."""
        return Saved(0, self.stream + self.compute, self.maps)

    def bytes(self, precision: Precision) -> Num:
        """Their size in memory."""
        stream, compute, maps = BYTES[precision]
        return stream * self.stream + compute * self.compute + maps * self.maps


@dataclass(frozen=True)
class Formulas:
    """The three counts of one kind of part. All kinds of one table take the same arguments."""

    params: Callable[..., Params]
    flops: Callable[..., Num]
    saved: Callable[..., Saved]


def linear(inputs: Num, outputs: Num, bias: bool) -> Num:
    """Parameters of a matrix and, with `bias`, a vector."""
    return inputs * outputs + outputs if bias else inputs * outputs


def matmul(rows: Num, inputs: Num, outputs: Num) -> Num:
    """Operations of a (rows x inputs) by (inputs x outputs) product."""
    return 2 * rows * inputs * outputs


def norm_params(norm: Norm | None, width: Num) -> Num:
    """Two vectors (layer, batch), one (rms, or without bias), one scalar (unit) or nothing."""
    if norm is None:
        return 0
    match norm.kind:
        case "unit":
            return 1
        case "rms" | "rms_plus_one" | "layer_no_bias":
            return width
        case "layer_plain":
            return 0
        case _:
            return 2 * width
