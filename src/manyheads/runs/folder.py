"""Run folders as they lie on the disk: the names in one, how it is read, and its state; and `RunFolder`, through which
lists, reports and sweeps read a run, whether it is in a folder or in a pack.

Nothing here writes."""

from __future__ import annotations

import os
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from manyheads.spec.errors import UserError
from manyheads.spec.files import read_object, upgrade
from manyheads.spec.lock import held
from manyheads.spec.run import RunSpec

from .json_lines import JsonLines
from .pack_lines import SUFFIX

SPEC, STATUS, RESULT, LOCK = "spec.json", "status.json", "result.json", "lock"
WORK = ("metrics.jsonl", "spectra.jsonl", "timings.jsonl", "checkpoint", "model")  # a run has begun once it has one
TRACES = frozenset({LOCK, STATUS, RESULT, *(name for name in WORK if name.endswith(".jsonl"))})


class Foreign(UserError):
    """The folder holds a spec.json that manyheads did not write, or that a newer version wrote."""


def read_spec(folder: Path) -> tuple[RunSpec, str]:
    """The specification of a run folder, and its id as written there."""
    if (pack := pack_of(folder)) is not None:
        raise UserError(f"{pack} is a pack: it has the numbers of runs, and no folders, models or checkpoints")
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
class PackLine:
    """Where a run is in a pack, and what the pack holds of it: `spec`, `status`, `result`, its thinned `metrics`,
    `spectra` and `timings`, and the `experiment` that was written beside it, where one was."""

    file: Path
    line: int
    content: dict[str, Any] = field(repr=False)


@dataclass(frozen=True)
class RunFolder:
    """What is known of a run in a folder or in a pack. `state` is as in `Run.state`, or damaged or foreign; then
    `problem` says why.

    A run in a pack is `packed`, and its `path` is a name alone: that of the pack and then that of the run in it. `also`
    are other places that hold the same run."""

    path: Path
    state: str
    spec: RunSpec | None = None
    status: dict[str, Any] | None = None
    result: dict[str, Any] | None = None
    problem: str | None = None
    packed: PackLine | None = None
    also: tuple[Path, ...] = ()

    @property
    def place(self) -> Path:
        """What lies on the disk: the folder, or the pack."""
        return self.packed.file if self.packed is not None else self.path

    def records(self, name: Literal["metrics", "spectra", "timings"]) -> list[dict[str, Any]]:
        """The records of one of the run's files of JSON lines."""
        if self.packed is not None:
            return list(self.packed.content[name])
        # opening the whole run would check its folder again, which takes longer
        return JsonLines(self.path / f"{name}.jsonl", nullcontext).read()


def identity(spec: RunSpec) -> tuple[str, ...]:
    """What tells a run from all others in a list: its id, and what it is for. The same run may belong to several
    experiments."""
    return (spec.id, *(str(spec.label.get(name, "")) for name in ("experiment", "scale", "basis", "arm")))


def pack_of(path: Path) -> Path | None:
    """The pack that a path leads into; None where it leads into none."""
    return next((part for part in (path, *path.parents) if part.name.endswith(SUFFIX) and part.is_file()), None)
