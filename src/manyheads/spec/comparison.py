"""What an experiment expects, fixed before anything is run: of two arms, of all arms together, and of sizes that grow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from .errors import UserError

Expect = Literal["better", "no_loss", "equal", "more", "less", "differ", "open"]
EXPECTED = ("better", "no_loss", "equal", "more", "less", "differ", "open")
MARGINS = {
    "no_loss": "what still counts as no loss",
    "equal": "how far apart two arms may be and still count as equal",
    "differ": "the least difference that counts",
}
PARTIAL = ("heads", "depth", "inner", "params")  # numbers of an architecture that a trend can hold fixed


@dataclass(frozen=True)
class Loses:
    """Proof that a setting can show a loss at all: `arm` has to do worse than `against`. Where it does not, a comparison
    that depends on it is not testable in this setting, however it comes out."""

    arm: str
    against: str


@dataclass(frozen=True)
class Comparison:
    """What is expected of `arm` beside `against`.

    `better` and `no_loss` are about quality: better by more than `margin`, worse by less than `margin`. `more` and
    `less` are about the metric's value. `equal` means closer than `margin`, and `differ` further apart than that.
    `open` expects nothing, and the verdict says better, worse or within noise. `metric` is a score of the task, empty
    for its headline; `best`, the headline at the evaluation where it was best; or `log_kappa`, the mean over layers at
    the last probe. `printed` is the paper's own difference.

    `primary` comparisons decide their claim, all of them together; the others of a section are corrected for their
    number. `controls` have to lose before this comparison means anything. With `beyond`, two further arms, the
    difference between `arm` and `against` is compared with the difference between these two. With `ratio`, logarithms
    of the values are compared, so that 0.05 is about 5 %. `target` is the difference that counts as none. `scales` and
    `bases` are those at which the comparison is made; empty means all of them."""

    arm: str
    against: str
    expect: Expect
    margin: float = 0.0
    claim: str = ""
    metric: str = ""
    printed: float | None = None
    primary: bool = False
    controls: tuple[Loses, ...] = ()
    beyond: tuple[str, str] | None = None
    ratio: bool = False
    target: float = 0.0
    scales: tuple[str, ...] = ()
    bases: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.expect not in EXPECTED:
            raise UserError(f"expect is {self.expect!r}; write one of {', '.join(EXPECTED)}")
        if self.margin < 0 or (self.expect in MARGINS and self.margin == 0):
            raise UserError(
                f"the margin of {self.arm} against {self.against} is {self.margin}; write a number above 0: "
                f"{MARGINS.get(self.expect, 'the least difference that counts')}"
            )
        if self.beyond is not None and self.expect in ("no_loss", "open"):
            raise UserError(f"{self.name} compares two differences; write better, more, less, equal or differ")

    @property
    def arms(self) -> tuple[str, ...]:
        """Every arm that it needs, those of its controls too."""
        controls = [name for control in self.controls for name in (control.arm, control.against)]
        return tuple(dict.fromkeys((self.arm, self.against, *(self.beyond or ()), *controls)))

    @property
    def name(self) -> str:
        """Who is compared with whom."""
        beyond = f" beyond {self.beyond[0]} against {self.beyond[1]}" if self.beyond else ""
        return f"{self.arm} against {self.against}{beyond}"


@dataclass(frozen=True)
class Trend:
    """What is expected over the designs of an experiment: where `x` is more, `y` is `more` or `less`. Both name a score, a
    number that the probe writes, or a number of the architecture (heads, depth, inner, params). `held` are the numbers
    of the architecture whose influence is taken out of both first. The unit is the design, at its mean over seeds."""

    x: str
    y: str
    expect: Literal["more", "less"]
    claim: str = ""
    held: tuple[str, ...] = ("params", "depth")
    primary: bool = False

    def __post_init__(self) -> None:
        for name in self.held:
            if name not in PARTIAL:
                raise UserError(f"a trend holds {name!r} fixed; write some of {', '.join(PARTIAL)}")


@dataclass(frozen=True)
class Slope:
    """What is expected of the slope of `y` over the logarithm of `x`, a number of the architecture, through `arms`: `more`
    than 0, or `less`. Arms with the same `within`, another number of the architecture, have a height of their own. The
    unit is the seed."""

    y: str
    x: Literal["heads", "inner", "params"]
    arms: tuple[str, ...]
    expect: Literal["more", "less"]
    claim: str = ""
    within: Literal["depth", "params", "inner"] = "depth"
    primary: bool = False

    def __post_init__(self) -> None:
        if len(set(self.arms)) < 3:
            raise UserError(f"the slope of {self.y} goes through {len(set(self.arms))} arms; write three or more")


@dataclass(frozen=True)
class Growth:
    """What is expected of a cost over sizes: that it grows exponentially in the size rather than as a power of it.

    `sizes` maps each size to its arms, by rising `cost`, a number of the architecture. The cost of a size is where the
    error, interpolated in the logarithm of the cost, falls to `share` of a constant guess's. `enough` maps each size to
    an arm that has to reach it, or else nobody knows whether the error can fall that far.

    An exponential has to fit by `margin` more closely than a power (the logarithm of the ratio of their residuals); a cost
    that grows by less than the factor `least` from one size to the next does not grow."""

    name: str
    sizes: Mapping[int, tuple[str, ...]]
    cost: Literal["heads", "params", "inner"] = "heads"
    share: float = 0.5
    claim: str = ""
    primary: bool = False
    enough: Mapping[int, str] = field(default_factory=dict)
    margin: float = 0.2
    least: float = 1.1

    def __post_init__(self) -> None:
        if len(self.sizes) < 4 or any(size < 2 for size in self.sizes):
            raise UserError(
                f"growth of {self.name} is stated over sizes {list(self.sizes)}; write four or more, from 2 on"
            )
        if not 0 < self.share < 1:
            raise UserError(f"growth of {self.name} has a share of {self.share}; write a number between 0 and 1")
        if not self.enough.keys() <= self.sizes.keys():
            raise UserError(
                f"growth of {self.name} names arms that are enough at {list(self.enough)}; write some of its sizes, "
                f"{list(self.sizes)}"
            )
        if self.margin < 0 or self.least <= 1:
            raise UserError(
                f"growth of {self.name} has a margin of {self.margin} and grows by {self.least} at least; write a margin "
                "of 0 or more and a factor above 1"
            )
