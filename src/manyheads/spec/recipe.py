"""`Recipe`: everything about a training run that is neither the architecture, nor the task, nor the seed."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Literal

from . import records as plain
from .errors import UserError
from .rates import Rates
from .schedule import Schedule

BasisKind = Literal["steps", "samples", "tokens", "flops", "seconds", "epochs"]
Precision = Literal["auto", "fp32", "tf32", "bf16"]
Switch = Literal["auto", "on", "off"]
USUAL = Schedule("cosine", warmup=0.05)
IMAGENET_IMAGES = 1_281_167  # training images of ImageNet-1k: what an epoch of it is
BASES = ("steps", "samples", "tokens", "flops", "seconds", "epochs")


@dataclass(frozen=True)
class Basis:
    """The budget of a run, in what is held equal between arms. `samples` are images or sequences; `flops` those of
    training by `arch.count`; `seconds` those of training steps, with evaluations, probes, checkpoints and, on a GPU,
    the first steps of a process left out, which compile and record."""

    kind: BasisKind
    amount: float

    def __post_init__(self) -> None:
        if self.kind not in BASES:
            raise UserError(f"basis {self.kind!r} is not known; write one of {', '.join(BASES)}")
        object.__setattr__(self, "amount", float(self.amount))
        if not (self.amount > 0 and math.isfinite(self.amount)):
            raise UserError(f"a run of {self.amount} {self.kind} trains nothing; write a number above 0")


@dataclass(frozen=True)
class Recipe:
    """How a model is trained.

    `batch` is the whole batch of a step, over all processes and all `accumulate` parts. With `ramp` it grows: the first
    step takes one part, and over the first `ramp` of the run steps take ever more, up to all of them (`train.budget`).
    `decay` says which parameters `weight_decay` reaches: `matrices` leaves out biases, norms, layer scales, positions,
    class tokens and embedding tables. `clip` is the largest norm of a gradient, `ema` the decay of averaged weights,
    which are then the ones evaluated and saved; 0 turns either off. `precision` auto is bf16 autocast on a GPU and fp32
    on a CPU; `compile` auto is on on a GPU, and so is `capture`, which records a step there and replays it as one
    launch. `deterministic` gives up what is faster and not bit-equal on a GPU.

    A cadence is a number of steps from 1 on, a fraction of the run below 1 (0.1: ten times), and 0 for never;
    evaluation happens at the end in any case, the probe also at step 0 and at the end; `probe_detail` and
    `probe_jacobian` have it look closer (`conditioning.probe`), which takes longer. Training stops where the loss is
    not finite, or above `explode` times that of a constant guess (0: no such limit)."""

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
    ramp: float = field(default=0.0, metadata={"later": True})
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
    probe_detail: bool = field(default=False, metadata={"later": True})
    probe_jacobian: bool = field(default=False, metadata={"later": True})
    checkpoint_every: float = 1000

    def __post_init__(self) -> None:
        object.__setattr__(self, "betas", tuple(map(float, self.betas)))
        for name in (
            "lr",
            "eps",
            "weight_decay",
            "clip",
            "ramp",
            "ema",
            "explode",
            "evaluate_every",
            "probe_every",
            "checkpoint_every",
        ):
            object.__setattr__(self, name, float(getattr(self, name)))
        for name in ("batch", "accumulate", "log_every", "probe_samples"):
            _check(name, getattr(self, name), getattr(self, name) >= 1, "a whole number from 1 on")
        _check("lr", self.lr, 0 < self.lr < math.inf, "a number above 0")
        _check("betas", self.betas, len(self.betas) == 2 and all(0 <= b < 1 for b in self.betas), "two numbers below 1")
        _check("eps", self.eps, self.eps > 0, "a number above 0")
        _check("ema", self.ema, 0 <= self.ema < 1, "a decay such as 0.9999, or 0 for none")
        for name in ("weight_decay", "clip", "explode"):
            _check(name, getattr(self, name), getattr(self, name) >= 0, "0 or a number above it")
        for name in ("evaluate_every", "probe_every", "checkpoint_every"):
            every = getattr(self, name)
            whole = math.isfinite(every) and (0 <= every < 1 or every == int(every))
            _check(
                name, every, every >= 0 and whole, "steps (from 1 on), a fraction of the run (below 1), or 0 for never"
            )
        if self.batch % self.accumulate:
            better = max(1, round(self.batch / self.accumulate)) * self.accumulate
            raise UserError(
                f"a batch of {self.batch} does not split into {self.accumulate} parts; write batch={better}"
            )
        _check(
            "ramp", self.ramp, 0 <= self.ramp <= 1, "the fraction of the run in which the batch grows, or 0 for none"
        )
        if self.ramp and self.accumulate == 1:
            raise UserError(
                f"recipe.ramp is {self.ramp} and accumulate 1: a batch grows by parts, and this one has "
                "a single part; write accumulate=2 or more, so that a part is what the first step takes"
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
        """Samples that data is dealt in: whole batches, or parts where the batch grows."""
        return self.rows if self.ramp else self.batch

    def to_dict(self) -> dict[str, Any]:
        """This recipe as plain JSON values."""
        return plain.to_dict(self)

    @staticmethod
    def from_dict(data: Any) -> Recipe:
        """The recipe that `to_dict` wrote, or a person: what is left out has its default, what is wrong is named."""
        return plain.from_dict(Recipe, data, "recipe")


def _check(name: str, value: Any, good: bool, wanted: str) -> None:
    if not good:
        raise UserError(f"recipe.{name} is {value}; write {wanted}")
