"""Checks that the fields of a record share; what is refused is named, with what to write instead."""

from __future__ import annotations

from math import isfinite
from numbers import Real

from .errors import UserError


def between(name: str, value: object, low: float, high: float = float("inf"), whole: bool = False) -> None:
    """Refuse what is not a number from `low` to `high`."""
    kind = int if whole else Real
    number = isinstance(value, kind) and not isinstance(value, bool) and isfinite(value)
    if not number or not low <= value <= high:  # type: ignore[operator]  # it is a number here
        word = "a whole number" if whole else "a number"
        top = f"from {low:g} to {high:g}" if high < float("inf") else f"of at least {low:g}"
        raise UserError(f"{name} is {value!r}; write {word} {top}")
