"""Could this setting have shown a loss? Without that, finding none means nothing.

Two arms that guess are equal, and a setting in which less depth costs nothing cannot show that heads make up for it."""

from __future__ import annotations

from collections.abc import Mapping

from manyheads.spec.comparison import Comparison, Loses

from .statistics import Effect, Values, contrast
from .verdict import ALPHA, Direction, amount, describe

LEARNT = 0.1  # least share of a constant guess's error that an arm must have removed
PERFECT = {"up": 1.0, "down": 0.0}


def guesses(values: Values, guess: float, better: Direction) -> bool:
    """Whether an arm is not clearly better than a constant guess: by its interval over seeds, and by a tenth of what
    the guess gets wrong."""
    above = contrast([(1.0, {seed: value - guess for seed, value in values.items()})])
    gain, wrong = (above.difference, PERFECT["up"] - guess) if better == "up" else (-above.difference, guess)
    chance = above.above(0.0) if better == "up" else above.below(0.0)
    return gain < LEARNT * wrong or (len(values) > 1 and chance >= ALPHA)


def guess_obstacle(
    pair: Comparison, effect: Effect, arms: Mapping[str, tuple[Values, float]], metric: str, better: Direction
) -> str:
    """Why a comparison says nothing, where an arm does no better than a constant guess. `arms` have the values and the
    constant guess of both sides, as far as it is known. Equality and no loss need both; of two unequal arms, the better
    one is enough; of two gains, an arm on either side of the first."""
    bad = [name for name, (values, guess) in arms.items() if guesses(values, guess, better)]
    if pair.expect in ("no_loss", "equal"):
        lacking = bad
    elif pair.beyond is not None:
        lacking = bad if {pair.arm, pair.against} <= set(bad) else []
    else:
        winner = pair.arm if (effect.difference > 0) == (better == "up") else pair.against
        lacking = [name for name in bad if name == winner]
    if not lacking:
        return ""
    limit = amount(arms[lacking[0]][1], metric)
    verb = "does" if len(lacking) == 1 else "do"
    return f"{' and '.join(lacking)} {verb} not do clearly better than a constant guess, whose {metric} is {limit}."


def control_obstacle(pair: Comparison, control: Loses, loss: Effect | None, metric: str, better: Direction) -> str:
    """Why a comparison says nothing, where its control was not shown to lose by more than the comparison's margin.
    `loss` is the difference between the control's arm and what it has to lose against, None where it is not known."""
    who = f"{control.arm} against {control.against}"
    if loss is None:
        return f"Without finished runs of {who}, nobody knows whether this setting shows a loss."
    margin = pair.margin if pair.expect in ("no_loss", "equal") else 0.0
    chance = loss.below(-margin) if better == "up" else loss.above(margin)
    if chance < ALPHA:
        return ""
    shown = describe(Comparison(control.arm, control.against, "open"), loss, metric)
    limit = f" by over {amount(margin, metric)}" if margin else ""
    return f"{control.arm} was not shown to lose{limit}, so that this setting cannot show what makes up for it. {shown}"
