"""One process at a time: `flock` on a file. The kernel releases the lock when its process ends, however it ends.

The file stays after the lock is released; its text only names the holder in messages. A lock file alone locks
nothing."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import socket
import time
from contextlib import suppress
from pathlib import Path
from weakref import WeakSet

from .errors import UserError
from .files import read_bytes, unwritten

PATIENCE = 1.0  # seconds; `held` takes the lock for some microseconds
_LOCKS: WeakSet[Lock] = WeakSet()


class Busy(UserError):
    """Another process holds the lock."""


class Lock:
    """A lock on a file. It belongs to the process that took it: a forked process neither has it nor keeps it alive."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: int | None = None

    @property
    def mine(self) -> bool:
        """Whether this object holds the lock."""
        return self._file is not None

    def take(self, patience: float = PATIENCE) -> None:
        """Take the lock. Refuses, naming the process that has it, when it is not free within `patience` seconds."""
        deadline = time.monotonic() + patience
        while (file := self._try()) is None:
            if time.monotonic() > deadline:
                raise Busy(f"{self.path.parent} is in use by {holder(self.path)}; wait until it ends, or end it")
            time.sleep(0.01)
        self._file = file
        _LOCKS.add(self)
        with suppress(OSError):  # the lock is held, with or without the text
            os.ftruncate(file, 0)
            os.pwrite(file, json.dumps({"pid": os.getpid(), "host": socket.gethostname()}).encode(), 0)

    def _try(self) -> int | None:
        try:
            file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
        except OSError as error:
            raise unwritten(self.path, error) from error
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(file)
            if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
                return None
            raise UserError(
                f"{self.path} cannot be locked: {error.strerror or error}; use a file system that has locks"
            ) from error
        if not _same(file, self.path):  # deleted between opening and locking: this lock is on nothing
            os.close(file)
            return None
        return file

    def check(self) -> None:
        """Refuse to continue when the file was deleted or replaced: another process may hold the new one."""
        if self._file is not None and not _same(self._file, self.path):
            raise UserError(
                f"{self.path} was deleted or moved while this process held it, and another process may "
                "have the folder; start again when none has"
            )

    def release(self) -> None:
        """Release the lock."""
        file, self._file = self._file, None
        _LOCKS.discard(self)
        if file is not None:
            os.close(file)


def held(path: Path | str) -> bool:
    """Whether a living process holds the lock. Writes nothing, so it works in a folder that may only be read."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)  # it may be a pipe
    except OSError:
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno in (errno.EWOULDBLOCK, errno.EACCES)
    finally:
        os.close(file)
    return False


def holder(path: Path) -> str:
    """The process that took the lock last, in words."""
    try:
        record = json.loads(read_bytes(path))
        return f"process {int(record['pid'])} on {record['host']}"
    except (OSError, OverflowError, ValueError, TypeError, KeyError):
        return "another process"


def _same(file: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file), os.stat(path))
    except OSError:
        return False


def _forget() -> None:
    # A forked worker that outlives a killed trainer would keep the lock through its copy of the open file.
    for lock in list(_LOCKS):
        lock.release()


os.register_at_fork(after_in_child=_forget)
