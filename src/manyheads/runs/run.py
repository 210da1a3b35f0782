"""A run folder: made, locked, written and finished by the one process that trains; read by everybody."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from manyheads.spec.errors import UserError
from manyheads.spec.files import PARTIAL, SCHEMA, dump, replace, sync_folder, unwritten
from manyheads.spec.lock import PATIENCE, Busy, Lock
from manyheads.spec.run import RunSpec, differences
from manyheads.spec.values import plain

from .lines import Lines
from .state import LOCK, RESULT, SPEC, STATUS, WORK, read_result, read_spec, read_status, state

STATES = ("running", "stopped", "failed")  # what a writer may say; new and done follow from what is there
STAMPED = ("schema", "updated")


class Run:
    """One run folder. `Run.create` and `Run.open` make it; every write takes the lock, or is inside `locked`."""

    def __init__(self, path: Path, spec: RunSpec, id: str) -> None:
        self.path, self.spec, self.id = path, spec, id
        self.metrics = Lines(path / "metrics.jsonl", self._writing)
        self.spectra = Lines(path / "spectra.jsonl", self._writing)
        self.timings = Lines(path / "timings.jsonl", self._writing)
        self.checkpoints, self.model = path / "checkpoint", path / "model"
        self._lock = Lock(path / LOCK)
        self._threads = threading.RLock()

    @classmethod
    def create(cls, path: Path | str, spec: RunSpec) -> Run:
        """Make the folder, or open it where it holds this very run. Of two processes one makes it, the other opens
        it."""
        path = Path(path)
        try:
            path.mkdir(parents=True, exist_ok=True)
        except FileExistsError:
            raise UserError(f"{path} is a file; give the folder of a run, or a new one") from None
        except OSError as error:
            raise unwritten(path, error) from error
        deadline = time.monotonic() + 10 * PATIENCE
        while not os.path.exists(path / SPEC):
            _refuse_foreign(path)
            lock = Lock(path / LOCK)
            try:
                lock.take()
            except Busy:  # another process is making the run; what it has written is looked at
                if time.monotonic() > deadline and not os.path.exists(path / SPEC):
                    raise
                continue
            try:
                if not os.path.exists(path / SPEC):
                    _write_spec(path, spec)
                    sync_folder(path.parent)
            finally:
                lock.release()
        run = cls.open(path)
        if run.spec.id != spec.id and run.state == "failed" and not any(os.path.lexists(path / name) for name in WORK):
            with run.locked():  # it failed before its first step; what is given now is perhaps that mistake corrected
                _write_spec(path, spec)
                (path / STATUS).unlink(missing_ok=True)
            run = cls.open(path)
        if run.spec.id != spec.id:
            found = list(differences(run.spec.to_dict() | {"label": {}}, spec.to_dict() | {"label": {}}))
            more = f" and {len(found) - 2} more" if len(found) > 2 else ""
            raise UserError(f"{path} holds another run: {'; '.join(found[:2])}{more}; give a new folder")
        return run

    @classmethod
    def open(cls, path: Path | str) -> Run:
        """Open a run folder to read it, or to go on with it. A damaged or foreign one is refused, saying what is
        wrong."""
        path = Path(path)
        spec, id = read_spec(path)
        read_result(path, id)
        return cls(path, spec, id)

    @property
    def state(self) -> str:
        """new, running (a living process holds the lock), stopped, failed or done."""
        return state(self.path, self.status, self.result)

    @property
    def status(self) -> dict[str, Any] | None:
        """What `write_status` wrote last; None where there is nothing, or nothing readable."""
        return read_status(self.path)

    @property
    def result(self) -> dict[str, Any] | None:
        """What `finish` wrote, None before."""
        return read_result(self.path, self.id)

    @contextmanager
    def locked(self) -> Iterator[Run]:
        """Have the folder alone; a second process is refused with the name of the first. A kill lets go, too."""
        self._lock.take()
        try:
            for name in (SPEC, STATUS, RESULT):  # what a kill left half written
                with suppress(OSError):
                    (self.path / (name + PARTIAL)).unlink(missing_ok=True)
            yield self
        finally:
            for lines in (self.metrics, self.spectra, self.timings):
                lines.close()
            self._lock.release()

    def write_status(
        self, *, state: str, step: int | None = None, total: int | None = None, message: str = "", **more: Any
    ) -> None:
        """Replace status.json by these values, the schema and the time; what is not given is not kept."""
        if state not in STATES:
            raise UserError(f"state {state!r} is not one of {', '.join(STATES)}; `finish` writes done")
        self._status({"state": state, "step": step, "total": total, "message": message} | more)

    def finish(self, result: Mapping[str, Any]) -> None:
        """Write result.json, last of all: its presence means done, and nothing is written afterwards."""
        kept = plain(result, RESULT, gaps=True)
        with self._writing():
            for lines in (self.metrics, self.spectra, self.timings):
                lines.flush()
            self._status((self.status or {}) | {"state": "done", "message": ""})
            replace(self.path / RESULT, dump({"schema": SCHEMA, "id": self.id, "result": kept}, sort=True))

    def _status(self, values: dict[str, Any]) -> None:
        given = {name: value for name, value in plain(values, STATUS, gaps=True).items() if name not in STAMPED}
        stamps = {"schema": SCHEMA, "updated": datetime.now(UTC).isoformat(timespec="seconds")}
        with self._writing():
            replace(self.path / STATUS, dump(stamps | given))

    @contextmanager
    def _writing(self) -> Iterator[None]:
        with self._threads:
            if not self._lock.mine:
                with self.locked(), self._writing():
                    yield
                return
            self._lock.check()
            if os.path.exists(self.path / RESULT):
                raise UserError(f"{self.path} is finished, and a finished run is never rewritten; give a new folder")
            yield


def _write_spec(path: Path, spec: RunSpec) -> None:
    data = spec.to_dict()
    replace(path / SPEC, dump({"schema": data.pop("schema"), "id": spec.id} | data))


def _refuse_foreign(path: Path) -> None:
    """A folder becomes a run only when it is empty but for hidden files and what a killed `create` leaves."""
    own = (LOCK, SPEC, SPEC + PARTIAL)
    try:
        others = sorted(name for name in os.listdir(path) if name not in own and not name.startswith("."))
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror or error}") from error
    if others and not os.path.exists(path / SPEC):  # it may have been written since
        raise UserError(f"{path} holds {others[0]} and no {SPEC}, so it is no run or a damaged one; give a new folder")
