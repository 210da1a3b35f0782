"""Checks that the fields of records share: types against their annotations, and ranges. What is refused is named."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from functools import cache
from math import isfinite, log10
from numbers import Real
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from .errors import UserError, nearest

LARGEST = 10**15  # whole numbers of a record are below this
LONG = 200  # bits of a whole number that a message still shows


@cache
def hints(kind: Any) -> dict[str, Any]:
    """The annotations of a record's fields."""
    annotations = get_type_hints(kind)
    return {field.name: annotations[field.name] for field in fields(kind)}


def check_types(record: Any, where: str) -> None:
    """Refuse the first field of `record` that is not what its annotation says. `where` is the record's name in a
    message."""
    kind: Any = type(record)
    for name, hint in hints(kind).items():
        value = getattr(record, name)
        if not conforms(value, hint):
            raise UserError(f"{where}.{name} is {shown(value)}{_nearest(value, hint)}; write {advice(value, hint)}")


def conforms(value: Any, hint: Any) -> bool:
    """Whether `value` is what an annotation says. A whole number may stand for a float. A whole number is below
    `LARGEST`, and a float is finite."""
    origin, options = get_origin(hint), get_args(hint)
    if hint is Any:
        return True
    if origin in (Union, UnionType):
        return any(conforms(value, option) for option in options)
    if origin is Literal:
        return isinstance(value, str) and value in options
    if origin is tuple:
        if not isinstance(value, tuple):
            return False
        if len(options) == 2 and options[1] is Ellipsis:
            return all(conforms(item, options[0]) for item in value)
        return len(value) == len(options) and all(map(conforms, value, options))
    if hint is float:
        return isinstance(value, int | float) and not isinstance(value, bool) and finite(value)
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool) and abs(value) < LARGEST
    return isinstance(value, origin or hint)


def described(hint: Any) -> str:
    """What to write where an annotation stands."""
    origin, options = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return " or ".join(dict.fromkeys(described(option) for option in options))
    if origin is Literal:
        return "one of " + ", ".join(map(repr, options))
    if origin is tuple:
        if options[-1] is Ellipsis:
            return f"a list of {described(options[0])}"
        return f"a list of {len(options)} numbers"
    words = {int: "a whole number", float: "a number", bool: "true or false", str: "text", type(None): "null"}
    if hint in words:
        return words[hint]
    return f"{'an' if hint.__name__[0] in 'AEIOU' else 'a'} {hint.__name__}"


def advice(value: Any, hint: Any) -> str:
    """What to write in the place of `value`, where an annotation stands."""
    words = described(hint)
    if isinstance(value, int) and abs(value) >= LARGEST:
        return words.replace("a whole number", f"a whole number below 10^{log10(LARGEST):.0f}")
    return words


def finite(value: float) -> bool:
    """Whether a float holds `value`, which is neither NaN nor infinite."""
    try:
        return isfinite(value)
    except OverflowError:
        return False


def shown(value: Any) -> str:
    """A value as a message shows it."""
    if isinstance(value, int) and value.bit_length() > LONG:
        return f"a number of about {value.bit_length() * log10(2):,.0f} digits"
    try:
        return described(type(value)) if is_dataclass(value) else repr(value)[:80]
    except ValueError:  # a whole number inside is longer than Python prints
        return f"{described(type(value))} with a number of thousands of digits"


def _nearest(value: Any, hint: Any) -> str:
    """The nearest of the words that may stand there, as a question in brackets."""
    words = get_args(hint) if get_origin(hint) is Literal and isinstance(value, str) else ()
    question = nearest(value, words).removeprefix("; ") if words else ""
    return f" ({question})" if question else ""


def whole(name: str, value: object) -> None:
    """Refuse what is not a whole number from 1 up, below `LARGEST`."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise UserError(f"{name} is {shown(value)}; write a whole number from 1 up")
    if value >= LARGEST:
        raise UserError(f"{name} is {shown(value)}; write {advice(value, int)}")


def between(name: str, value: object, low: float, high: float = float("inf"), whole: bool = False) -> None:
    """Refuse what is not a number from `low` to `high`."""
    kind = int if whole else Real
    number = isinstance(value, kind) and not isinstance(value, bool) and finite(value)  # type: ignore[arg-type]  # a number
    if not number or not low <= value <= high:  # type: ignore[operator]  # it is a number here
        word = "a whole number" if whole else "a number"
        top = f"from {low:g} to {high:g}" if high < float("inf") else f"of at least {low:g}"
        raise UserError(f"{name} is {shown(value)}; write {word} {top}")
