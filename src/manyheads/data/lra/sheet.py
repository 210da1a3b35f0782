"""Many small pictures on one sheet, as a PNG file, for people to look at what a model is asked."""

from __future__ import annotations

import struct
import zlib

import numpy as np
from jaxtyping import UInt8

from .sequences import Indices

FRAME = (60, 150)  # greys around pictures of label 0 and of label 1


def sheet(
    pictures: UInt8[np.ndarray, "pictures rows columns"], labels: Indices, columns: int = 12, scale: int = 4
) -> bytes:
    """Pictures in rows of `columns`, each pixel `scale` wide, in a frame that is brighter for label 1."""
    count, height, width = pictures.shape
    rows = -(-count // columns)
    page = np.zeros((rows, columns, height + 2, width + 2), np.uint8)
    flat = page.reshape(-1, height + 2, width + 2)
    flat[:count] = np.array(FRAME, np.uint8)[(labels == 1).astype(int)][:, None, None]
    flat[:count, 1:-1, 1:-1] = pictures
    image = page.swapaxes(1, 2).reshape(rows * (height + 2), columns * (width + 2))
    return png(image.repeat(scale, axis=0).repeat(scale, axis=1))


def png(image: UInt8[np.ndarray, "rows columns"]) -> bytes:
    """A grey picture as a PNG file: header, compressed rows, end."""
    height, width = image.shape
    lines = np.concatenate((np.zeros((height, 1), np.uint8), image), axis=1)  # a byte before each row: not filtered
    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)  # 8 bits of grey
    return (
        b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", head) + _chunk(b"IDAT", zlib.compress(lines.tobytes())) + _chunk(b"IEND")
    )


def _chunk(name: bytes, body: bytes = b"") -> bytes:
    return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))
