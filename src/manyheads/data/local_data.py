"""Where datasets are on this machine, and what to do about a missing one."""

from __future__ import annotations

import os
from pathlib import Path
from typing import IO

from manyheads.spec.errors import UserError

VARIABLE = "MANYHEADS_DATA"
PIECE = 1 << 20  # bytes that are inflated at a time


def data_root(root: Path | str | None = None) -> Path:
    """The folder that holds datasets: `root`, else $MANYHEADS_DATA, else ~/.cache/manyheads."""
    folder = root or os.environ.get(VARIABLE)
    return Path(os.path.expanduser(folder)) if folder else Path.home() / ".cache" / "manyheads"


def read_at_most(file: IO[bytes], size: int) -> bytes:
    """The rest of an open file, or its first `size` + 1 bytes where it is longer: a small compressed file may hold
    anything."""
    pieces, left = [], size + 1
    while left > 0 and (piece := file.read(min(left, PIECE))):
        pieces.append(piece)
        left -= len(piece)
    return b"".join(pieces)


def first_found(root: Path, places: tuple[str, ...], what: str, source: str) -> Path:
    """The first of `places` below `root` that exists. If none does, the error says where to get `what` and where to put
    it."""
    for place in places:
        if (root / place).exists():
            return root / place
    raise UserError(
        f"{what} is not at {root / places[0]}; get it from {source} and put it there, or name the folder that "
        f"holds {places[0]} with {VARIABLE}=FOLDER"
    )
