"""`find`: the runs below a root, in folders and in packs."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

from manyheads.spec.errors import UserError
from manyheads.spec.files import upgrade
from manyheads.spec.run import RunSpec

from .folder import (
    RESULT,
    SPEC,
    STATUS,
    TRACES,
    Foreign,
    PackLine,
    RunFolder,
    identity,
    read_result,
    read_spec,
    read_status,
    state,
)
from .pack_lines import SUFFIX, NoPack, read_lines

ACCIDENTAL = ("timing", "machine")  # parts of a result in which two trainings of one run may differ


def find(root: Path | str) -> list[RunFolder]:
    """The runs at and below `root`, sorted by path: run folders, and the runs in packs. Damaged, foreign and unreadable
    ones are among them, with their `problem`. Hidden folders are skipped; links are followed, each folder once. `root`
    may itself be a pack, which is refused where anything in it is wrong.

    A run that a pack holds and that is somewhere else too counts once (`RunFolder.also`). Where the two have different
    results, both are damaged, since nobody can say which of them is right."""
    root = Path(root)
    if root.is_file():
        return _once(read_pack(root))
    runs: list[RunFolder] = []
    seen: set[tuple[int, int]] = set()
    waiting = [root]
    while waiting:
        folder = waiting.pop()
        try:
            here = os.stat(folder)
            with os.scandir(folder) as entries:
                inside = {entry.name: _is_folder(entry) for entry in entries}
        except (FileNotFoundError, NotADirectoryError):  # deleted meanwhile, or a root that does not exist
            continue
        except OSError as error:
            runs.append(RunFolder(folder, "damaged", problem=f"{folder} cannot be read: {error.strerror or error}"))
            continue
        if (here.st_dev, here.st_ino) in seen:
            continue
        seen.add((here.st_dev, here.st_ino))
        run = _look(folder, inside)
        if run is not None:
            runs.append(run)
        if run is None or run.state == "foreign":
            waiting += [folder / name for name, is_folder in inside.items() if is_folder and not name.startswith(".")]
            runs += _packed(folder / name for name, is_folder in inside.items() if not is_folder)
    return sorted(_once(runs), key=lambda item: item.path)


def read_pack(path: Path) -> list[RunFolder]:
    """The runs of a pack, in its order. A pack in which anything is wrong is refused."""
    runs = []
    for number, content in enumerate(read_lines(path), 1):
        try:
            runs.append(_run(path, number, content))
        except (UserError, RecursionError) as error:
            raise UserError(f"{path} is damaged: line {number}: {error}") from None
    return runs


def _packed(files: Iterator[Path]) -> Iterator[RunFolder]:
    for file in sorted(files):
        if not file.name.endswith(SUFFIX) or file.name.startswith("."):
            continue
        try:
            yield from read_pack(file)
        except NoPack as error:
            yield RunFolder(file, "foreign", problem=str(error))
        except UserError as error:
            yield RunFolder(file, "damaged", problem=str(error))


def _run(path: Path, number: int, content: dict[str, Any]) -> RunFolder:
    """A run as a line of a pack has it."""
    name = content.get("name")
    if not isinstance(name, str) or not _is_name(name):
        raise UserError("the run has no name that a folder can have")
    parts = {part: content.get(part) for part in ("spec", "status", "result")}
    for part, value in parts.items():
        if not isinstance(value, dict) and not (part == "status" and value is None):
            raise UserError(f"the run has no {part}")
    for part in ("metrics", "spectra", "timings"):
        records = content.get(part)
        if not isinstance(records, list) or not all(isinstance(record, dict) for record in records):
            raise UserError(f"the run has no list of records as its {part}")
    if not isinstance(content.get("experiment", {}), dict):
        raise UserError("the run's experiment is no JSON object")
    if "id" not in content["spec"]:
        raise UserError("the specification has no `id`")
    spec, status = RunSpec.from_dict(content["spec"]), parts["status"]
    status = None if status is None else upgrade(STATUS, status)
    return RunFolder(path / name, "done", spec, status, parts["result"], packed=PackLine(path, number, content))


def _is_name(name: str) -> bool:
    """Whether a run may have that name below a folder: it leads nowhere else, and can be shown."""
    parts = PurePosixPath(name).parts
    return (
        0 < len(name) <= 500 and name.isprintable() and not name.startswith("/") and ".." not in parts and parts != ()
    )


def _once(runs: list[RunFolder]) -> list[RunFolder]:
    """`runs`, those that are in a pack and somewhere else too once. A folder comes before a pack, and a finished run
    before one that is not."""
    groups: dict[tuple[str, ...], list[RunFolder]] = {}
    for run in runs:
        if run.spec is not None and run.problem is None:
            groups.setdefault(identity(run.spec), []).append(run)
    changed: dict[int, RunFolder | None] = {}
    for group in groups.values():
        if len(group) < 2 or not any(run.packed for run in group):
            continue
        group.sort(key=lambda run: (run.state != "done", run.packed is not None, run.path))
        done = [run for run in group if run.state == "done"]
        changed |= {id(run): None for run in group}
        conflict = _conflict(done)
        if conflict is None:
            changed[id(group[0])] = replace(group[0], also=tuple(run.path for run in group[1:]))
            continue
        for run in done:
            # a result of an earlier version may agree with two that differ from each other
            pair = next(((run, other) for other in done if not same_findings(other, run)), conflict)
            problem = (
                f"{pair[0].path} and {pair[1].path} are the same run and have different results; move one of them away, so "
                "that the other counts"
            )
            changed[id(run)] = replace(run, state="damaged", problem=problem)
    final = (changed.get(id(run), run) for run in runs)
    return [run for run in final if run is not None]


def same_findings(one: RunFolder, other: RunFolder) -> bool:
    """Whether two finished trainings of one run came to the same result. Times and machines may differ, and a field that
    only one of them has, as where another version wrote it, is not compared."""
    return _conflict([one, other]) is None


def _conflict(runs: list[RunFolder]) -> tuple[RunFolder, RunFolder] | None:
    """The first two of several trainings of one run that came to different results; None where all agree."""
    first: dict[str, RunFolder] = {}
    for run in runs:
        for name, value in ({"score": None} | (run.result or {})).items():
            before = first.setdefault(name, run)
            if name not in ACCIDENTAL and (before.result or {}).get(name) != value:
                return before, run
    return None


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
