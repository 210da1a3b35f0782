"""Rooms that can be called: `manyheads.train(...)` and `manyheads.report(...)` are functions for people, and
`manyheads.train` and `manyheads.report` are packages as well, whose names nothing else can have."""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import Any

CALLS = {  # the function that a call of a room calls; it is imported then, since it is in a later room
    "manyheads.train": ("manyheads.interop.one_call", "train"),
    "manyheads.report": ("manyheads.interop.one_call", "report"),
}


class CallableRoom(ModuleType):
    """A package that calls the function of its name in `CALLS`."""

    def __call__(self, *args: Any, **options: Any) -> Any:
        home, name = CALLS[self.__name__]
        return getattr(import_module(home), name)(*args, **options)


def make_callable(room: str) -> None:
    """Let the package called `room`, which is imported already, be called."""
    sys.modules[room].__class__ = CallableRoom
