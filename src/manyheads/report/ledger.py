"""All claims over all experiments: how each came out and at which scale, every comparison behind it, and those that no
run here speaks of."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from manyheads.experiments.claims import CLAIMS
from manyheads.experiments.verdict import POINTS, signed
from manyheads.spec.experiment import SCALES, Experiment

from .gather import Section
from .judged import Judged, verdicts
from .measured import KIND, LARGEST
from .strip import strip
from .tables import Cell, Table

# what the papers print for a claim as a whole; a comparison has its own printed number
# fmt: off
PRINTED: dict[str, str] = {
    "L1": "(√inner + √tokens) / (√inner - √tokens)", "L4": "a curve without numbers", "L6": "61.2-67.4 M against 86.6 M",
    "L8": "80.1 % or more", "L9": "+0.0 to +0.4 points", "L10": "+0.0 to +0.5 points", "L11": "0.57-0.79 of the original",
    "L12": "78.6 and 78.6", "L13": "2.41 against 2.47", "L14": "+0.34, +0.87, +0.2, +1.0, +0.1 points", "A1": "error 0",
    "A2": "closed forms", "A3": ".015 to .87", "A4": ".695 to .307", "A5": "rows of 3 and 5 layers",
    "A8": "(1/π) atan((π/2) √(d/heads))", "M1": "never run", "M2": "never run", "M3": "never run", "M4": "never run",
}
# fmt: on
WORDS = {"holds": "yes", "does not hold": "no", "within noise": "noise", "not testable at this scale": "open"}
HERE = " at this scale"  # left out where the scale is named
COMPARED = ("verdict", "effect", "paper", "compared", "seeds", "held equal")
MEANING = {
    "verdict": "by the rule below the claims, with its scale, and how often where several comparisons came out so",
    "effect": "difference of the means over seeds, and its 95 % interval",
    "paper": "the same difference as printed; in brackets what is printed for the claim as a whole",
    "compared": "an arm, against which other, in which metric",
    "seeds": "finished",
    "held equal": "between the arms",
}


@dataclass(frozen=True)
class Entry:
    """One comparison that speaks of a claim, and the section it is in."""

    number: int
    section: Section
    item: Judged


def ledger(sections: Sequence[Section]) -> list[Entry]:
    """Every comparison that speaks of a claim, claim by claim, and the larger scale first."""
    order = list(CLAIMS)
    found = [
        Entry(number, section, item)
        for number, section in enumerate(sections)
        for item in verdicts(section)
        if item.pair.claim in CLAIMS
    ]
    return sorted(found, key=lambda entry: (order.index(entry.item.pair.claim), _rank(entry.section.scale)))


def _rank(scale: str) -> int:
    """The larger scale first; runs that have none last."""
    return -SCALES.index(scale) if scale in SCALES else 1


def claims_table(entries: Sequence[Entry]) -> Table:
    """The claims table: a row for each claim, with how its comparisons came out, scale by scale."""
    found: dict[str, list[Entry]] = {}
    for entry in entries:
        found.setdefault(entry.item.pair.claim, []).append(entry)
    rows = []
    for claim, mine in found.items():
        words = Counter(_word(entry.item, entry.section) for entry in mine)
        badges = [Cell(f"{word} x{count}" if count > 1 else word, kind=kind) for (word, kind), count in words.items()]
        where = {entry.section.full: f"#s{entry.number}" for entry in mine}
        rows.append(
            [
                Cell(claim, _claim_key(claim)),
                Cell(CLAIMS[claim], CLAIMS[claim]),
                Cell.of(badges),
                Cell(PRINTED.get(claim, "")),
                Cell.of([Cell(name, href=href) for name, href in where.items()]),
            ]
        )
    heads = ("claim", "what it says", "verdict", "paper", "experiments")
    return Table("Claims", heads, rows, words=True, cards=True, meaning=MEANING)


def evidence_table(entries: Sequence[Entry]) -> Table:
    """Every comparison behind the claims."""
    heads = ("claim", "what it says", *COMPARED[:4], "experiment", *COMPARED[4:], "why")
    rows = []
    for entry in entries:
        item, section = entry.item, entry.section
        where = Cell(section.full, section.full, href=f"#s{entry.number}")
        claim = [Cell(item.pair.claim, _claim_key(item.pair.claim)), Cell(item.claim, item.claim)]
        cells = compared(item, section)
        rows.append([*claim, *cells[:4], where, *cells[4:], Cell(item.verdict.reason)])
    return Table("Claims compared", heads, rows, words=True, meaning=MEANING)


def compared(item: Judged, section: Section) -> list[Cell]:
    """The cells of one comparison under `COMPARED`."""
    pair, found = item.pair, item.effect
    who = f"{pair.arm} against {pair.against}" + (f", {_metric(item.metric)}" if item.metric else "")
    word, kind = _word(item, section)
    printed = Cell(f"({PRINTED[pair.claim]})" if pair.claim in PRINTED else "")
    if pair.printed is not None:
        printed = Cell(signed(pair.printed, item.metric), _number(pair.printed, item.metric))
    return [
        Cell(word, kind=kind),
        _effect(item),
        printed,
        Cell(who),
        Cell("") if found is None else Cell(str(found.seeds), found.seeds),
        Cell(section.held),
    ]


def _word(item: Judged, section: Section) -> tuple[str, str]:
    """A verdict as a badge has it, with its scale, and the kind of badge."""
    word, scale = item.verdict.word, section.scale
    if scale == "smoke":
        return "smoke: claims nothing", "smoke"
    return f"{scale}: {word.removesuffix(HERE)}" if scale else word, WORDS[word]


def _effect(item: Judged) -> Cell:
    found = item.effect
    if found is None:
        return Cell("")
    low, high = (signed(end, item.metric).removesuffix(POINTS) for end in (found.low, found.high))
    text, number = signed(found.difference, item.metric), _number(found.difference, item.metric)
    if math.isfinite(found.low):
        ends = {"low": _number(found.low, item.metric), "high": _number(found.high, item.metric)}
        return Cell(f"{text} ({low} to {high})", number, ends, drawn=strip(item))
    return Cell(f"{text} (one seed)", number, drawn=strip(item))


def _number(effect: float, metric: str) -> float:
    """An effect as a number: of kappa the factor that is shown, and not its logarithm."""
    return math.exp(max(-LARGEST, min(LARGEST, effect))) if metric == KIND else effect


def _metric(metric: str) -> str:
    return "kappa" if metric == KIND else metric


def _claim_key(claim: str) -> str:
    """L9 before L10."""
    return f"{claim[0]}{int(claim[1:]):02d}"


def tally(entries: Sequence[Entry]) -> str:
    """How many comparisons came out how, scale by scale, in one line."""
    if not entries:
        return ""
    spoken = len({entry.item.pair.claim for entry in entries})
    parts = [f"{len(entries)} comparisons speak of {spoken} of {len(CLAIMS)} claims."]
    for scale in sorted({entry.section.scale for entry in entries}, key=_rank):
        words = [entry.item.verdict.word for entry in entries if entry.section.scale == scale]
        counts = ", ".join(f"{word.removesuffix(HERE)} {words.count(word)}" for word in WORDS if word in words)
        parts.append(
            f"At scale smoke, which claims nothing: {len(words)}."
            if scale == "smoke"
            else f"At scale {scale or 'unknown'}: {counts}."
        )
    return " ".join(parts)


def unspoken(entries: Sequence[Entry], experiments: Mapping[str, Experiment]) -> Table:
    """The claims that no run here speaks of, and what would."""
    spoken = {entry.item.pair.claim for entry in entries}
    rows = []
    for claim, text in CLAIMS.items():
        if claim in spoken:
            continue
        deciding = [experiment for experiment in experiments.values() if claim in experiment.claims]
        command = "; ".join(experiment.command(_scale(experiment)) for experiment in deciding)
        rows.append(
            [
                Cell(claim, _claim_key(claim)),
                Cell(text, text),
                Cell(PRINTED.get(claim, ""), PRINTED.get(claim, "")),
                Cell(command or "no experiment yet", command),
            ]
        )
    return Table("Claims without runs", ("claim", "what it says", "paper", "what would decide it"), rows, words=True)


def _scale(experiment: Experiment) -> str:
    """The scale to run an experiment at: the cheapest of those near the paper's sizes, or what there is."""
    return next((scale for scale in ("small", "paper", "laptop", "smoke") if scale in experiment.settings), "small")
