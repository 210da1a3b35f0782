"""Tasks on points of R^dim, the inputs of the rank experiments (2407.16153)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from manyheads.spec.field_checks import between

from .datasets import Cloud
from .errors import UserError
from .task import Task


@dataclass(frozen=True)
class NearestNeighbor(Task):
    """Find one of `tokens` points of R^`dim`.

    `query` self: every point asks, and the answer is the point farthest from it, since the nearest is itself; the paper
    trains this. `query` separate: one more point y, uniform on the sphere, stands after the others and asks for the
    nearest of them; the theorems are about this. A model without positions cannot tell y from the others. The answer is
    read at the tokens that ask. `points` is the distribution of the points, see `data.points`.

    `biases`, an odd number, gives the target of Theorem 3: the alternating sum of so many nearest-neighbour functions.
    In each, a bias is added to the score of the first point; the biases are spread evenly and y is normal. UNVERIFIED:
    the paper has 2 dim^2 + 1 biases, whose values we could not compare.

    The loss is the squared distance between output and answer, so that an output of zeros has loss 1. No sample comes
    twice, unless `replay` is the number of batches that are repeated for ever, as in the published code. `held` samples
    are held out."""

    dim: int = 64
    tokens: int = 16
    query: Literal["self", "separate"] = "self"
    points: Cloud = "sphere"
    biases: int = 0
    replay: int = 0
    held: int = 4096

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, least in (("dim", 1), ("tokens", 2), ("biases", 0), ("replay", 0), ("held", 1)):
            between(f"NearestNeighbor.{name}", getattr(self, name), least, whole=True)
        if self.points == "orthogonal" and self.tokens > self.dim:
            raise UserError(
                f"NearestNeighbor has {self.tokens} orthogonal points of R^{self.dim}; write tokens={self.dim} or fewer"
            )
        if self.points == "doubled" and (self.tokens % 2 or self.query == "self"):
            raise UserError(
                f"NearestNeighbor has {self.tokens} doubled points with query={self.query!r}, and the farthest "
                "is always the opposite; write an even number of tokens and query='separate'"
            )
        if self.biases and (self.query == "self" or self.biases % 2 == 0):
            raise UserError(
                f"NearestNeighbor.biases is {self.biases} with query={self.query!r}; write an odd number and "
                "query='separate', or 0"
            )

    @property
    def given(self) -> tuple[int, int]:
        """Tokens and coordinates of a model's input; a separate query is one more token."""
        return self.tokens + (self.query == "separate"), self.dim

    @property
    def repeats(self) -> int:
        """Batches after which the training data comes again."""
        return self.replay


@dataclass(frozen=True)
class Regression(Task):
    """Learn a linear function from examples in the context.

    The input is `examples` tokens (x, <w, x> + noise), then `queries` tokens (x, 0). The answer to each query is
    <w, x>, read in the last coordinate. x is normal in `dim` dimensions; w is normal of variance 1/dim and another one
    in each sample, so that zeros score 1. As in the in-context regression of Garg et al. (2208.01066), which the second
    paper repeats with fewer and more heads; but an example is one token, and all queries ask at once, so that the
    encoder of the rank experiments can do it.

    `noise` is a standard deviation. `replay` and `held` are as in `NearestNeighbor`."""

    dim: int = 5
    examples: int = 10
    queries: int = 4
    noise: float = 0.0
    replay: int = 0
    held: int = 4096

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, least in (("dim", 1), ("examples", 1), ("queries", 1), ("replay", 0), ("held", 1)):
            between(f"Regression.{name}", getattr(self, name), least, whole=True)
        between("Regression.noise", self.noise, 0)

    @property
    def given(self) -> tuple[int, int]:
        """Tokens and coordinates of a model's input."""
        return self.examples + self.queries, self.dim + 1

    @property
    def repeats(self) -> int:
        """Batches after which the training data comes again."""
        return self.replay
