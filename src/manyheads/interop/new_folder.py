"""A folder that appears whole or not at all."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from glob import escape
from pathlib import Path
from socket import gethostname

from manyheads.spec.errors import UserError
from manyheads.spec.files import sync_folder, unwritten


def refuse_existing(out: Path) -> None:
    """Refuse a folder that holds something, and a file."""
    if out.is_dir() and not any(out.iterdir()):
        return
    if out.exists() or out.is_symlink():
        raise UserError(f"{out} exists; write a new folder, or delete that one")


@contextmanager
def new_folder(out: Path) -> Iterator[Path]:
    """A folder beside `out` to write to, which takes the name `out` when the block ends without an error. After an
    error it is removed, as are those that processes left behind which were killed."""
    refuse_existing(out)
    place = out.parent / f".{out.name}.{gethostname()}-{os.getpid()}.partial"
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        _remove_stale(out)
        place.mkdir()
    except OSError as error:
        raise unwritten(out, error) from error
    try:
        yield place
        sync_folder(place)
        os.rename(place, out)
        sync_folder(out.parent)
    except BaseException as error:
        shutil.rmtree(place, ignore_errors=True)
        if isinstance(error, OSError):
            raise unwritten(out, error) from error
        raise


def _remove_stale(out: Path) -> None:
    for folder in out.parent.glob(f".{escape(out.name)}.*.partial"):
        host, _, number = folder.name.removesuffix(".partial").removeprefix(f".{out.name}.").rpartition("-")
        if host == gethostname() and number.isdigit() and not _alive(int(number)):
            shutil.rmtree(folder, ignore_errors=True)


def _alive(process: int) -> bool:
    """Whether another process has this number."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return process != os.getpid()
