"""Where a run stands, from what is in its folder alone."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from manyheads.spec.errors import UserError
from manyheads.spec.files import read_object, upgrade
from manyheads.spec.lock import held
from manyheads.spec.run import RunSpec

SPEC, STATUS, RESULT, LOCK = "spec.json", "status.json", "result.json", "lock"
WORK = ("metrics.jsonl", "spectra.jsonl", "timings.jsonl", "checkpoint", "model")  # begun, once one of them is there


class Foreign(UserError):
    """The folder holds something, and manyheads did not write it, or a later version of it did."""


def read_spec(folder: Path) -> tuple[RunSpec, str]:
    """The specification of a run folder and its id as it was written."""
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
    """The status, None where it is missing or damaged: it is a convenience, and the next write mends it."""
    try:
        data = read_object(folder / STATUS)
        return None if data is None else upgrade(STATUS, data)
    except UserError:
        return None


def read_result(folder: Path, id: str) -> dict[str, Any] | None:
    """The result, None where there is none. One that cannot be read, or is another run's, is refused: whether the run
    is done would be a guess."""
    again = "; delete it and train again, which goes on from the last checkpoint"
    data = read_object(folder / RESULT, again)
    if data is None:
        return None
    kept = upgrade(str(folder / RESULT), data)
    if not isinstance(kept.get("result"), dict):
        raise UserError(f"{folder / RESULT} is damaged: it has no `result`{again}")
    if kept.get("id") != id:
        raise UserError(f"{folder / RESULT} belongs to run {kept.get('id')!r}, and this one is {id!r}{again}")
    result: dict[str, Any] = kept["result"]
    return result


def state(folder: Path, status: dict[str, Any] | None, result: dict[str, Any] | None) -> str:
    """new, running, stopped, failed or done. A result means done; a lock held by a living process means running; and a
    status that says running without one means that the process was killed: stopped."""
    if result is not None:
        return "done"
    if held(folder / LOCK):
        return "running"
    if status is not None:
        return "failed" if status.get("state") == "failed" else "stopped"
    begun = any(os.path.lexists(folder / name) for name in (STATUS, *WORK))
    return "stopped" if begun else "new"
