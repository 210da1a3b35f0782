"""Files that a kill, a power cut or a full disk leaves whole, the old content or the new, never a mixture; and the JSON
values in them: checked on the way in, written the same way every time, never NaN."""

from __future__ import annotations

import errno
import json
import os
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from math import isfinite
from pathlib import Path
from typing import Any, BinaryIO

from .errors import UserError
from .json_text import parse

SCHEMA = 1  # of the run folder: spec.json, status.json and result.json carry it, the JSON lines follow spec.json
PARTIAL = ".partial"
LARGEST = 2**28  # bytes of a file that is read whole
NAMED = ("/dev/", "/proc/")  # folders of pipes that somebody names on purpose, such as /dev/stdin
# how a new file is opened: a link in its place, which may lead to any file of the user, is not followed
CREATE = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
# schema -> a function of a file's name and content that gives the next schema; an older file passes through them in
# order
UPGRADERS: dict[int, Callable[[str, dict[str, Any]], dict[str, Any]]] = {}


def unwritten(path: Path, error: OSError) -> UserError:
    """The sentence for a write that failed."""
    full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
    hint = "; what was written before is intact, make room and start again" if full else ""
    return UserError(f"{path} cannot be written: {error.strerror or error}{hint}")


def open_file(path: Path | str) -> BinaryIO:
    """Open a file to read it. A pipe or a device in its place is an `OSError`: whoever waits for it or reads it may do so
    for ever, and run folders come from other people. Only one that is named below /dev or /proc is opened."""
    named = str(path).startswith(NAMED)
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | (0 if named else os.O_NONBLOCK))
    try:
        mode = os.fstat(file).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        if not named and not stat.S_ISREG(mode):
            raise OSError(errno.EINVAL, "a pipe or a device is in its place", str(path))
        return os.fdopen(file, "rb")
    except BaseException:
        os.close(file)
        raise


def read_bytes(path: Path | str) -> bytes:
    """The content of a file that `open_file` opens. More than `LARGEST` bytes are an `OSError`."""
    with open_file(path) as file:
        data = file.read(LARGEST + 1)
    if len(data) > LARGEST:
        raise OSError(errno.EFBIG, f"it has more than {LARGEST >> 20} MiB, which none of these files needs", str(path))
    return data


def write_all(file: int, data: bytes) -> None:
    """Write all of `data`: the kernel may take a part of it, for one when the disk is nearly full."""
    view = memoryview(data)
    while view:
        view = view[os.write(file, view) :]


@contextmanager
def writing(path: Path, *, shared: bool = False) -> Iterator[Path]:
    """A partial file to write to. When the block ends without an error, the partial file takes the place of `path` in
    one step and is on the disk; after an error it is removed. It has the mode of any new file, also where the block puts
    another file in its place, as safetensors does.

    One writer at a time, unless all writers say `shared`: each process then writes a partial file of its own."""
    _check_place(path)
    partial = path.with_name(path.name + (f".{os.getpid()}" if shared else "") + PARTIAL)
    try:
        file = os.open(partial, CREATE, 0o666)
        mode = os.fstat(file).st_mode
        os.close(file)
        yield partial
        file = os.open(partial, os.O_RDONLY | os.O_CLOEXEC)
        try:
            if os.fstat(file).st_mode != mode:
                os.fchmod(file, stat.S_IMODE(mode))
            os.fsync(file)
        finally:
            os.close(file)
        os.replace(partial, path)
        sync_folder(path.parent)
    except BaseException as error:
        with suppress(OSError):
            partial.unlink()
        if isinstance(error, OSError):
            raise unwritten(path, error) from error
        raise


def _check_place(path: Path) -> None:
    """Refuse what no file can take the place of. A device would be replaced, too: root could lose /dev/null."""
    if not path.name:
        raise UserError(f"{path} is a folder; write the name of a file")
    with suppress(OSError):  # there is nothing yet
        mode = os.stat(path).st_mode
        if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
            raise UserError(f"{path} is a device or a pipe, and a file would take its place; write the name of a file")


def replace(path: Path, data: bytes) -> None:
    """Put `data` in the place of the file in one step, on the disk when this returns. One writer at a time."""
    with writing(path) as partial:
        file = os.open(partial, CREATE, 0o666)
        try:
            write_all(file, data)
        finally:
            os.close(file)


def sync_folder(folder: Path) -> None:
    """Put the names in a folder on the disk: a new file is lost in a power cut until its name is there."""
    try:
        file = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(file)
        finally:
            os.close(file)
    except OSError as error:
        # network file systems that do it by themselves; a parent in which one may make folders and not list them
        if error.errno not in (errno.EINVAL, errno.ENOTSUP, errno.EACCES):
            raise unwritten(folder, error) from error


def dump(value: dict[str, Any], *, sort: bool = False) -> bytes:
    """A JSON object as a file that people read, too."""
    return json.dumps(value, indent=1, sort_keys=sort, allow_nan=False).encode() + b"\n"


def read_object(path: Path, hint: str = "") -> dict[str, Any] | None:
    """The JSON object in a file, None where there is no file; damage is a sentence that ends with `hint`."""
    try:
        data = parse(read_bytes(path))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror or error}") from error
    except ValueError as error:
        raise UserError(f"{path} is damaged: it is not JSON ({error}){hint}") from None
    if not isinstance(data, dict):
        raise UserError(f"{path} is damaged: it is no JSON object{hint}")
    return data


def upgrade(name: str, data: dict[str, Any]) -> dict[str, Any]:
    """The content of the file `name` in this version's schema; an unknown schema is refused."""
    schema = data.get("schema")
    if type(schema) is not int or not 1 <= schema <= SCHEMA:
        raise UserError(
            f"{name} has schema {schema!r}, and this version reads 1 to {SCHEMA}; a newer manyheads wrote it?"
        )
    while schema < SCHEMA:
        data = UPGRADERS[schema](name, data)
        schema += 1
    return data


# --------------------------------------------------------------------------------------------------------- JSON values
def plain(value: Any, where: str, *, gaps: bool) -> Any:
    """A copy of `value` made of JSON values alone. A number that JSON does not have (NaN, infinity) becomes null where
    `gaps` are allowed, as in a measurement, and is refused where they are not, as in a specification."""
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, float):
        if isfinite(value):
            return value
        if gaps:
            return None
        raise UserError(f"{where} is {value}, which JSON does not have; write a finite number or null")
    if isinstance(value, Mapping):
        for name in value:
            if not isinstance(name, str):
                raise UserError(
                    f"{where} has the key {name!r}; the keys of a JSON object are strings, write {str(name)!r}"
                )
        return {name: plain(item, f"{where}.{name}", gaps=gaps) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item, f"{where}[{i}]", gaps=gaps) for i, item in enumerate(value)]
    kind = type(value).__name__
    raise UserError(f"{where} is a {kind}, which JSON does not have; write text, a number, a list or an object")


def line(record: Any, where: str) -> bytes:
    """One JSON line: keys sorted and floats in their shortest exact form, so that equal records are equal bytes."""
    if not isinstance(record, Mapping):
        raise UserError(f"{where} was given a {type(record).__name__}; a record is an object with named values")
    return json.dumps(plain(record, where, gaps=True), sort_keys=True, allow_nan=False).encode() + b"\n"


def canonical(value: Any) -> str:
    """The one text of a JSON value, to be hashed: keys sorted, no spaces, and 1.0 as 1, since JSON has one kind of
    number and a tool that rewrites a file may change the spelling."""
    return json.dumps(_whole(value), sort_keys=True, separators=(",", ":"), allow_nan=False)


def _whole(value: Any) -> Any:
    if isinstance(value, float):
        return int(value) if value.is_integer() else value
    if isinstance(value, dict):
        return {name: _whole(item) for name, item in value.items()}
    return [_whole(item) for item in value] if isinstance(value, list) else value
