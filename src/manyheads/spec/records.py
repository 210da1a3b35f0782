"""Frozen dataclasses as plain JSON objects and back: unknown, missing and mistyped fields are named."""

from __future__ import annotations

import json
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from .errors import UserError, nearest

T = TypeVar("T")


def to_dict(record: Any) -> dict[str, Any]:
    """`record` and the records inside it as plain JSON values, fields in their order.

    A field marked `later` was added when run folders already existed: at its default it is left out, so that what was
    written before it and what is written now are the same run."""
    shown = {
        field.name: getattr(record, field.name)
        for field in fields(record)
        if not (field.metadata.get("later") and getattr(record, field.name) == field.default)
    }
    return {name: _plain(value) for name, value in shown.items()}


def _plain(value: Any) -> Any:
    if is_dataclass(value):
        return to_dict(value)
    return [_plain(item) for item in value] if isinstance(value, tuple) else value


def from_dict(kind: type[T], data: Any, where: str) -> T:
    """The record of class `kind` that `data` describes; fields left out have their defaults."""
    if not isinstance(data, dict):
        raise UserError(f"{where} is {_short(data)}; write an object with the fields of {kind.__name__}")
    wanted = {field.name: field for field in fields(kind)}  # type: ignore[arg-type]  # T is a dataclass
    for name in data:
        if name not in wanted:
            hint = nearest(name, wanted) or f"; it takes {', '.join(wanted)}"
            raise UserError(f"{where} has no field {name!r}{hint}")
    lacking = [
        name
        for name, field in wanted.items()
        if name not in data and field.default is MISSING and field.default_factory is MISSING
    ]
    if lacking:
        raise UserError(f"{where} lacks {', '.join(lacking)}")
    hints = get_type_hints(kind)
    given = {name: _value(hints[name], value, f"{where}.{name}") for name, value in data.items()}
    try:
        return kind(**given)
    except UserError:
        raise
    except ValueError as error:  # a record of another room, which says why in its own words
        raise UserError(f"{where}: {error}") from None


def _value(hint: Any, value: Any, where: str) -> Any:
    """`value` as the annotation `hint` asks for."""
    if is_dataclass(hint):
        return from_dict(hint, value, where)  # type: ignore[arg-type]  # a dataclass's class, not an instance
    options = get_args(hint)
    if type(None) in options:
        return None if value is None else _value(next(o for o in options if o is not type(None)), value, where)
    if get_origin(hint) is tuple:
        if not isinstance(value, list | tuple) or len(value) != len(options):
            raise UserError(f"{where} is {_short(value)}; write a list of {len(options)} numbers")
        return tuple(_value(o, item, f"{where}[{i}]") for i, (o, item) in enumerate(zip(options, value, strict=True)))
    if options:  # one of a few words
        if value not in options:
            raise UserError(
                f"{where} is {_short(value)}{nearest(str(value), options) or ''}; write one of "
                f"{', '.join(map(str, options))}"
            )
        return value
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if type(value) is not hint:
        names = {int: "a whole number", float: "a number", bool: "true or false", str: "a word"}
        raise UserError(f"{where} is {_short(value)}; write {names[hint]}")
    return value


def _short(value: Any) -> str:
    return json.dumps(value, default=str)[:80]
