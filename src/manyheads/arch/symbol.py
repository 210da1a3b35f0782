"""Symbols in place of numbers: with them the formulas of `count` become JavaScript for a page.

heads = Symbol("heads")
javascript(4 * 768 * heads * 64 + 1)   ->   "196608*heads+1"
"""

from __future__ import annotations

from typing import Any


class Symbol:
    """An arithmetic expression over whole numbers: + - * // and whole powers."""

    __slots__ = ("args", "op")

    def __init__(self, op: str, *args: Any) -> None:
        self.op = op
        self.args = args

    def __add__(self, other: Any) -> Any:
        return _make("+", self, other)

    def __radd__(self, other: Any) -> Any:
        return _make("+", other, self)

    def __sub__(self, other: Any) -> Any:
        return _make("-", self, other)

    def __rsub__(self, other: Any) -> Any:
        return _make("-", other, self)

    def __mul__(self, other: Any) -> Any:
        return _make("*", self, other)

    def __rmul__(self, other: Any) -> Any:
        return _make("*", other, self)

    def __floordiv__(self, other: Any) -> Any:
        return _make("//", self, other)

    def __rfloordiv__(self, other: Any) -> Any:
        return _make("//", other, self)

    def __neg__(self) -> Any:
        return _make("-", 0, self)

    def __pow__(self, power: int) -> Any:
        product: Any = 1
        for _ in range(power):
            product = product * self
        return product

    def __repr__(self) -> str:
        return f"Symbol({javascript(self)})"


def _make(op: str, left: Any, right: Any) -> Any:
    """One operation, with the trivial ones folded away."""
    if op == "+" and (_is(left, 0) or _is(right, 0)):
        return right if _is(left, 0) else left
    if op == "-" and _is(right, 0):
        return left
    if op == "*" and (_is(left, 0) or _is(right, 0)):
        return 0
    if op in ("*", "//") and _is(right, 1):
        return left
    if op == "*" and _is(left, 1):
        return right
    if op == "*" and isinstance(right, Symbol) and right.op == "*" and _int(left) and _int(right.args[0]):
        return _make("*", left * right.args[0], right.args[1])
    if op == "*" and _int(right):
        return _make("*", right, left)
    return Symbol(op, left, right)


def _is(value: Any, number: int) -> bool:
    return isinstance(value, int) and value == number


def _int(value: Any) -> bool:
    return isinstance(value, int)


def javascript(value: Any) -> str:
    """The expression as JavaScript. Exact while every intermediate stays below 2^53."""
    return _print(value)[0]


def _print(value: Any) -> tuple[str, int]:
    """Text and binding strength: 3 for atoms, 2 for products, 1 for sums."""
    if not isinstance(value, Symbol):
        return (repr(value), 3) if value >= 0 else (f"({value!r})", 3)
    if not value.args:
        return value.op, 3
    (left, tight_left), (right, tight_right) = _print(value.args[0]), _print(value.args[1])
    match value.op:
        case "+":
            return f"{left}+{right}", 1
        case "-":
            return f"{left}-{right if tight_right > 1 else f'({right})'}", 1
        case "*":
            left = left if tight_left > 1 else f"({left})"
            right = right if tight_right > 1 else f"({right})"
            return f"{left}*{right}", 2
        case _:
            return f"Math.floor(({left})/({right}))", 3
