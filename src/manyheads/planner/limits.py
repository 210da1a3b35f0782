"""What a redesign may look like: policy, head_dims, depth, MLP, grouped queries, multiples that hardware likes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from manyheads.arch.redesign import Policy
from manyheads.spec.errors import UserError


@dataclass(frozen=True)
class Limits:
    """Constraints on the search. By default both policies are searched, the MLP is free between a quarter and all of
    its width, and keys and values follow the heads as the original's do.

    `head_dims`, where given, are all that may occur, each with any number of heads; otherwise they follow from the
    policies and are multiples of `head_dim_multiple` (the original's own head_dim is always allowed); a split whose
    heads do not divide inner is considered only where it lands on a size that fused kernels have. `heads` is a range,
    by default from the original's number to four times it; `kv_heads` is a number, `keep`, or `any` divisor of the
    heads (grouped queries). `min_depth` counts layers of a flat model, and of each stage otherwise."""

    policy: Policy | None = None
    head_dims: tuple[int, ...] = ()
    heads: tuple[int, int] | None = None
    min_depth: int = 1
    max_depth: int | None = None
    mlp: Literal["free", "held"] = "free"
    kv_heads: int | Literal["keep", "any"] = "keep"
    heads_multiple: int = 1
    head_dim_multiple: int = 8
    mlp_multiple: int = 64

    def __post_init__(self) -> None:
        if self.policy not in (None, "fixed", "split"):
            raise UserError(
                f"policy is {self.policy!r}; write 'fixed' (keep head_dim) or 'split' (keep inner), or neither"
            )
        if self.mlp not in ("free", "held"):
            raise UserError(f"mlp is {self.mlp!r}; write 'free' or 'held'")
        if isinstance(self.kv_heads, str) and self.kv_heads not in ("keep", "any"):
            raise UserError(f"kv_heads is {self.kv_heads!r}; write a whole number, 'keep' or 'any'")
        numbers = {
            "min_depth": self.min_depth,
            "max_depth": self.max_depth,
            "heads_multiple": self.heads_multiple,
            "head_dim_multiple": self.head_dim_multiple,
            "mlp_multiple": self.mlp_multiple,
        }
        if not isinstance(self.kv_heads, str):
            numbers["kv_heads"] = self.kv_heads
        numbers |= {f"head_dims[{i}]": value for i, value in enumerate(self.head_dims)}
        numbers |= {f"heads[{i}]": value for i, value in enumerate(self.heads or ())}
        for name, value in numbers.items():
            if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
                raise UserError(f"{name} is {value!r}; write a whole number from 1 up")
        if self.heads is not None and (len(self.heads) != 2 or self.heads[0] > self.heads[1]):
            raise UserError(f"heads is {self.heads!r}; write the fewest and the most, e.g. (12, 32)")
        if self.max_depth is not None and self.max_depth < self.min_depth:
            raise UserError(f"max_depth {self.max_depth} is below min_depth {self.min_depth}; write a range")
