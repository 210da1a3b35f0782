"""Tasks with nothing to learn: a model is measured once. Their runs have a folder, a seed and scores like any other.

Another seed draws other inputs, or times again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from manyheads.spec.field_checks import between

from .errors import UserError
from .points import NearestNeighbor
from .task import Task


@dataclass(frozen=True)
class Measurement(Task):
    """A task with nothing to learn."""


@dataclass(frozen=True)
class Footprint(Measurement):
    """Gigabytes (10^9 bytes) of memory that training takes, `rows` examples at a time, with AdamW.

    The scores are `memory`, the peak that PyTorch's tracker sees under fake tensors, so that nothing is computed and
    any model fits; `counted`, the formula of `arch`; and `allocated`, the peak of PyTorch's allocator, where the run is
    on a GPU and the model fits. `precision` is fp32, or amp (bfloat16 autocast). `fused` attention keeps no tokens x
    tokens map. Tracking takes up to a minute for a deep model; without `track` the formula stands in its place."""

    rows: int = 8
    precision: Literal["fp32", "amp"] = "fp32"
    fused: bool = False
    track: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        between("Footprint.rows", self.rows, 1, whole=True)


@dataclass(frozen=True)
class Speed(Measurement):
    """Milliseconds an example: `cpu_1` alone, `cpu_many` in a batch, `cpu_train` in a training step of that batch;
    `gpu_1` and so on on the GPU, in bfloat16. Both devices are measured, whichever the run is told to use.

    The CPU works eagerly in float32 with as many threads as PyTorch has. A busy machine makes every number worse:
    measure one model at a time. At least `seconds` are spent on each number, which is a median."""

    batch: int = 8
    gpu_batch: int = 64
    seconds: float = 2.0

    def __post_init__(self) -> None:
        super().__post_init__()
        between("Speed.batch", self.batch, 1, whole=True)
        between("Speed.gpu_batch", self.gpu_batch, 1, whole=True)
        between("Speed.seconds", self.seconds, 0)


@dataclass(frozen=True)
class HeadsKappa(Measurement):
    """kappa of `samples` matrices of concatenated heads, tokens x inner, in the shape of the model's first attention.

    `entries` says where the matrices come from. `normal`: independent entries, as Theorem 3.2 assumes. `attention`: the
    output of that attention with initial weights for independent normal tokens. `formula`: there are no matrices; kappa
    is the theorem's (sqrt inner + sqrt tokens) / (sqrt inner - sqrt tokens), and the rank is full. The score
    `deficient` is the share of matrices without full rank."""

    entries: Literal["normal", "attention", "formula"] = "normal"
    samples: int = 32

    def __post_init__(self) -> None:
        super().__post_init__()
        between("HeadsKappa.samples", self.samples, 1, whole=True)


@dataclass(frozen=True)
class WrittenDown(Measurement):
    """Mean squared error of attention that is constructed and not trained, on `samples` questions: which of `tokens`
    points is nearest to a query of its own?

    `network` exact is the one full-rank head of Fact 1. `network` drawn has as many heads, of the rank that the model's
    attention states. Each compares projections on random orthonormal directions and has a bias on the first point; the
    biases are spread as the target's are, in units of its scores. All values are the best there are, by least squares
    on other samples. That bounds the error of such heads from above; at full rank, where a projection changes no score,
    it is the construction of Theorem 3. Heads have no bias where the target has none.

    `network` vote is Theorem 5's two layers: as many heads of rank 1 as the model's attention states vote for one of two
    points, and the second layer counts. `network` law is the error that is proved, with no network: 0 where the model's
    heads have full rank, and 2/pi atan(pi/2 sqrt(dim / heads)) for many heads of rank 1. `biases` are as in
    `NearestNeighbor`."""

    network: Literal["exact", "drawn", "vote", "law"] = "exact"
    tokens: int = 2
    biases: int = 0
    samples: int = 2048

    def __post_init__(self) -> None:
        super().__post_init__()
        between("WrittenDown.samples", self.samples, 1, whole=True)
        if self.network in ("vote", "law") and (self.tokens != 2 or self.biases):
            raise UserError(
                f"WrittenDown(network={self.network!r}) has {self.tokens} tokens and {self.biases} biases, and a vote is "
                "between two points without any; write tokens=2 and biases=0"
            )
        self.target(max(2, self.tokens))

    def target(self, dim: int) -> NearestNeighbor:
        """The task that the constructed attention solves, for points of R^`dim`."""
        cloud: Literal["sphere", "orthogonal"] = (
            "sphere" if self.network == "exact" and not self.biases else "orthogonal"
        )
        return NearestNeighbor(dim, self.tokens, "separate", cloud, self.biases)
