"""`Run`: a run folder that one process creates, locks, writes and finishes, and that anybody may read."""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from manyheads.spec.errors import UserError
from manyheads.spec.files import PARTIAL, SCHEMA, dump, plain, replace, sync_folder, unwritten
from manyheads.spec.lock import PATIENCE, Busy, Lock
from manyheads.spec.run import RunSpec, differences

from .folder import LOCK, RESULT, SPEC, STATUS, WORK, read_result, read_spec, read_status, state
from .json_lines import JsonLines

STATES = ("running", "stopped", "failed")  # what `write_status` takes; new and done follow from the files
STAMPED = ("schema", "updated")


class Run:
    """One run folder, from `Run.create` or `Run.open`. Every write takes the lock, unless it is inside `locked`."""

    def __init__(self, path: Path, spec: RunSpec, id: str) -> None:
        self.path, self.spec, self.id = path, spec, id
        self.metrics = JsonLines(path / "metrics.jsonl", self._writing)
        self.spectra = JsonLines(path / "spectra.jsonl", self._writing)
        self.timings = JsonLines(path / "timings.jsonl", self._writing)
        self.lines = (self.metrics, self.spectra, self.timings)
        self.checkpoints, self.model = path / "checkpoint", path / "model"
        self._lock = Lock(path / LOCK)
        self._threads = threading.RLock()

    @classmethod
    def create(cls, path: Path | str, spec: RunSpec) -> Run:
        """Create the folder, or open it where it already holds this run. Of two processes one creates it and the other
        opens it."""
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
            except Busy:  # another process is creating the run; the loop looks at what it has written
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
            with run.locked():  # it failed before its first step, and this may be the corrected specification
                _write_spec(path, spec)
                (path / STATUS).unlink(missing_ok=True)
            run = cls.open(path)
        if run.spec.id != spec.id:
            changes = list(differences(run.spec.to_dict() | {"label": {}}, spec.to_dict() | {"label": {}}))
            more = f" and {len(changes) - 2} more" if len(changes) > 2 else ""
            raise UserError(f"{path} holds another run: {'; '.join(changes[:2])}{more}; give a new folder")
        return run

    @classmethod
    def open(cls, path: Path | str) -> Run:
        """Open a run folder to read it or to continue the run. A damaged or foreign folder is refused with the
        reason."""
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
        """What `write_status` wrote last; None where it is missing or damaged."""
        return read_status(self.path)

    @property
    def result(self) -> dict[str, Any] | None:
        """What `finish` wrote; None before that."""
        return read_result(self.path, self.id)

    @contextmanager
    def locked(self) -> Iterator[Run]:
        """Lock the folder. A second process is refused with the name of the first; a kill releases the lock, too."""
        self._lock.take()
        try:
            for name in (SPEC, STATUS, RESULT):  # left by a write that was killed
                with suppress(OSError):
                    (self.path / (name + PARTIAL)).unlink(missing_ok=True)
            yield self
        finally:
            for lines in self.lines:
                lines.close()
            self._lock.release()

    def write_status(
        self, *, state: str, step: int | None = None, total: int | None = None, message: str = "", **more: Any
    ) -> None:
        """Replace status.json by these values, the schema and the time; earlier values are dropped."""
        if state not in STATES:
            raise UserError(f"state {state!r} is not one of {', '.join(STATES)}; `finish` writes done")
        self._status({"state": state, "step": step, "total": total, "message": message} | more)

    def finish(self, result: Mapping[str, Any]) -> None:
        """Write result.json, the last file: its presence means done, and nothing is written afterwards."""
        values = plain(result, RESULT, gaps=True)
        with self._writing():
            for lines in self.lines:
                lines.flush()
            self._status((self.status or {}) | {"state": "done", "message": ""})
            replace(self.path / RESULT, dump({"schema": SCHEMA, "id": self.id, "result": values}, sort=True))

    def drop_checkpoints(self) -> None:
        """Delete the checkpoints of a finished run, which nothing reads any more. Whoever looks at the run to train it
        calls this, because the process that finished it may have been killed before it did."""
        if self.result is not None:
            shutil.rmtree(self.checkpoints, ignore_errors=True)

    def _status(self, values: dict[str, Any]) -> None:
        values = {name: value for name, value in plain(values, STATUS, gaps=True).items() if name not in STAMPED}
        stamps = {"schema": SCHEMA, "updated": datetime.now(UTC).isoformat(timespec="seconds")}
        with self._writing():
            replace(self.path / STATUS, dump(stamps | values))

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
    """Refuse a folder that holds anything but hidden files and what a killed `create` leaves."""
    own = (LOCK, SPEC, SPEC + PARTIAL)
    try:
        others = sorted(name for name in os.listdir(path) if name not in own and not name.startswith("."))
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror or error}") from error
    if others and not os.path.exists(path / SPEC):  # it may have been written since
        raise UserError(f"{path} holds {others[0]} and no {SPEC}, so it is no run or a damaged one; give a new folder")
