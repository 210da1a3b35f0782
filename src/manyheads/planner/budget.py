"""What a redesign may cost, as a person says it: `0.5x`, `40M`, `12GB`, `5ms`; several budgets at once."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields

from manyheads.spec.errors import UserError

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
# kind -> what it is called, its units in the base unit, an example to write
KINDS: Mapping[str, tuple[str, Mapping[str, float], str]] = {
    "params": ("parameters", _COUNT, "'40M'"),
    "flops": ("forward FLOPs", _WORK, "'17G'"),
    "memory": ("training memory", _BYTES, "'12GB'"),
    "kv_cache": ("KV cache", _BYTES, "'200MB'"),
    "latency": ("batch-1 latency", _SECONDS, "'5ms'"),
}
_NUMBER = re.compile(r"\s*([0-9]*\.?[0-9]+(?:e[0-9]+)?)\s*([a-zA-Z%]*)\s*", re.IGNORECASE)
LARGEST_SHARE = 16.0  # a float above this is a count that lost its unit, not a multiple of the original


@dataclass(frozen=True)
class Cap:
    """One resolved budget: no design may cost more than `most`, in parameters, operations, bytes or seconds."""

    kind: str
    most: float
    given: str

    @property
    def name(self) -> str:
        """What is capped, in words."""
        return KINDS[self.kind][0]


@dataclass(frozen=True)
class Budget:
    """Upper bounds, alone or together. A float is a multiple of the original's (0.5), a whole number is absolute
    (40_000_000), a string is either: '0.5x', '50%', '40M', '17G', '12GB', '5ms'.

    `flops` are of one forward over one example, `memory` is of a training step, `kv_cache` of one sequence at full
    length, `latency` of one example."""

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
        """The budgets that were given, by kind."""
        named = {field.name: getattr(self, field.name) for field in fields(self)}
        return {kind: value for kind, value in named.items() if value is not None}

    def caps(self, original: Mapping[str, float]) -> tuple[Cap, ...]:
        """The budgets in absolute numbers; `original` is what the original costs, by kind."""
        found = []
        for kind, value in self.given().items():
            amount, relative = parse(kind, value)
            if kind == "kv_cache" and not original[kind]:
                raise UserError(
                    "kv_cache was given a budget, and this model keeps none: only a causal language model "
                    "generates; leave it out"
                )
            if kind == "latency" and not relative and not original[kind]:
                raise UserError(
                    f"latency {value!r} is absolute, and the original's is not known; write a share such as "
                    "'0.6x', or measure first (plan(..., latency=seconds), or --measure)"
                )
            most = amount * original[kind] if relative else amount
            # exact where the numbers are: 0.1 x 10 rounds down in floating point
            near = round(most)
            most = float(near) if math.isclose(most, near, rel_tol=1e-12) else most
            found.append(Cap(kind, most, f"{amount:g}x" if relative else str(value)))
        return tuple(found)


def parse(kind: str, value: Amount) -> tuple[float, bool]:
    """An amount in base units, and whether it is a multiple of the original's."""
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
        amount, relative = float(value), isinstance(value, float)
        if relative and amount > LARGEST_SHARE:
            raise UserError(f"{kind} is {value!r}: a float is a multiple of the original's; {help_}, or a whole number")
    if not math.isfinite(amount) or amount <= 0:
        raise UserError(f"{kind} is {value!r}; a budget is more than 0: {help_}")
    return amount, relative
