"""Optional libraries, imported when needed; a missing one is a sentence that says what to install."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from manyheads.spec.errors import UserError


def needed(module: str, extra: str) -> Any:
    """A module of an optional library."""
    try:
        return import_module(module)
    except ImportError as error:
        name = module.split(".")[0]
        raise UserError(f"{name} is not installed ({error}); write: pip install 'manyheads[{extra}]'") from None
