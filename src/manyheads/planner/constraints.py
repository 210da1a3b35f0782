"""What a person asks for: what a redesign may cost (`Budget`: `0.5x`, `40M`, `12GB`, `5ms`, several at once) and what
it may look like (`Limits`: policy, head_dims, depth, MLP, grouped queries, multiples that hardware likes)."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Literal

from manyheads.arch.redesign import Policy
from manyheads.spec.errors import UserError
from manyheads.spec.field_checks import finite, shown, whole

Amount = int | float | str

_COUNT = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "b": 1e9, "t": 1e12}
_WORK = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12, "p": 1e15, "e": 1e18}
_BYTES = {
    "b": 1.0,
    "kb": 1e3,
    "mb": 1e6,
    "gb": 1e9,
    "tb": 1e12,
    "kib": 2.0**10,
    "mib": 2.0**20,
    "gib": 2.0**30,
    "tib": 2.0**40,
}
_SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1.0}
# kind -> its name in messages, the size of its units in the base unit, an example
KINDS: Mapping[str, tuple[str, Mapping[str, float], str]] = {
    "params": ("parameters", _COUNT, "'40M'"),
    "flops": ("forward FLOPs", _WORK, "'17G'"),
    "memory": ("training memory", _BYTES, "'12GB'"),
    "kv_cache": ("KV cache", _BYTES, "'200MB'"),
    "latency": ("batch-1 latency", _SECONDS, "'5ms'"),
}
_NUMBER = re.compile(r"\s*([0-9]*\.?[0-9]+(?:e[0-9]+)?)\s*([a-zA-Z%]*)\s*", re.IGNORECASE)
LARGEST_SHARE = 16.0  # a float above this is taken for a count without its unit, not for a multiple of the original


@dataclass(frozen=True)
class Cap:
    """One resolved budget: no design may cost more than `most`, in parameters, operations, bytes or seconds."""

    kind: str
    most: float
    given: str

    @property
    def name(self) -> str:
        """The name of what is capped."""
        return KINDS[self.kind][0]


@dataclass(frozen=True)
class Budget:
    """Upper bounds on what a redesign costs, alone or together.

    A float is a multiple of the original's cost (0.5), a whole number is absolute (40_000_000), a string is either:
    '0.5x', '50%', '40M', '17G', '12GB', '5ms'. `flops` are those of one forward over one example, `memory` is that of a
    training step, `kv_cache` that of one sequence at full length, `latency` that of one example."""

    params: Amount | None = None
    flops: Amount | None = None
    memory: Amount | None = None
    kv_cache: Amount | None = None
    latency: Amount | None = None

    def __post_init__(self) -> None:
        if all(getattr(self, field.name) is None for field in fields(self)):
            raise UserError(
                "no budget was given; write at least one of params, flops, memory, kv_cache, latency, e.g. "
                "params='0.5x'"
            )
        for field in fields(self):
            if (value := getattr(self, field.name)) is not None:
                parse(field.name, value)

    def given(self) -> dict[str, Amount]:
        """The stated budgets by kind."""
        named = {field.name: getattr(self, field.name) for field in fields(self)}
        return {kind: value for kind, value in named.items() if value is not None}

    def caps(self, original: Mapping[str, float]) -> tuple[Cap, ...]:
        """The budgets in absolute numbers; `original` is the original's cost by kind."""
        caps = []
        for kind, value in self.given().items():
            amount, relative = parse(kind, value)
            if kind == "kv_cache" and not original[kind]:
                raise UserError(
                    "kv_cache has a budget, and this model keeps none, since only a causal language model generates; "
                    "leave it out"
                )
            if kind == "latency" and not relative and not original[kind]:
                raise UserError(
                    f"latency {value!r} is absolute, and the original's latency is not known; write a share such as "
                    "'0.6x', or measure first (plan(..., latency=seconds), or --measure)"
                )
            most = amount * original[kind] if relative else amount
            # 0.1 x 10 must be 1: a product next to a whole number is that number
            near = round(most)
            most = float(near) if math.isclose(most, near, rel_tol=1e-12) else most
            caps.append(Cap(kind, most, f"{amount:g}x" if relative else str(value)))
        return tuple(caps)


def parse(kind: str, value: Amount) -> tuple[float, bool]:
    """An amount in base units (or as a share), and whether it is a multiple of the original's cost."""
    name, units, example = KINDS[kind]
    help_ = f"write a share such as '0.5x', or an amount such as {example}"
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise UserError(f"{kind} is {value!r}; {help_}")
    if isinstance(value, str):
        match = _NUMBER.fullmatch(value)
        if match is None:
            raise UserError(f"{kind} is {value!r}, which is no amount of {name}; {help_}")
        number, unit = float(match[1]), match[2].lower()
        if unit in ("x", "%"):
            amount, relative = number / (100 if unit == "%" else 1), True
        else:
            unit = unit.removesuffix("flops").removesuffix("flop") if kind == "flops" else unit
            if unit not in units:
                raise UserError(f"{kind} is {value!r}: {name} come in {', '.join(filter(None, units))}; {help_}")
            amount, relative = number * units[unit], False
            if not unit and number <= LARGEST_SHARE:
                raise UserError(f"{kind} is {value!r}, without a unit; {help_}")
    else:
        if not finite(value):
            raise UserError(f"{kind} is {shown(value)}; a budget is a finite number, more than 0: {help_}")
        amount, relative = float(value), isinstance(value, float)
        if relative and amount > LARGEST_SHARE:
            raise UserError(f"{kind} is {value!r}: a float is a multiple of the original's; {help_}, or a whole number")
    if not math.isfinite(amount) or amount <= 0:
        raise UserError(f"{kind} is {value!r}; a budget is more than 0: {help_}")
    return amount, relative


@dataclass(frozen=True)
class Limits:
    """Constraints on the search.

    `policy` is `fixed` (keep head_dim) or `split` (keep inner); by default both are searched. `head_dims`, where given,
    are the only ones allowed, each with any number of heads. Otherwise head_dims follow from the policies and are
    multiples of `head_dim_multiple`; the original's own is always allowed, and a split whose heads do not divide inner
    is considered only at a head_dim that fused kernels have. `heads` is a range, by default from the original's number
    to four times it. `kv_heads` is a number, `keep` (as the original), or `any` divisor of the heads (grouped queries).
    `mlp` is `free`, between a quarter and all of the original's width, or `held` at it. `min_depth` counts the layers
    of a flat model, and of each stage of a staged one."""

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
        for name, value in numbers.items():
            if value is not None or name != "max_depth":
                whole(name, value)
        for name in ("head_dims", "heads"):
            values = getattr(self, name)
            if values is None and name == "heads":
                continue
            if not isinstance(values, tuple | list):
                raise UserError(f"{name} is {shown(values)}; write several whole numbers, e.g. (12, 32)")
            for i, value in enumerate(values):
                whole(f"{name}[{i}]", value)
        if self.heads is not None and (len(self.heads) != 2 or self.heads[0] > self.heads[1]):
            raise UserError(f"heads is {self.heads!r}; write the fewest and the most, e.g. (12, 32)")
        if self.max_depth is not None and self.max_depth < self.min_depth:
            raise UserError(f"max_depth {self.max_depth} is below min_depth {self.min_depth}; write a range")
