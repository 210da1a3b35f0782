"""Words of a command that is printed to be pasted into a shell."""

from __future__ import annotations

from pathlib import Path
from shlex import quote


def word(value: Path | str) -> str:
    """A path or a name as one word of a shell command. One that begins with a dash would be read as an option."""
    text = str(value)
    return quote(f"./{text}" if text.startswith("-") else text)
