"""JSON values: checked on the way in, written the same way every time, never NaN."""

from __future__ import annotations

import json
from collections.abc import Mapping
from math import isfinite
from typing import Any

from .errors import UserError


def plain(value: Any, where: str, *, gaps: bool) -> Any:
    """A copy of `value` made of JSON values alone. A number that JSON does not have (NaN, infinity) becomes null where
    `gaps` are allowed, as in a measurement, and is refused where they are not, as in a specification."""
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, float):
        if isfinite(value):
            return value
        if gaps:
            return None
        raise UserError(f"{where} is {value}, which JSON does not have; write a finite number or null")
    if isinstance(value, Mapping):
        for name in value:
            if not isinstance(name, str):
                raise UserError(
                    f"{where} has the key {name!r}; the keys of a JSON object are strings, write {str(name)!r}"
                )
        return {name: plain(item, f"{where}.{name}", gaps=gaps) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item, f"{where}[{i}]", gaps=gaps) for i, item in enumerate(value)]
    kind = type(value).__name__
    raise UserError(f"{where} is a {kind}, which JSON does not have; write text, a number, a list or an object")


def line(record: Any, where: str) -> bytes:
    """One JSON line: keys sorted and floats in their shortest exact form, so that equal records are equal bytes."""
    if not isinstance(record, Mapping):
        raise UserError(f"{where} was given a {type(record).__name__}; a record is an object with named values")
    return json.dumps(plain(record, where, gaps=True), sort_keys=True, allow_nan=False).encode() + b"\n"


def canonical(value: Any) -> str:
    """The one text of a JSON value, to be hashed: keys sorted, no spaces, and 1.0 as 1, since JSON has one kind of
    number and a tool that rewrites a file may change the spelling."""
    return json.dumps(_whole(value), sort_keys=True, separators=(",", ":"), allow_nan=False)


def _whole(value: Any) -> Any:
    if isinstance(value, float):
        return int(value) if value.is_integer() else value
    if isinstance(value, dict):
        return {name: _whole(item) for name, item in value.items()}
    return [_whole(item) for item in value] if isinstance(value, list) else value


def refuse_constant(name: str) -> Any:
    """For `json.loads`: NaN and Infinity are not JSON."""
    raise ValueError(f"{name} is not a JSON number")
