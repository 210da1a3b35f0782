"""Numbers the paper states in its text and beside its tables, each checked against exact counts."""

from __future__ import annotations

from dataclasses import dataclass

from manyheads.arch import zoo
from manyheads.arch.count import params
from manyheads.arch.redesign import redesign

from .audit import likely
from .rows import BY_ID, GLUE, PAIRS, ROWS


@dataclass(frozen=True)
class Statement:
    """One printed number, what the counts give, and whether they agree."""

    id: str
    where: str
    printed: str
    counted: str
    holds: bool
    reason: str = ""


def reduction(pair: str) -> float:
    """Share of parameters that the lean model of a pair saves, by the likely readings."""
    return 1 - likely(BY_ID[f"{pair}/lean"]).params / likely(BY_ID[f"{pair}/original"]).params


def statements() -> tuple[Statement, ...]:
    """All statements: percentages, GLUE means, the range of savings, the sweep of section 4.1.1."""
    return (*_percentages(), *_glue(), _range(), _sweep())


def _percentages() -> list[Statement]:
    lines = []
    for row in ROWS:
        if not row.change:
            continue
        pair = row.id.split("/")[0]
        counted = -100 * reduction(pair)
        if row.table == 3:  # the repository's own model, convolution included, as stated
            original, lean = (BY_ID[f"{pair}/{role}"] for role in ("original", "lean"))
            counted = -100 * (
                1
                - params(redesign(lean.model.make(128), depth=1, heads=4)).total
                / params(original.model.make(128)).total
            )
        printed = 0.0 if row.change == "same" else float(row.change.rstrip("%"))
        holds, why = round(counted) == printed, ""
        if not holds:
            figures = [BY_ID[f"{pair}/{role}"].params for role in ("original", "lean")]
            counts = [float(figure) for figure in figures if figure is not None]
            holds = row.table != 3 and len(counts) == 2 and round(100 * (counts[1] / counts[0] - 1)) == printed
            why = "from the printed counts" if holds else "not what the stated layers and heads give"
        lines.append(Statement(f"{row.id} parameters", f"Table {row.table}", row.change, f"{counted:.1f}%", holds, why))
    for pair, printed in (("crammed_bert", -25), ("gpt2", -24)):
        before, after = BY_ID[f"{pair}/original"].memory, BY_ID[f"{pair}/lean"].memory
        assert before is not None
        assert after is not None
        counted = 100 * (after / before - 1)
        lines.append(
            Statement(
                f"{pair}/lean memory",
                f"Table {BY_ID[f'{pair}/lean'].table}",
                f"{printed}%",
                f"{counted:.1f}%",
                round(counted) == printed,
                "from the two printed figures",
            )
        )
    return lines


def _glue() -> list[Statement]:
    lines = []
    for role in ("original", "lean"):
        scores = BY_ID[f"crammed_bert/{role}"].scores
        mean = sum(scores[task] for task in GLUE[:-1]) / (len(GLUE) - 1)
        lines.append(
            Statement(
                f"crammed_bert/{role} GLUE mean",
                "Table 1",
                str(scores["GLUE"]),
                f"{mean:.2f}",
                abs(mean - scores["GLUE"]) <= 0.05,
                "mean of 8 scores; the code it follows averages 9",
            )
        )
    return lines


def _range() -> Statement:
    saved = {pair: reduction(pair) for pair in PAIRS if BY_ID[f"{pair}/lean"].table >= 4}
    low, high = min(saved, key=lambda p: saved[p]), max(saved, key=lambda p: saved[p])
    counted = f"{100 * saved[low]:.1f} % ({low}) to {100 * saved[high]:.1f} % ({high})"
    return Statement(
        "vision reductions",
        "abstract, section 4.1",
        "up to 30-50 %",
        counted,
        saved[high] < 0.505,
        "the largest saving is larger, the smallest smaller",
    )


def _sweep() -> Statement:
    base = zoo.get("vit_b")
    counts = [params(redesign(base, depth=8, heads=h)).total / 1e6 for h in (14, 16, 18)]
    counted = f"{counts[0]:.2f}-{counts[-1]:.2f} M"
    return Statement(
        "8 layers, 14-18 heads",
        "section 4.1.1",
        "61.2-67.4 M",
        counted,
        abs(counts[0] - 61.2) < 0.05 and abs(counts[-1] - 67.4) < 0.05,
        "0.2-0.3 M more at head_dim 64; no single omission gives both ends",
    )
