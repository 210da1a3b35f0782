"""Pathfinder-32 (1805.08315, as LRA uses it), drawn by our own generator: do the two dots mark the ends of one contour?

Two long dashed contours grow from seeds near the middle and keep clear of each other; short contours are scattered
between them. One dot marks the first dash of a long contour, the other the last dash: of the same contour for label 1,
of the other one for label 0. A picture is a function of (key, number); pictures 2n and 2n+1 have one label each."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Float, Int, UInt8

from manyheads.spec.errors import UserError, optional
from manyheads.spec.files import replace
from manyheads.spec.generated import Scene

from ..randomness import Indices, bits, uniforms
from ..randomness import key as keyed
from .contours import Contours, Pen, Points, Which, distance, maps

VERSION = 1  # of the pictures that a key gives; sets of another version are not read
CHUNK = 1024  # pictures that grow together
PLACES = 16  # that are tried at once for a short contour
TRIALS = 1024  # to grow two long contours; 8 are usual
ROUNDS = 6  # trials of each short contour


GREY, WHITE = 200, 255  # of dashes and of dots
THICK = 0.6  # half of a dash's thickness, in pixels


def pen_of(scene: Scene) -> Pen:
    """The pen that draws the contours of a scene."""
    return Pen(scene.side, scene.dash, scene.gap, float(np.deg2rad(scene.turn)), scene.clearance)


def draw(
    key: int, numbers: Indices, scene: Scene
) -> tuple[UInt8[np.ndarray, "pictures rows columns"], Int[np.ndarray, " pictures"]]:
    """The pictures with these numbers, and their labels."""
    parts = [_chunk(key, numbers[start : start + CHUNK], scene) for start in range(0, len(numbers), CHUNK)]
    return np.concatenate([pictures for pictures, _ in parts]), np.concatenate([labels for _, labels in parts])


def _chunk(
    key: int, numbers: Indices, scene: Scene
) -> tuple[UInt8[np.ndarray, "pictures rows columns"], Int[np.ndarray, " pictures"]]:
    count = len(numbers)
    draws = bits(keyed(key, "label"), numbers // 2, 1)[:, 0]
    labels = (draws & np.uint64(1)).astype(np.int64) ^ (numbers & 1)
    origin = (bits(keyed(key, "origin"), numbers, 1)[:, 0] & np.uint64(1)).astype(np.int64)
    ends = np.stack((origin, np.where(labels == 1, origin, 1 - origin)), 1)  # contours of the two dots
    dashes, dots = np.empty((count, 2, scene.contour, 2), complex), np.empty((count, 2), complex)
    left, trial = np.arange(count), 0
    while len(left):
        if trial > TRIALS:
            raise UserError(
                f"{scene} has too little room: two contours did not fit in {TRIALS:,} trials; write a larger "
                "side or a shorter contour"
            )
        width = max(1, min(64, CHUNK // len(left)))  # trials of a picture made at once; does not change the result
        rows, trials = np.repeat(left, width), np.tile(np.arange(trial, trial + width), len(left))
        grown = _long(key, rows, numbers[rows] * np.int64(1 << 20) + trials, scene)
        at = np.arange(len(grown.row))
        marks = np.stack((grown.dashes[at, ends[grown.row, 0], 0, 0], grown.dashes[at, ends[grown.row, 1], -1, 1]), 1)
        fine = np.flatnonzero(_apart(grown.dashes, marks, ends[grown.row], scene))
        done, first = np.unique(grown.row[fine], return_index=True)
        dashes[done], dots[done] = grown.dashes[fine[first]], marks[fine[first]]
        left, trial = np.setdiff1d(left, done), trial + width
    short, drawn = _short(key, numbers, dashes, dots, scene)
    return _picture(np.concatenate((dashes.reshape(count, -1, 2), short), 1), drawn, dots, scene), labels


def _long(key: int, rows: Indices, numbers: Indices, scene: Scene) -> Contours:
    """The two long contours of each number, for the numbers whose contours reached their full length."""
    pen = pen_of(scene)
    draws = uniforms(keyed(key, "seeds"), numbers, 5)
    away, *heading = np.exp(2j * np.pi * draws[:, 2:]).T
    middle = (scene.side - 1) / 2 * (1 + 1j) + 4 * (draws[:, 0] - 0.5) + 4j * (draws[:, 1] - 0.5)
    dashes = np.zeros((len(numbers), 2, scene.contour, 2), complex)
    dashes[:, :, 0, 0] = np.stack((middle - scene.apart / 2 * away, middle + scene.apart / 2 * away), 1)
    dashes[:, :, 0, 1] = dashes[:, :, 0, 0] + pen.dash * np.stack(heading, 1)
    grown = Contours(rows, numbers, dashes, np.stack(heading, 1), maps(pen, 2, len(numbers)))
    for kind in (0, 1):
        grown.take(kind, 0, other=1 - kind)
    grown = grown.only(grown.fits(0, 0) & grown.fits(1, 0))
    for at in range(1, scene.contour):
        for kind in (0, 1):
            grown = grown.only(grown.extend(key, kind, at))
            grown.take(kind, at, other=1 - kind)
            grown.take(kind, at - 1, other=kind)
    return grown


def _apart(dashes: Points, dots: Points, ends: Int[np.ndarray, "pictures 2"], scene: Scene) -> Which:
    """Whether both dots keep clear of all dashes but those that they mark."""
    near = distance(dots[:, :, None, None], dashes[:, None, ..., 0], dashes[:, None, ..., 1])
    own = np.arange(2) == ends[:, :, None]  # picture, dot, contour
    place = np.arange(scene.contour)
    close = np.stack((place < 3, place >= scene.contour - 3))  # the dashes next to a first, to a last dash
    other = ~(own[..., None] & close[:, None])
    return np.where(other, near, np.inf).min((1, 2, 3)) >= scene.clearance + 1


def _short(
    key: int, numbers: Indices, dashes: Points, dots: Points, scene: Scene
) -> tuple[Points, Bool[np.ndarray, "pictures dashes"]]:
    """Short contours where there is room, and which of their dashes exist."""
    pen, count = pen_of(scene), len(numbers)
    room = maps(pen, 1, count)
    every = np.arange(count)
    for dash in range(2 * scene.contour):
        ends = dashes.reshape(count, -1, 2)[:, dash]
        room.stamp(0, every, ends[:, 0], ends[:, 1])
    for dot in (0, 1):
        for step in (pen.dash / 2, 1j * pen.dash / 2):
            room.stamp(0, every, dots[:, dot] - step, dots[:, dot] + step)
    short = np.zeros((count, scene.distractors, scene.distractor, 2), complex)
    counts = np.zeros(count, np.int64)
    for trial in range(ROUNDS * scene.distractors):
        rows = np.flatnonzero(counts < scene.distractors)
        draws = uniforms(keyed(key, "place", trial), numbers[rows], 3 * PLACES).reshape(-1, PLACES, 3)
        start = (draws[..., 0] + 1j * draws[..., 1]) * (scene.side - 1)
        heading = np.exp(2j * np.pi * draws[..., 2])
        end = start + pen.dash * heading
        good = room.clear(0, rows, start, end)
        rows, best = rows[good.any(1)], (np.flatnonzero(good.any(1)), good.argmax(1)[good.any(1)])
        first = np.zeros((len(rows), 1, scene.distractor, 2), complex)
        first[:, 0, 0, 0], first[:, 0, 0, 1] = start[best], end[best]
        grown = Contours(rows, numbers[rows], first, heading[best][:, None], room, rows)
        for at in range(1, scene.distractor):
            grown = grown.only(grown.extend(keyed(key, "short", trial), 0, at))
        short[grown.row, counts[grown.row]] = grown.dashes[:, 0]
        counts[grown.row] += 1
        for at in range(scene.distractor):
            grown.take(0, at, other=0)
    drawn = np.repeat(np.arange(scene.distractors) < counts[:, None], scene.distractor, axis=1)
    return short.reshape(count, -1, 2), drawn


def _picture(
    dashes: Points, short: Bool[np.ndarray, "pictures dashes"], dots: Points, scene: Scene
) -> UInt8[np.ndarray, "pictures rows columns"]:
    """Dashes in grey and dots in white, with soft edges one pixel wide."""
    rim = int(np.ceil(scene.marker + scene.dash + 2))
    canvas = np.zeros((len(dashes), scene.side + 2 * rim, scene.side + 2 * rim))
    always = dashes.shape[1] - short.shape[1]
    for dash in range(dashes.shape[1]):
        rows = np.arange(len(dashes)) if dash < always else np.flatnonzero(short[:, dash - always])
        _ink(canvas, rows, dashes[rows, dash] + rim * (1 + 1j), THICK, GREY)
    for dot in (0, 1):
        _ink(canvas, np.arange(len(dashes)), dots[:, [dot, dot]] + rim * (1 + 1j), scene.marker, WHITE)
    return np.rint(canvas[:, rim:-rim, rim:-rim]).astype(np.uint8)


def _ink(canvas: Float[np.ndarray, "pictures y x"], rows: Indices, line: Points, radius: float, shade: int) -> None:
    """Draw a line with round ends into some of the pictures; where lines cross, the brighter one is visible."""
    start, end = line[:, 0, None, None], line[:, 1, None, None]
    reach = int(np.ceil(radius + 1 + np.abs(end - start).max(initial=0) / 2))
    axis = np.arange(-reach, reach + 1)
    middle = np.rint((start + end) / 2)
    light = shade * np.clip(radius + 0.5 - distance(middle + axis + 1j * axis[:, None], start, end), 0, 1)
    here = (rows[:, None, None], middle.imag.astype(np.int64) + axis[:, None], middle.real.astype(np.int64) + axis)
    canvas[here] = np.maximum(canvas[here], light)


FRAME = (60, 150)  # greys of the frames around pictures of label 0 and of label 1


def sheet(
    pictures: UInt8[np.ndarray, "pictures rows columns"], labels: Indices, columns: int = 12, scale: int = 4
) -> UInt8[np.ndarray, "rows columns"]:
    """Pictures side by side in rows of `columns`, each pixel `scale` wide, in a frame that is brighter for label 1."""
    count, height, width = pictures.shape
    rows = -(-count // columns)
    page = np.zeros((rows, columns, height + 2, width + 2), np.uint8)
    flat = page.reshape(-1, height + 2, width + 2)
    flat[:count] = np.array(FRAME, np.uint8)[(labels == 1).astype(int)][:, None, None]
    flat[:count, 1:-1, 1:-1] = pictures
    image = page.swapaxes(1, 2).reshape(rows * (height + 2), columns * (width + 2))
    return image.repeat(scale, axis=0).repeat(scale, axis=1)


def save_sheet(file: Path, pictures: UInt8[np.ndarray, "pictures rows columns"], labels: Indices) -> None:
    """Write a sheet of pictures as a PNG file."""
    image = optional("PIL.Image", "pillow", "writing a picture")
    page = BytesIO()
    image.fromarray(sheet(pictures, labels)).save(page, format="PNG")
    replace(file, page.getvalue())
