"""The paper audited: what each row prints, what its stated configuration gives, which readings reproduce it.

Every verdict is computed from exact counts; none is written down. Memory: the printed figure over 8 GPUs, less the
closed form of float32 training with attention maps kept, leaves an overhead (context, workspaces, allocator). On the
rows that agree otherwise it is 1.8 to 4.6 GB, so a reading `fits` between `OVERHEAD`; that band was chosen after seeing
the figures, and is evidence, not proof.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from manyheads.arch.count import params, training_bytes

from .readings import Reading, agrees, matching, readings
from .rows import PAIRS, ROWS, Row

OVERHEAD = (1.5, 5.0)  # GB a GPU
NEAR = 0.02


@dataclass(frozen=True)
class Audited:
    """One row and what came of it."""

    row: Row
    stated: tuple[Reading, ...]
    matches: tuple[Reading, ...]
    likely: Reading
    verdict: str
    reason: str


@dataclass(frozen=True)
class Memory:
    """One row's memory: printed GB over 8 GPUs, the closed form at `images` a GPU, and what is left over."""

    row: Row
    reading: Reading
    images: int
    printed: float
    counted: float
    fits: bool
    note: str

    @property
    def overhead(self) -> float:
        """GB a GPU that the closed form does not explain."""
        return self.printed - self.counted


def audit() -> tuple[Audited, ...]:
    """All rows of Tables 1-5."""
    return tuple(_audited(row) for row in ROWS)


@cache
def likely(row: Row) -> Reading:
    """The reading to believe: as stated if that prints the figure; else one that does and whose memory fits; else the
    stated one if it is near and its memory fits; else the first that prints the figure, or the stated one. A reading
    with other layers or heads than the row states (Table 3) is listed, never believed."""
    found, stated = matching(row), as_stated(row)
    if row.table == 3:
        found = tuple(r for r in found if not r.changes)
    near = [r for r in stated if row.figure is not None and abs(r.params / _value(row) - 1) <= NEAR]
    for group in (
        [r for r in found if not r.changes],
        [r for r in found if row.memory and row.table > 3 and _fits(row, r)],
        [r for r in near if row.memory and row.table > 3 and _fits(row, r)],
        found,
        stated,
    ):
        if group:
            return group[0]
    raise AssertionError(row.id)


def as_stated(row: Row) -> tuple[Reading, ...]:
    """The readings that change nothing about the row: head_dim is all that is left open."""
    return tuple(r for r in readings(row.id) if not r.changes)


def _value(row: Row) -> float:
    assert row.figure is not None
    return float(row.figure) * (1e6 if row.unit == "M" else 1e3)


def show(count: int, unit: str) -> str:
    """A count in the row's unit, one decimal more than the paper gives."""
    return f"{count / 1e6:.2f} M" if unit == "M" else f"{count / 1e3:.2f} k"


def _audited(row: Row) -> Audited:
    found, stated, best = matching(row), as_stated(row), likely(row)
    if row.figure is None:
        return Audited(
            row,
            stated,
            found,
            best,
            "illegible",
            f"{row.note}; the repository's model has {show(best.params, row.unit)}",
        )
    if best in found and not best.changes:
        how = agrees(best.params, row.figure, row.unit)
        policy = {"split": ", heads split: inner stays", "fixed": ", head_dim kept: inner grows"}.get(best.policy, "")
        shorter = f"; truncated, it rounds to {round(best.params / 1e6)}" if how == "truncates" else ""
        return Audited(row, stated, found, best, "match", f"as stated{policy}{shorter}")
    options = " or ".join(dict.fromkeys(show(r.params, row.unit) for r in stated))
    if row.change == "same":
        lost = params(readings(row.id.replace("/lean", "/original"))[0].arch).total - stated[0].params
        return Audited(
            row,
            stated,
            found,
            best,
            "mismatch",
            f"(2,2) to (1,4) removes {lost:,} parameters: it cannot be the same; {_needs(found)}",
        )
    if not found:
        miss = min(abs(r.params / _value(row) - 1) for r in stated)
        return Audited(
            row, stated, found, best, "mismatch", f"stated gives {options}, {miss:.2%} off; no reading prints it"
        )
    if not best.changes and row.table > 3:
        return Audited(
            row,
            stated,
            found,
            best,
            "mismatch",
            f"stated gives {options}; the figure needs {_needs(found)}, which the memory column contradicts",
        )
    return Audited(row, stated, found, best, "mismatch", f"stated gives {options}; the figure needs {_needs(found)}")


def _needs(found: tuple[Reading, ...]) -> str:
    if not found:
        return "no reading prints it"
    return " or ".join(dict.fromkeys(f"{' and '.join(r.changes)} ({r.policy})" for r in found[:3]))


def _fits(row: Row, reading: Reading, images: int | None = None) -> bool:
    assert row.memory is not None
    counted: float = training_bytes(reading.arch, images or row.model.images_per_gpu) / 1e9
    return OVERHEAD[0] <= row.memory / 8 - counted <= OVERHEAD[1]


def memory() -> tuple[Memory, ...]:
    """The memory column of Tables 4 and 5: the likely reading at the stated batch, and, where that does not fit, what
    does."""
    found = []
    for row in ROWS:
        if row.table < 4 or row.memory is None:
            continue
        best, images = likely(row), row.model.images_per_gpu
        found.append(_memory(row, best, images, "" if _fits(row, best) else "does not fit"))
        if _fits(row, best):
            continue
        if _fits(row, best, images // 2):
            found.append(_memory(row, best, images // 2, f"fits at {images // 2} images a GPU, not {images}"))
            continue
        others = [other for other in as_stated(row) if _fits(row, other)]
        names = " or ".join(f"{r.label} ({r.policy}, {show(r.params, row.unit)})" for r in others)
        found += [_memory(row, other, images, f"fits other models: {names}") for other in others[:1]]
    return tuple(found)


def _memory(row: Row, reading: Reading, images: int, note: str) -> Memory:
    assert row.memory is not None
    counted = training_bytes(reading.arch, images) / 1e9
    return Memory(row, reading, images, row.memory / 8, counted, _fits(row, reading, images), note)


def policies() -> dict[str, str]:
    """Pair -> what its likely reading did to the heads, for the 13 redesigned vision and language models."""
    lean = {row.id.split("/")[0]: row for row in ROWS if row.role == "lean" and row.table != 3}
    return {pair: likely(lean[pair]).policy for pair in PAIRS if pair in lean}
