"""What a check of a library found, as lines from which a page of docs is written."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

RESULTS = Path(__file__).parents[2] / "build"


def keep(library: str, check: Callable[[str], None], name: str, refusal: str) -> None:
    """A line for the page: the check passed, or was refused in this sentence."""
    promise = str(check.__doc__).split("\n\n")[0]
    line = {"family": name, "check": check.__name__, "promise": " ".join(promise.split()), "refusal": refusal}
    write(RESULTS / f"interop-{library}" / f"{name}-{check.__name__}.json", line)


def write(target: Path, line: dict[str, object]) -> None:
    """A file of one JSON object, whole at any time."""
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_suffix(f".{os.getpid()}")
    partial.write_text(json.dumps(line))
    partial.replace(target)
