"""Run folders as they lie on the disk: the names in one, how it is read, its state, and all folders below a root.

Nothing here writes, or reads a line of a run's measurements."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from manyheads.spec.errors import UserError
from manyheads.spec.files import read_object, upgrade
from manyheads.spec.lock import held
from manyheads.spec.run import RunSpec

SPEC, STATUS, RESULT, LOCK = "spec.json", "status.json", "result.json", "lock"
WORK = ("metrics.jsonl", "spectra.jsonl", "timings.jsonl", "checkpoint", "model")  # a run has begun once it has one
TRACES = frozenset({LOCK, STATUS, RESULT, *(name for name in WORK if name.endswith(".jsonl"))})


class Foreign(UserError):
    """The folder holds a spec.json that manyheads did not write, or that a newer version wrote."""


def read_spec(folder: Path) -> tuple[RunSpec, str]:
    """The specification of a run folder, and its id as written there."""
    data = read_object(folder / SPEC)
    if data is None:
        wrong = f"is no run folder: it holds no {SPEC}" if os.path.isdir(folder) else "does not exist"
        raise UserError(f"{folder} {wrong}; give the folder of a run")
    if not {"schema", "arch"} <= data.keys():
        raise Foreign(f"{folder / SPEC} is not the specification of a run: it has no `schema` and `arch`")
    try:
        upgrade(SPEC, data)
    except UserError as error:
        raise Foreign(f"{folder}: {error}") from None
    try:
        if "id" not in data:
            raise UserError("it has no `id`")
        return RunSpec.from_dict(data), str(data["id"])
    except UserError as error:
        raise UserError(f"{folder / SPEC} is damaged: {error}") from None
    except RecursionError:
        raise UserError(f"{folder / SPEC} is damaged: it is nested too deeply to be a specification") from None


def read_status(folder: Path) -> dict[str, Any] | None:
    """The status; None where it is missing or damaged, since the next write replaces it."""
    try:
        data = read_object(folder / STATUS)
        return None if data is None else upgrade(STATUS, data)
    except UserError:
        return None


def read_result(folder: Path, id: str) -> dict[str, Any] | None:
    """The result, None where there is none. A result that cannot be read, or is another run's, is refused, because
    without it nobody can say whether the run is done."""
    again = "; delete it and train again, which resumes from the last checkpoint"
    data = read_object(folder / RESULT, again)
    if data is None:
        return None
    data = upgrade(str(folder / RESULT), data)
    if not isinstance(data.get("result"), dict):
        raise UserError(f"{folder / RESULT} is damaged: it has no `result`{again}")
    if data.get("id") != id:
        raise UserError(f"{folder / RESULT} belongs to run {data.get('id')!r}, and this one is {id!r}{again}")
    result: dict[str, Any] = data["result"]
    return result


def state(folder: Path, status: dict[str, Any] | None, result: dict[str, Any] | None) -> str:
    """new, running, stopped, failed or done. A result means done; a lock that a living process holds means running. A
    status that says running although nobody holds the lock means that the process was killed: stopped."""
    if result is not None:
        return "done"
    if held(folder / LOCK):
        return "running"
    if status is not None:
        return "failed" if status.get("state") == "failed" else "stopped"
    begun = any(os.path.lexists(folder / name) for name in (STATUS, *WORK))
    return "stopped" if begun else "new"


@dataclass(frozen=True)
class RunFolder:
    """What lies in a run folder. `state` is as in `Run.state`, or damaged or foreign; then `problem` says why."""

    path: Path
    state: str
    spec: RunSpec | None = None
    status: dict[str, Any] | None = None
    result: dict[str, Any] | None = None
    problem: str | None = None


def find(root: Path | str) -> list[RunFolder]:
    """The run folders at and below `root`, sorted by path. Damaged, foreign and unreadable ones are among them, with
    their `problem`. Hidden folders are skipped; links are followed, each folder once."""
    folders: list[RunFolder] = []
    seen: set[tuple[int, int]] = set()
    waiting = [Path(root)]
    while waiting:
        folder = waiting.pop()
        try:
            here = os.stat(folder)
            with os.scandir(folder) as entries:
                inside = {entry.name: _is_folder(entry) for entry in entries}
        except (FileNotFoundError, NotADirectoryError):  # deleted meanwhile, or a root that does not exist
            continue
        except OSError as error:
            folders.append(RunFolder(folder, "damaged", problem=f"{folder} cannot be read: {error.strerror or error}"))
            continue
        if (here.st_dev, here.st_ino) in seen:
            continue
        seen.add((here.st_dev, here.st_ino))
        run = _look(folder, inside)
        if run is not None:
            folders.append(run)
        if run is None or run.state == "foreign":
            waiting += [folder / name for name, is_folder in inside.items() if is_folder and not name.startswith(".")]
    return sorted(folders, key=lambda item: item.path)


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link to itself
        return False


def _look(folder: Path, inside: dict[str, bool]) -> RunFolder | None:
    if SPEC not in inside:
        trace = sorted(TRACES & inside.keys())
        if not trace:
            return None
        return RunFolder(
            folder, "damaged", problem=f"{folder} holds {trace[0]} and no {SPEC}: it was lost, or never written"
        )
    status = read_status(folder) if STATUS in inside else None
    spec = None
    try:
        spec, id = read_spec(folder)
        result = read_result(folder, id) if RESULT in inside else None
        return RunFolder(folder, state(folder, status, result), spec, status, result)
    except UserError as error:
        return RunFolder(
            folder, "foreign" if isinstance(error, Foreign) else "damaged", spec, status, problem=str(error)
        )
