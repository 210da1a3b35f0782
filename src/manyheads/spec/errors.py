"""The one exception that speaks to a user: what was given, why it cannot be, what to write instead."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from importlib import import_module
from shlex import quote
from typing import Any


class UserError(ValueError):
    """A user's mistake, explained in a sentence. Commands print it without a traceback and exit with code 2."""


def nearest(name: str, names: Iterable[str]) -> str:
    """A hint such as `; did you mean vit_b?` for a name that is not one of `names`, or nothing."""
    close = difflib.get_close_matches(name, list(names), n=3, cutoff=0.5)
    return f"; did you mean {' or '.join(close)}?" if close else ""


def readable(message: object) -> str:
    """A message without the middle of any word that fills a screen, such as a path of 5,000 letters."""
    return re.sub(r"\S{300,}", lambda word: f"{word[0][:60]}...{word[0][-20:]}", str(message))


def first_line(error: BaseException) -> str:
    """The first line of another library's message, or the name of the error where it has none."""
    return next(iter(str(error).splitlines()), type(error).__name__)


def optional(module: str, install: str, purpose: str = "") -> Any:
    """Import a module of an optional package. Where it is missing, the error names the package for `pip install`."""
    try:
        return import_module(module)
    except ImportError as error:
        problem = f"{purpose} needs {install}, which is" if purpose else f"{module.split('.')[0]} is"
        raise UserError(f"{problem} not installed ({error}); write: pip install {quote(install)}") from None
