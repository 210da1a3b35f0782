"""Functions of a model that take its name in place of its record: `redesign("vit_b", depth=7)`.

The functions themselves are in rooms that know records alone. The package offers them through `by_name`, so that any
name of `resolve` will do: a zoo name, `timm:NAME`, `hf:FOLDER`, a saved record."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from inspect import signature
from typing import Any, TypeVar

from .resolve import resolve

R = TypeVar("R")
PLAIN = (str, bytes, int, float, list, tuple, dict, set)


def by_name(function: Callable[..., R], models: int = 1) -> Callable[..., R]:
    """`function`, whose first `models` arguments are records, for records and names alike."""

    names = list(signature(function).parameters)[:models]

    @wraps(function)
    def named(*args: Any, **kwargs: Any) -> R:
        first = [_record(value) for value in args[:models]]
        others = {name: _record(value) if name in names else value for name, value in kwargs.items()}
        return function(*first, *args[models:], **others)

    return named


def _record(model: Any) -> Any:
    plain = model is None or isinstance(model, PLAIN)  # which no function can take for a model
    return resolve(model) if plain else model
