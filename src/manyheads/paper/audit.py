"""The audit: what each row of the paper prints, what its stated configuration gives, which readings reproduce it.

Every verdict is computed from exact counts. Memory: a row prints the memory of 8 GPUs. An eighth of it, less the closed
form of float32 training with attention maps kept, is an overhead (context, workspaces, allocator). On the rows whose
counts agree the overhead is 1.8 to 4.6 GB, so a reading `fits` if its overhead lies between `OVERHEAD`. That band was
chosen after seeing the figures: it is evidence, not proof.
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
    """One row, its readings, and the verdict on it."""

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
    """The most likely reading: the stated configuration if its count prints as the figure; else a reading that prints
    it and whose memory fits; else the stated configuration if its count is near and its memory fits; else the first
    that prints the figure, or the stated one. A reading with other layers or heads than the row states (Table 3) is
    listed and never taken as likely."""
    matches, stated = matching(row), as_stated(row)
    if row.table == 3:
        matches = tuple(r for r in matches if not r.changes)
    near = [r for r in stated if row.figure is not None and abs(r.params / _value(row) - 1) <= NEAR]
    for group in (
        [r for r in matches if not r.changes],
        [r for r in matches if row.memory and row.table > 3 and _fits(row, r)],
        [r for r in near if row.memory and row.table > 3 and _fits(row, r)],
        matches,
        stated,
    ):
        if group:
            return group[0]
    raise AssertionError(row.id)


def as_stated(row: Row) -> tuple[Reading, ...]:
    """The readings that change nothing about the row: only head_dim, which no row states, differs between them."""
    return tuple(r for r in readings(row.id) if not r.changes)


def _value(row: Row) -> float:
    assert row.figure is not None
    return float(row.figure) * (1e6 if row.unit == "M" else 1e3)


def show(count: int, unit: str) -> str:
    """A count in the row's unit, one decimal more than the paper gives."""
    return f"{count / 1e6:.2f} M" if unit == "M" else f"{count / 1e3:.2f} k"


def _audited(row: Row) -> Audited:
    verdict, reason = _verdict(row)
    return Audited(
        row=row, stated=as_stated(row), matches=matching(row), likely=likely(row), verdict=verdict, reason=reason
    )


def _verdict(row: Row) -> tuple[str, str]:
    """`match`, `mismatch` or `illegible`, and why."""
    matches, stated, best = matching(row), as_stated(row), likely(row)
    if row.figure is None:
        return "illegible", f"{row.note}; the repository's model has {show(best.params, row.unit)}"
    if best in matches and not best.changes:
        policy = {"split": ", heads split: inner stays", "fixed": ", head_dim kept: inner grows"}.get(best.policy, "")
        truncated = agrees(best.params, row.figure, row.unit) == "truncates"
        rounded = f"; truncated, it rounds to {round(best.params / 1e6)}" if truncated else ""
        return "match", f"as stated{policy}{rounded}"
    options = " or ".join(dict.fromkeys(show(r.params, row.unit) for r in stated))
    if row.change == "same":
        lost = params(readings(row.id.replace("/lean", "/original"))[0].arch).total - stated[0].params
        return ("mismatch", f"(2,2) to (1,4) removes {lost:,} parameters: it cannot be the same; {_needs(matches)}")
    if not matches:
        miss = min(abs(r.params / _value(row) - 1) for r in stated)
        return "mismatch", f"stated gives {options}, {miss:.2%} off; no reading prints it"
    contradicted = ", which the memory column contradicts" if not best.changes and row.table > 3 else ""
    return "mismatch", f"stated gives {options}; the figure needs {_needs(matches)}{contradicted}"


def _needs(matches: tuple[Reading, ...]) -> str:
    if not matches:
        return "no reading prints it"
    return " or ".join(dict.fromkeys(f"{' and '.join(r.changes)} ({r.policy})" for r in matches[:3]))


def _fits(row: Row, reading: Reading, images: int | None = None) -> bool:
    assert row.memory is not None
    counted: float = training_bytes(reading.arch, images or row.model.images_per_gpu) / 1e9
    return OVERHEAD[0] <= row.memory / 8 - counted <= OVERHEAD[1]


def memory() -> tuple[Memory, ...]:
    """The memory column of Tables 4 and 5: the likely reading at the stated batch and, where that does not fit, a batch
    or a reading that does."""
    lines = []
    for row in ROWS:
        if row.table < 4 or row.memory is None:
            continue
        best, images = likely(row), row.model.images_per_gpu
        lines.append(_memory(row, best, images, "" if _fits(row, best) else "does not fit"))
        if _fits(row, best):
            continue
        if _fits(row, best, images // 2):
            lines.append(_memory(row, best, images // 2, f"fits at {images // 2} images a GPU, not {images}"))
            continue
        others = [other for other in as_stated(row) if _fits(row, other)]
        names = " or ".join(f"{r.label} ({r.policy}, {show(r.params, row.unit)})" for r in others)
        lines += [_memory(row, other, images, f"fits other models: {names}") for other in others[:1]]
    return tuple(lines)


def _memory(row: Row, reading: Reading, images: int, note: str) -> Memory:
    assert row.memory is not None
    counted = training_bytes(reading.arch, images) / 1e9
    return Memory(
        row=row,
        reading=reading,
        images=images,
        printed=row.memory / 8,
        counted=counted,
        fits=_fits(row, reading, images),
        note=note,
    )


def policies() -> dict[str, str]:
    """Pair -> what its likely reading did to the heads, for the 13 redesigned vision and language models."""
    lean = {row.id.split("/")[0]: row for row in ROWS if row.role == "lean" and row.table != 3}
    return {pair: likely(lean[pair]).policy for pair in PAIRS if pair in lean}
