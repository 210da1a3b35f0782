"""`Recipe`: everything about a training run that is not the architecture, the task or the seed."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Literal

from .errors import UserError
from .field_checks import check_types
from .schedule import Schedule

BasisKind = Literal["steps", "samples", "tokens", "flops", "seconds", "epochs"]
Precision = Literal["auto", "fp32", "tf32", "bf16"]
Switch = Literal["auto", "on", "off"]
USUAL = Schedule("cosine", warmup=0.05)
IMAGENET_IMAGES = 1_281_167  # training images of ImageNet-1k: one epoch
LATER: dict[str, Any] = {"later": True}  # a field that runs of earlier versions lack; its default is not written


@dataclass(frozen=True)
class Basis:
    """The budget of a run, in the unit that is held equal between arms.

    `samples` are images or sequences. `flops` are those of training, counted by `arch.count`. `seconds` are those of
    training steps: evaluations, probes and checkpoints do not count. On a GPU, the first steps of a process do not
    count either, since they compile and record."""

    kind: BasisKind
    amount: float

    def __post_init__(self) -> None:
        check_types(self, "recipe.basis")
        object.__setattr__(self, "amount", float(self.amount))
        if not (self.amount > 0 and math.isfinite(self.amount)):
            raise UserError(f"a run of {self.amount} {self.kind} trains nothing; write a number above 0")


@dataclass(frozen=True, slots=True)
class Rates:
    """Dropout rates of a model under training. They belong to a recipe, not to an architecture."""

    dropout: float = 0.0  # after output projections and inside MLPs
    attention: float = 0.0  # on attention weights
    path: float = 0.0  # on residual branches, the rate of the deepest layer

    def __post_init__(self) -> None:
        check_types(self, "recipe.rates")
        for name in ("dropout", "attention", "path"):
            rate = getattr(self, name)
            if not 0.0 <= rate < 1.0:
                raise UserError(f"recipe.rates.{name} is {rate}; write a number of at least 0 and below 1")


@dataclass(frozen=True)
class Recipe:
    """How a model is trained.

    `batch` is the whole batch of a step, over all processes and all `accumulate` parts. With `ramp` it grows: the first
    step takes one part, and over the first `ramp` of the run steps take more and more, up to all of them
    (`train.budget`). `decay` says which parameters `weight_decay` reaches: `matrices` leaves out biases, norms, layer
    scales, positions, class tokens and embedding tables. `clip` is the largest norm of a gradient. `ema` is the decay
    of averaged weights, which are then the ones evaluated and saved. 0 turns either off. `precision` auto is bf16
    autocast on a GPU and fp32 on a CPU. On a GPU, auto turns on `compile` and `capture`, which records a step and
    replays it as one launch. `deterministic` avoids the faster operations of a GPU that are not bit-equal.

    A cadence is a number of steps from 1 on, a fraction of the run below 1 (0.1: ten times), or 0 for never. Evaluation
    also happens at the end, and the probe at step 0 and at the end. `probe_detail` and `probe_jacobian` make
    the probe look closer (`conditioning.probe`), which takes longer. Training stops where the loss is not finite, or
    above `explode` times that of a constant guess (0: no such limit)."""

    batch: int = 128
    basis: Basis = Basis("steps", 1000)
    lr: float = 1e-3
    schedule: Schedule = USUAL
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    weight_decay: float = 0.05
    decay: Literal["matrices", "all"] = "matrices"
    clip: float = 1.0
    accumulate: int = 1
    ramp: float = field(default=0.0, metadata=LATER)
    ema: float = 0.0
    rates: Rates = Rates()
    precision: Precision = "auto"
    compile: Switch = "auto"
    capture: Switch = "auto"
    deterministic: bool = False
    explode: float = 50.0
    log_every: int = 50
    evaluate_every: float = 0.1
    probe_every: float = 0.0
    probe_samples: int = 8
    probe_detail: bool = field(default=False, metadata=LATER)
    probe_jacobian: bool = field(default=False, metadata=LATER)
    checkpoint_every: float = 1000

    def __post_init__(self) -> None:
        if isinstance(self.betas, list):
            object.__setattr__(self, "betas", tuple(self.betas))
        check_types(self, "recipe")
        object.__setattr__(self, "betas", tuple(map(float, self.betas)))
        cadences = ("evaluate_every", "probe_every", "checkpoint_every")
        for name in ("lr", "eps", "weight_decay", "clip", "ramp", "ema", "explode", *cadences):
            object.__setattr__(self, name, float(getattr(self, name)))
        for name in ("batch", "accumulate", "log_every", "probe_samples"):
            _require(name, getattr(self, name), getattr(self, name) >= 1, "a whole number from 1 on")
        _require("lr", self.lr, 0 < self.lr < math.inf, "a number above 0")
        _require("betas", self.betas, all(0 <= b < 1 for b in self.betas), "two numbers below 1")
        _require("eps", self.eps, self.eps > 0, "a number above 0")
        _require("ema", self.ema, 0 <= self.ema < 1, "a decay such as 0.9999, or 0 for none")
        for name in ("weight_decay", "clip", "explode"):
            _require(name, getattr(self, name), getattr(self, name) >= 0, "0 or a number above it")
        for name in cadences:
            every = getattr(self, name)
            whole = math.isfinite(every) and (0 <= every < 1 or every == int(every))
            words = "steps (from 1 on), a fraction of the run (below 1), or 0 for never"
            _require(name, every, every >= 0 and whole, words)
        if self.batch % self.accumulate:
            better = max(1, round(self.batch / self.accumulate)) * self.accumulate
            raise UserError(
                f"a batch of {self.batch} does not split into {self.accumulate} parts; write batch={better}"
            )
        _require("ramp", self.ramp, 0 <= self.ramp <= 1, "the fraction of the run in which the batch grows, or 0")
        if self.ramp and self.accumulate == 1:
            raise UserError(
                f"recipe.ramp is {self.ramp} and accumulate 1: a batch grows by parts, and this one has a single part; "
                "write accumulate=2 or more: the first step takes one part"
            )
        if self.ramp and self.capture == "on":
            raise UserError(
                f"recipe.ramp is {self.ramp} and capture on: a recorded step takes the same batch each time; "
                "write capture=auto, or ramp=0"
            )

    @property
    def rows(self) -> int:
        """Samples in one part of the batch, over all processes."""
        return self.batch // self.accumulate

    @property
    def dealt(self) -> int:
        """Samples of one batch of data: the whole batch, or one part where the batch grows."""
        return self.rows if self.ramp else self.batch

    def to_dict(self) -> dict[str, Any]:
        """This recipe as plain JSON values."""
        from . import serialise  # it reads every record, this one too

        return serialise.to_dict(self)

    @staticmethod
    def from_dict(data: Any) -> Recipe:
        """The recipe in a JSON object: missing fields have their defaults, and wrong ones are named in the error."""
        from . import serialise

        return serialise.from_dict(Recipe, data, "recipe")


def _require(name: str, value: Any, good: bool, advice: str) -> None:
    if not good:
        raise UserError(f"recipe.{name} is {value}; write {advice}")
