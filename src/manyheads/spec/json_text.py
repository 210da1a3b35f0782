"""JSON text as values, within limits: what is read here can be walked without running out of stack, every number in it
is one that a float holds, and every text can be written."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from math import isinf
from typing import Any

DEEPEST = 100  # lists and objects inside one another
MOST_DIGITS = 300  # of a whole number; a float ends at 309


def parse(text: str | bytes, *, finite: bool = True) -> Any:
    """The value of a JSON text. A `ValueError` says what is wrong: the text is no JSON, nests lists and objects more than
    `DEEPEST` deep, or has half of a character or a number that no float holds. With `finite=False`, for files that
    others write, NaN and Infinity are read as Python writes them."""
    text = text.decode() if isinstance(text, bytes) else text
    hooks: dict[str, Any] = {"parse_constant": refuse_constant, "parse_float": _real} if finite else {}
    try:
        value = json.loads(text, parse_int=_whole, **hooks)
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
    if text.count("[") + text.count("{") > DEEPEST and _deeper(value):
        raise ValueError(_TOO_DEEP)
    if _HALF.search(text):
        try:
            json.dumps(value, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise ValueError("it has half of a character, which no text can hold") from None
    return value


def refuse_constant(name: str) -> Any:
    """For `json.loads`: NaN and Infinity are not JSON."""
    raise ValueError(f"{name} is not a JSON number")


_HALF = re.compile(r"\\u[dD][89a-fA-F]")  # of a character beyond the first 2^16, which JSON may write as two halves
_TOO_DEEP = f"it is nested more than {DEEPEST} deep"


def _whole(digits: str) -> int:
    if len(digits) > MOST_DIGITS:
        raise ValueError(f"it has a whole number of {len(digits):,} digits; write at most {MOST_DIGITS}")
    return int(digits)


def _real(digits: str) -> float:
    value = float(digits)
    if isinf(value):
        raise ValueError(f"it has the number {digits[:40]}, which is beyond what a float holds")
    return value


def _deeper(value: Any) -> bool:
    """Whether lists and objects are nested more than `DEEPEST` deep; level by level, so without recursion."""
    level = [value]
    for _ in range(DEEPEST):
        level = [inner for item in level for inner in _items(item) if isinstance(inner, list | dict)]
        if not level:
            return False
    return True


def _items(value: Any) -> Iterator[Any]:
    if isinstance(value, list | dict):
        yield from value.values() if isinstance(value, dict) else value
