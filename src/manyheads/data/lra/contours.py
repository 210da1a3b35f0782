"""Dashed contours that keep clear of one another, grown in many pictures at once. Points are complex numbers, x + iy.

Each contour of a picture has a map with two cells a pixel that marks where its next dash must not lie: outside the
picture, near another contour, or near itself except for its last dash. A dash is tried in several directions, and one
that leaves room for another dash is preferred. A picture in which no dash fits is given up."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from jaxtyping import Bool, Complex, Float, Int, UInt64

from ..randomness import Indices, bits
from ..randomness import key as keyed

CELLS = 2  # for each pixel, in both directions
MARGIN = 1.5  # pixels of the picture's edge that stay empty
DIRECTIONS = 48  # that stamps exist for, over half a turn
TURNS = 256  # a random byte chooses one


# Number of random turns that are tried first; turns of last resort, as shares of the largest turn.
FIRST, LAST = 4, np.array([0.6, -0.6, 0.8, -0.8, 1.0, -1.0])
FAN = np.array([0.0, -0.5, 0.5, -1.0, 1.0])  # turns in which room for the next dash is looked for
ONE = np.uint64(1)
Points = Complex[np.ndarray, "pictures ..."]
Which = Bool[np.ndarray, " pictures"]


@dataclass(frozen=True)
class Pen:
    """The sizes of contours in pixels; the largest turn between dashes in radians."""

    side: int
    dash: float
    gap: float
    turn: float
    clearance: float


@dataclass
class Maps:
    """The blocked cells: for each kind of contour a map of every picture, one bit for each cell in words of 64 bits,
    with a rim that is as wide as a stamp."""

    pen: Pen
    blocked: list[UInt64[np.ndarray, "pictures rows words"]]

    def free(self, kind: int, pictures: Indices, at: Points) -> Bool[np.ndarray, "pictures ..."]:
        """Whether there is room at each of the points in the given pictures."""
        blocked, rim = self.blocked[kind], _stamps(self.pen)[1]
        _, rows, words = blocked.shape
        row = (at.imag * CELLS + (rim + 0.5)).astype(np.int64).clip(0, rows - 1)
        column = (at.real * CELLS + (rim + 0.5)).astype(np.int64).clip(0, words * 64 - 1)
        row += (pictures * rows).reshape(-1, *(1,) * (at.ndim - 1))
        word = blocked.reshape(-1)[row * words + (column >> 6)]
        return (word >> (column & 63).astype(np.uint64)) & ONE == 0

    def clear(self, kind: int, pictures: Indices, start: Points, end: Points) -> Bool[np.ndarray, "pictures ..."]:
        """Whether there is room for whole dashes."""
        ends = self.free(kind, pictures, start) & self.free(kind, pictures, end)
        return ends & self.free(kind, pictures, (start + end) / 2)

    def stamp(self, kind: int, pictures: Indices, start: Points, end: Points) -> None:
        """Block the cells around one dash in each of the given pictures."""
        stamps, rim = _stamps(self.pen)
        shape = stamps[np.rint(np.angle(end - start) / np.pi * DIRECTIONS).astype(np.int64) % DIRECTIONS]
        corner = (start + end) / 2 * CELLS + (
            0.5 + 0.5j
        )  # of the stamp in the map: the rim moves it from the middle to the corner
        rows = corner.imag.astype(np.int64)[:, None] + np.arange(2 * rim + 1)
        column = corner.real.astype(np.int64)[:, None]
        shift = (column & 63).astype(np.uint64)
        blocked = self.blocked[kind]
        blocked[pictures[:, None], rows, column >> 6] |= shape << shift
        blocked[pictures[:, None], rows, (column >> 6) + 1] |= (shape >> ONE) >> (np.uint64(63) - shift)

    def only(self, which: Which) -> Maps:
        """The maps of some pictures."""
        return Maps(self.pen, [blocked[which] for blocked in self.blocked])


@lru_cache(maxsize=8)
def _stamps(pen: Pen) -> tuple[UInt64[np.ndarray, "directions rows"], int]:
    """For each direction, the cells closer than the clearance to a dash at the origin; and how far they reach."""
    rim = int(np.ceil((pen.dash / 2 + pen.clearance) * CELLS))
    axis = np.arange(-rim, rim + 1) / CELLS
    half = pen.dash / 2 * np.exp(1j * np.pi * np.arange(DIRECTIONS) / DIRECTIONS)[:, None, None]
    return _bits(distance(axis + 1j * axis[:, None], -half, half) < pen.clearance)[..., 0], rim


def _bits(cells: Bool[np.ndarray, "... cells"]) -> UInt64[np.ndarray, "... words"]:
    """Cells as words of 64 bits, the first cell in the lowest bit."""
    words = -(-cells.shape[-1] // 64)
    padded = np.zeros((*cells.shape[:-1], words * 64), np.uint64)
    padded[..., : cells.shape[-1]] = cells
    weighed = padded.reshape(*cells.shape[:-1], words, 64) << np.arange(64, dtype=np.uint64)
    return np.bitwise_or.reduce(weighed, axis=-1)


def maps(pen: Pen, kinds: int, pictures: int) -> Maps:
    """Maps in which only the cells outside of the pictures are blocked."""
    rim = _stamps(pen)[1]
    rows = pen.side * CELLS + 2 * rim
    axis = (np.arange(rows + 64) - rim) / CELLS  # with one extra word: a stamp writes two
    outside = (axis < MARGIN) | (axis > pen.side - 1 - MARGIN)
    edge = _bits(outside[:rows, None] | outside)
    return Maps(pen, [np.repeat(edge[None], pictures, axis=0) for _ in range(kinds)])


def distance(points: Points, start: Points, end: Points) -> Float[np.ndarray, "pictures ..."]:
    """The distances from points to dashes."""
    along, offset = end - start, points - start
    length = np.maximum((along * along.conj()).real, 1e-9)
    share = np.clip((offset * along.conj()).real / length, 0, 1)
    return np.abs(offset - share * along)


@lru_cache(maxsize=8)
def _turns(pen: Pen) -> Complex[np.ndarray, " turns"]:
    """Equally likely turns as rotations, up to the largest turn; small turns are denser, with density cos^2."""
    grid = np.linspace(-1, 1, 1025)
    reached = (grid + np.sin(np.pi * grid) / np.pi + 1) / 2
    return np.exp(1j * pen.turn * np.interp((np.arange(TURNS) + 0.5) / TURNS, reached, grid))


@dataclass
class Contours:
    """The contours of each picture, as far as they have grown. `dashes[:, kind, i]` is the start and end of dash i and
    `heading` the direction of the last dash. `number` decides the random draws; `row` is for the caller to identify a
    picture."""

    row: Indices
    number: Indices
    dashes: Complex[np.ndarray, "pictures kinds dashes 2"]
    heading: Complex[np.ndarray, "pictures kinds"]
    maps: Maps
    map: Indices | None = None  # the map of each picture; None: map i is of picture i

    @property
    def pictures(self) -> Indices:
        """The number of each picture's map."""
        return np.arange(len(self.row)) if self.map is None else self.map

    def only(self, which: Which) -> Contours:
        """The contours of some pictures."""
        if which.all():
            return self
        shared = self.map is not None
        return Contours(
            self.row[which],
            self.number[which],
            self.dashes[which],
            self.heading[which],
            self.maps if shared else self.maps.only(which),
            self.pictures[which] if shared else None,
        )

    def fits(self, kind: int, at: int) -> Which:
        """Whether there is room for a dash that was placed without looking."""
        return self.maps.clear(kind, self.pictures, self.dashes[:, kind, at, 0], self.dashes[:, kind, at, 1])

    def take(self, kind: int, at: int, other: int) -> None:
        """Block the cells around a dash for contour `other`."""
        self.maps.stamp(other, self.pictures, self.dashes[:, kind, at, 0], self.dashes[:, kind, at, 1])

    def extend(self, key: int, kind: int, at: int) -> Which:
        """Add dash `at` to one contour of each picture; says in which pictures there was room."""
        pen = self.maps.pen
        drawn = bits(keyed(key, "turn", kind, at), self.number, 1).view(np.uint8)
        sides = np.exp(1j * pen.turn * np.stack((LAST, -LAST)))[drawn[:, -1] & 1]
        headings = self.heading[:, kind, None] * np.concatenate((_turns(pen)[drawn[:, :-1]], sides), 1)
        tips = self.dashes[:, kind, at - 1, 1] + pen.gap / 2 * self.heading[:, kind]
        rank = np.zeros(len(tips), np.int64)  # 1: the dash fits; 2: another one after it fits too
        for tried in (slice(0, FIRST), slice(FIRST, None)):
            rows = np.flatnonzero(rank < 2)
            heading = headings[rows, tried]
            start = tips[rows, None] + pen.gap / 2 * heading
            end = start + pen.dash * heading
            good = self._room(rows, kind, start, end, heading)
            choice = good.argmax(1)
            ranks = good[np.arange(len(rows)), choice]
            better = np.flatnonzero(ranks > rank[rows])
            best, rows = (better, choice[better]), rows[better]
            rank[rows], self.heading[rows, kind] = ranks[better], heading[best]
            self.dashes[rows, kind, at, 0], self.dashes[rows, kind, at, 1] = start[best], end[best]
        return rank > 0

    def _room(
        self, rows: Indices, kind: int, start: Points, end: Points, heading: Points
    ) -> Int[np.ndarray, "rows tried"]:
        """0 where a dash does not fit, 1 where it fits, 2 where there is also room for the next one."""
        pen, pictures = self.maps.pen, self.pictures[rows]
        fits = self.maps.clear(kind, pictures, start, end)
        fan = heading[..., None] * np.exp(1j * pen.turn * FAN)
        after = (end + pen.gap / 2 * heading)[..., None] + pen.gap / 2 * fan
        room = self.maps.clear(kind, pictures, after, after + pen.dash * fan).any(-1)
        return fits.astype(np.int64) + (fits & room)
