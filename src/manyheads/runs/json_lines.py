"""A file of JSON lines: one record a line, appended, and cut back on resume. A last line that a kill has left
incomplete is ignored, and removed before the next write."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any

from manyheads.spec.errors import UserError
from manyheads.spec.files import line, open_file, sync_folder, unwritten, write_all
from manyheads.spec.json_text import parse

BLOCK = 1 << 16
LONGEST = 1 << 26  # bytes of a line; a longer one was never written


class JsonLines:
    """One file of JSON lines. Each record goes to the kernel at once, so a killed process loses none; `flush` puts them
    on the disk. Equal records give equal bytes; NaN and infinity are written as null."""

    def __init__(self, path: Path, writing: Callable[[], AbstractContextManager[None]]) -> None:
        self.path = path
        self._writing = writing  # entered for every write: it has the lock and refuses a finished run
        self._file: int | None = None
        self._named = False  # whether the folder's entry for the file is on the disk

    def append(self, record: Mapping[str, Any]) -> None:
        """Add one record. On a full disk the file stays as it was."""
        data = line(record, self.path.name)
        with self._writing():
            file = self._open()
            before = os.fstat(file).st_size
            try:
                write_all(file, data)
            except BaseException as error:  # a full disk, or an interrupt between two parts of the line
                with suppress(OSError):
                    os.ftruncate(file, before)
                self.close()  # when it is opened again, it is cut back to complete lines
                if isinstance(error, OSError):
                    raise unwritten(self.path, error) from error
                raise

    def flush(self) -> None:
        """Put all records on the disk, so that a power cut loses none of them."""
        with self._writing():
            if self._file is None and not os.path.exists(self.path):
                return
            try:
                os.fsync(self._open())
                if not self._named:
                    sync_folder(self.path.parent)
                    self._named = True
            except OSError as error:
                raise unwritten(self.path, error) from error

    def size(self) -> int:
        """Bytes of complete lines; `cut` to this size returns to this moment."""
        try:
            file = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)  # a pipe has no bytes
        except FileNotFoundError:
            return 0
        except OSError as error:
            raise UserError(f"{self.path} cannot be read: {error.strerror or error}") from error
        try:
            return _whole(file)
        finally:
            os.close(file)

    def cut(self, size: int) -> None:
        """Drop everything after the first `size` bytes."""
        with self._writing():
            if size == 0 and not os.path.exists(self.path):
                return
            file = self._open()
            whole = os.fstat(file).st_size
            if not 0 <= size <= whole:
                raise UserError(
                    f"{self.path} is damaged: it has {whole} bytes of whole lines where {size} were written"
                )
            if size and os.pread(file, 1, size - 1) != b"\n":
                raise UserError(f"{self.path} is damaged: no line ends at byte {size}, where one was written")
            try:
                os.ftruncate(file, size)
                os.fsync(file)
            except OSError as error:
                raise unwritten(self.path, error) from error

    def read(self) -> list[dict[str, Any]]:
        """All records. An incomplete last line is not one."""
        records: list[dict[str, Any]] = []
        try:
            with open_file(self.path) as file:
                while (text := file.readline(LONGEST)).endswith(b"\n"):
                    records.append(self._record(text, len(records) + 1))
        except FileNotFoundError:
            return []
        except OSError as error:
            raise UserError(f"{self.path} cannot be read: {error.strerror or error}") from error
        if len(text) == LONGEST:
            raise UserError(f"{self.path} is damaged: line {len(records) + 1} does not end")
        return records

    def _record(self, text: bytes, number: int) -> dict[str, Any]:
        try:
            record = parse(text)
        except ValueError:
            record = None
        if not isinstance(record, dict):
            raise UserError(f"{self.path} is damaged: line {number} is not a JSON object")
        return record

    def _open(self) -> int:
        if self._file is None:
            try:
                flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
                file = os.open(self.path, flags, 0o666)
                try:
                    os.ftruncate(file, _whole(file))  # an incomplete line must not become the start of the next one
                except OSError:
                    os.close(file)
                    raise
            except OSError as error:
                raise unwritten(self.path, error) from error
            self._file = file
        return self._file

    def close(self) -> None:
        """Close the file; the next write opens it again."""
        file, self._file = self._file, None
        if file is not None:
            os.close(file)


def _whole(file: int) -> int:
    """Bytes of a file up to the end of its last complete line."""
    end = os.fstat(file).st_size
    while end:
        start = max(0, end - BLOCK)
        last = os.pread(file, end - start, start).rfind(b"\n")
        if last >= 0:
            return start + last + 1
        end = start
    return 0
