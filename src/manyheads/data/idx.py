"""The IDX format of MNIST and its kin: a big-endian header, then bytes; read plain, from gzip or from xz."""

from __future__ import annotations

import gzip
import lzma
import struct
import zlib
from collections.abc import Callable
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import UInt8

from manyheads.spec.errors import UserError

OPENERS: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".xz": lzma.open}
UNSIGNED_BYTE = 8


def read_idx(path: Path, ndim: int) -> UInt8[np.ndarray, " ..."]:
    """The array of unsigned bytes with `ndim` dimensions that the file holds."""
    try:
        with OPENERS.get(path.suffix, open)(path, "rb") as file:
            data = file.read()
    except (OSError, EOFError, lzma.LZMAError, zlib.error) as error:
        raise UserError(f"{path} cannot be read ({error}); put a fresh copy in its place") from None
    header = 4 * (ndim + 1)
    if len(data) < header or data[:4] != bytes([0, 0, UNSIGNED_BYTE, ndim]):
        raise UserError(
            f"{path} is no IDX file of unsigned bytes with {ndim} dimensions; put the official file in its place"
        )
    shape = struct.unpack(f">{ndim}I", data[4:header])
    if len(data) != header + prod(shape):
        size = " x ".join(map(str, shape))
        raise UserError(
            f"{path} holds {len(data) - header:,} bytes after its header, which promises {size}; it was cut "
            "short or changed: put a fresh copy in its place"
        )
    return np.frombuffer(data, np.uint8, offset=header).reshape(shape)


def idx_bytes(array: UInt8[np.ndarray, " ..."]) -> bytes:
    """An array of unsigned bytes as an IDX file."""
    return struct.pack(f">4B{array.ndim}I", 0, 0, UNSIGNED_BYTE, array.ndim, *array.shape) + array.tobytes()
