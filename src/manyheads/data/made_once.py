"""Folders that are made from other files once and then reused: one process makes them, the others wait."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path

from manyheads.spec.errors import UserError
from manyheads.spec.files import PARTIAL, unwritten
from manyheads.spec.lock import Busy, Lock

OWN = "own"  # the folder below the data root for what was made from a user's files
LOOK = 0.2  # seconds between two looks at a lock


def made_once(folder: Path, make: Callable[[Path], None], what: str) -> Path:
    """`folder`, which `make` fills where it does not exist yet. It appears in one step when it is complete: after an
    error or a kill it is not there, and the next call starts anew."""
    if folder.is_dir():
        return folder
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise unwritten(folder.parent, error) from error
    lock, said = Lock(folder.with_name(f".{folder.name}.lock")), False
    while True:
        try:
            lock.take()
            break
        except Busy:
            if not said:
                print(f"another process makes {what}; waiting until it is done", file=sys.stderr)
                said = True
            time.sleep(LOOK)
    partial = folder.with_name(folder.name + PARTIAL)
    try:
        if not folder.is_dir():
            shutil.rmtree(partial, ignore_errors=True)
            partial.mkdir()
            make(partial)
            partial.rename(folder)
    except OSError as error:
        shutil.rmtree(partial, ignore_errors=True)
        raise unwritten(folder, error) from error
    except UserError:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    finally:
        lock.release()
    return folder
