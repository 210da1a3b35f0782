"""The one exception that speaks to a user: what was given, why it cannot be, what to write instead."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class UserError(ValueError):
    """A user's mistake, told in a sentence. Commands print it without a traceback and exit with code 2."""


def nearest(name: str, known: Iterable[str]) -> str:
    """A hint such as `; did you mean vit_b?` for a name that is not in `known`, or nothing."""
    close = difflib.get_close_matches(name, list(known), n=3, cutoff=0.5)
    return f"; did you mean {' or '.join(close)}?" if close else ""
