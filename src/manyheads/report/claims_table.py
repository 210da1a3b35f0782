"""The claims of both papers over all experiments: how each came out and at which scale, the comparisons behind it, and
the claims that no run here is about."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

from manyheads.experiments.claims import CLAIMS
from manyheads.experiments.verdict import LARGEST, LOG_KAPPA, POINTS, Word, amount, signed, signed_ratio
from manyheads.spec.experiment import SCALES, Experiment

from .chart import Axis
from .glossary import COMPARISONS
from .read_runs import Section
from .section_verdicts import Judgement, verdicts
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
BADGES: dict[str, str] = {
    "holds": "yes",
    "does not hold": "no",
    "better": "yes",
    "worse": "no",
    "higher": "open",
    "lower": "open",
    "within noise": "noise",
    "not comparable": "open",
    "not testable in this setting": "open",
    "not testable at this scale": "open",
}
AT_THIS_SCALE = " at this scale"  # left out where the scale is named
COMPARED = ("verdict", "effect", "visible", "paper", "compared", "seeds", "held equal")
WEAKEST: tuple[Word, ...] = ("does not hold", "not comparable", "not testable in this setting", "within noise")
STRIP_WIDTH, STRIP_HEIGHT, STRIP_EDGE = 132, 22, 6


@dataclass(frozen=True)
class Evidence:
    """One comparison about a claim, with its section and that section's number on the page."""

    number: int
    section: Section
    judgement: Judgement

    @property
    def claim(self) -> str:
        """The claim's short name, such as L9."""
        return self.judgement.pair.claim


def evidence(sections: Sequence[Section]) -> list[Evidence]:
    """Every comparison about a claim, claim by claim, the larger scale first."""
    order = list(CLAIMS)
    rows = [
        Evidence(number, section, judgement)
        for number, section in enumerate(sections)
        for judgement in verdicts(section)
        if judgement.pair.claim in CLAIMS
    ]
    return sorted(rows, key=lambda row: (order.index(row.claim), _rank(row.section.scale)))


def _rank(scale: str) -> int:
    """The larger scale first; runs without a scale last."""
    return -SCALES.index(scale) if scale in SCALES else 1


def claims_table(rows: Sequence[Evidence]) -> Table:
    """The claims table: a row for each claim, with how its comparisons came out, scale by scale."""
    claims: dict[str, list[Evidence]] = {}
    for row in rows:
        claims.setdefault(row.claim, []).append(row)
    cells = []
    for claim, about in claims.items():
        badges = [
            badge for scale in dict.fromkeys(row.section.scale for row in about) for badge in _claimed(about, scale)
        ]
        where = {row.section.full: f"#s{row.number}" for row in about}
        links = [Cell(name, href=href) for name, href in where.items()]
        cells.append([*_claim(claim), Cell.of(badges), Cell(PRINTED.get(claim, "")), Cell.of(links)])
    heads = ("claim", "what it says", "verdict", "paper", "experiments")
    return Table("Claims", heads, cells, words=True, cards=True, meaning=COMPARISONS)


def _claimed(about: Sequence[Evidence], scale: str) -> list[Cell]:
    """How a claim came out at a scale: by its primary comparisons, and how many of the others had which outcome."""
    here = [row for row in about if row.section.scale == scale]
    primary = [row.judgement.verdict.word for row in here if row.judgement.pair.primary]
    badges = []
    if primary:
        word = joint(primary)
        text, kind = _badge(word, scale)
        badges.append(Cell(f"{text}, by its primary comparison{'s' * (len(primary) > 1)}", kind=kind))
    others = Counter(_badge(row.judgement.verdict.word, scale) for row in here if not row.judgement.pair.primary)
    for (text, kind), count in others.items():
        badges.append(Cell(f"{text}, secondary{f' x{count}' if count > 1 else ''}", kind=kind))
    return badges


def joint(words: Sequence[Word]) -> Word:
    """The verdict of several primary comparisons together: a claim about all pairs holds where it holds in all, and does
    not where it fails in one."""
    if all(word == "holds" for word in words):
        return "holds"
    return next((word for word in WEAKEST if word in words), "not testable at this scale")


def _claim(claim: str) -> list[Cell]:
    """Its short name, sorted so that L9 comes before L10, and what it says."""
    return [Cell(claim, f"{claim[0]}{int(claim[1:]):02d}"), Cell(CLAIMS[claim], CLAIMS[claim])]


def evidence_table(rows: Sequence[Evidence]) -> Table:
    """Every comparison behind the claims."""
    heads = ("claim", "what it says", *COMPARED[:4], "experiment", *COMPARED[4:], "why")
    cells = []
    for row in rows:
        where = Cell(row.section.full, row.section.full, href=f"#s{row.number}")
        of_pair = compared(row.judgement, row.section)
        cells.append([*_claim(row.claim), *of_pair[:4], where, *of_pair[4:], Cell(row.judgement.verdict.reason)])
    return Table("Claims compared", heads, cells, words=True, meaning=COMPARISONS)


def compared(judgement: Judgement, section: Section) -> list[Cell]:
    """The cells of one comparison under the heads `COMPARED`."""
    pair, effect, metric = judgement.pair, judgement.effect, judgement.metric
    who = pair.name + (f", {judgement.metric_name}" if metric else "")
    word, kind = _outcome(judgement, section)
    printed = Cell(f"({PRINTED[pair.claim]})" if pair.claim in PRINTED else "")
    if pair.printed is not None:
        printed = Cell(signed(pair.printed, metric), _number(pair.printed, metric))
    return [
        Cell(word, kind=kind),
        _effect(judgement),
        _visible(judgement),
        printed,
        Cell(who),
        Cell("") if effect is None else Cell(str(effect.seeds), effect.seeds),
        Cell(judgement.held_equal),
    ]


def _outcome(judgement: Judgement, section: Section) -> tuple[str, str]:
    """The text of a verdict's badge, with its scale, and the kind of badge."""
    return _badge(judgement.verdict.word, section.scale)


def _badge(word: str, scale: str) -> tuple[str, str]:
    if scale == "smoke":
        return "smoke: claims nothing", "smoke"
    return f"{scale}: {word.removesuffix(AT_THIS_SCALE)}" if scale else word, BADGES[word]


def _effect(judgement: Judgement) -> Cell:
    effect, metric = judgement.effect, judgement.metric
    if effect is None:
        return Cell("")
    show = signed_ratio if judgement.pair.ratio else lambda value: signed(value, metric)
    low, high = (show(end).removesuffix(POINTS) for end in (effect.low, effect.high))
    text, number = show(effect.difference), _number(effect.difference, metric)
    if math.isfinite(effect.low):
        ends = {"low": _number(effect.low, metric), "high": _number(effect.high, metric)}
        return Cell(f"{text} ({low} to {high})", number, ends, drawn=strip(judgement))
    return Cell(f"{text} (one seed)", number, drawn=strip(judgement))


def _visible(judgement: Judgement) -> Cell:
    """The smallest difference that these seeds show in four of five experiments."""
    effect = judgement.effect
    if effect is None or not effect.error or not math.isfinite(effect.visible):
        return Cell("")
    return Cell(amount(effect.visible, judgement.metric), effect.visible)


def _number(effect: float, metric: str) -> float:
    """An effect as a number: for kappa the factor, not its logarithm."""
    return math.exp(max(-LARGEST, min(LARGEST, effect))) if metric == LOG_KAPPA else effect


def strip(judgement: Judgement) -> str:
    """An effect as a small drawing: its interval over seeds, zero, the expected side, and what the paper printed. Empty
    where there is nothing to compare."""
    effect, pair = judgement.effect, judgement.pair
    if effect is None:
        return ""
    ends = [end for end in (effect.low, effect.high) if math.isfinite(end)]
    marks = [0.0, effect.difference, *ends, *([] if pair.printed is None else [pair.printed])]
    bounds = [pair.target + pair.margin, pair.target - pair.margin] if pair.margin else []
    axis = Axis.over([*marks, *bounds], room=0.08)

    def at(value: float) -> float:
        return STRIP_EDGE + axis.share(min(max(value, axis.low), axis.high)) * (STRIP_WIDTH - 2 * STRIP_EDGE)

    middle, bottom = STRIP_HEIGHT / 2, STRIP_HEIGHT - 2
    name = escape(f"{pair.name}: {signed(effect.difference, judgement.metric)}")
    parts = [f'<svg class="strip" viewBox="0 0 {STRIP_WIDTH} {STRIP_HEIGHT}" role="img" aria-label="{name}">']
    for low, high in expected_side(judgement):
        parts.append(f'<path class="wanted" d="M{at(low):.1f} 2H{at(high):.1f}V{bottom}H{at(low):.1f}z"/>')
    parts.append(f'<path class="axis" d="M{at(0.0):.1f} 1V{STRIP_HEIGHT - 1}"/>')
    if ends:  # one seed has no interval
        parts.append(f'<path class="span" d="M{at(effect.low):.1f} {middle}H{at(effect.high):.1f}"/>')
    parts.append(f'<circle class="mean" cx="{at(effect.difference):.1f}" cy="{middle}" r="3.6"/>')
    if pair.printed is not None:
        parts.append(f'<path class="paper" d="M{at(pair.printed):.1f} {middle - 5}l5 5l-5 5l-5 -5z"/>')
    return "".join(parts) + "</svg>"


def expected_side(judgement: Judgement) -> list[tuple[float, float]]:
    """Where the whole interval has to lie for the claim to hold."""
    margin, target, far = judgement.pair.margin, judgement.pair.target, math.inf
    up = judgement.better == "up"
    match judgement.pair.expect:
        case "more":
            return [(target + margin, far)]
        case "less":
            return [(-far, target - margin)]
        case "better":
            return [(target + margin, far)] if up else [(-far, target - margin)]
        case "no_loss":
            return [(target - margin, far)] if up else [(-far, target + margin)]
        case "equal":
            return [(target - margin, target + margin)]
        case "differ":
            return [(-far, target - margin), (target + margin, far)]
        case _:
            return []


def tally(rows: Sequence[Evidence]) -> str:
    """How many comparisons came out how, scale by scale, in one line."""
    if not rows:
        return ""
    claims = len({row.claim for row in rows})
    parts = [f"{len(rows)} comparisons are about {claims} of {len(CLAIMS)} claims."]
    for scale in sorted({row.section.scale for row in rows}, key=_rank):
        words = [row.judgement.verdict.word for row in rows if row.section.scale == scale]
        counts = ", ".join(
            f"{word.removesuffix(AT_THIS_SCALE)} {words.count(word)}" for word in BADGES if word in words
        )
        parts.append(
            f"At scale smoke, which claims nothing: {len(words)}."
            if scale == "smoke"
            else f"At scale {scale or 'unknown'}: {counts}."
        )
    return " ".join(parts)


def claims_without_runs(rows: Sequence[Evidence], experiments: Mapping[str, Experiment]) -> Table:
    """The claims that no run here is about, and the commands that would decide them."""
    decided = {row.claim for row in rows}
    cells = []
    for claim in CLAIMS:
        if claim in decided:
            continue
        deciding = [experiment for experiment in experiments.values() if claim in experiment.claims]
        command = "; ".join(experiment.command(_scale(experiment)) for experiment in deciding)
        printed = PRINTED.get(claim, "")
        cells.append([*_claim(claim), Cell(printed, printed), Cell(command or "no experiment yet", command)])
    return Table("Claims without runs", ("claim", "what it says", "paper", "what would decide it"), cells, words=True)


def _scale(experiment: Experiment) -> str:
    """The scale to run an experiment at: small if there is one, since it is cheap and near the paper's sizes."""
    return next((scale for scale in ("small", "paper", "laptop", "smoke") if scale in experiment.settings), "small")
