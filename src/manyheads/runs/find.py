"""Every run folder below a root, sound or not, without reading a line of their measurements."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from manyheads.spec.errors import UserError
from manyheads.spec.run import RunSpec

from .state import LOCK, RESULT, SPEC, STATUS, WORK, Foreign, read_result, read_spec, read_status, state

TRACES = frozenset({LOCK, STATUS, RESULT, *(name for name in WORK if name.endswith(".jsonl"))})


@dataclass(frozen=True)
class Found:
    """A run folder as it was found. `state` is that of `Run.state`, or damaged or foreign; then `problem` says why."""

    path: Path
    state: str
    spec: RunSpec | None = None
    status: dict[str, Any] | None = None
    result: dict[str, Any] | None = None
    problem: str | None = None


def find(root: Path | str) -> list[Found]:
    """The run folders at and below `root`, in the order of their paths. Damaged, foreign and unreadable ones are among
    them, with their `problem`. Hidden folders are left out; links are followed, each folder once."""
    found: list[Found] = []
    seen: set[tuple[int, int]] = set()
    waiting = [Path(root)]
    while waiting:
        folder = waiting.pop()
        try:
            here = os.stat(folder)
            with os.scandir(folder) as entries:
                inside = {entry.name: _is_folder(entry) for entry in entries}
        except (FileNotFoundError, NotADirectoryError):  # deleted meanwhile, or a root that never was
            continue
        except OSError as error:
            found.append(Found(folder, "damaged", problem=f"{folder} cannot be read: {error.strerror or error}"))
            continue
        if (here.st_dev, here.st_ino) in seen:
            continue
        seen.add((here.st_dev, here.st_ino))
        run = _look(folder, inside)
        if run is not None:
            found.append(run)
        if run is None or run.state == "foreign":
            waiting += [folder / name for name, is_folder in inside.items() if is_folder and not name.startswith(".")]
    return sorted(found, key=lambda item: item.path)


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link to itself
        return False


def _look(folder: Path, inside: dict[str, bool]) -> Found | None:
    if SPEC not in inside:
        trace = sorted(TRACES & inside.keys())
        if not trace:
            return None
        return Found(
            folder, "damaged", problem=f"{folder} holds {trace[0]} and no {SPEC}: it was lost, or never written"
        )
    status = read_status(folder) if STATUS in inside else None
    spec = None
    try:
        spec, id = read_spec(folder)
        result = read_result(folder, id) if RESULT in inside else None
        return Found(folder, state(folder, status, result), spec, status, result)
    except UserError as error:
        return Found(folder, "foreign" if isinstance(error, Foreign) else "damaged", spec, status, problem=str(error))
